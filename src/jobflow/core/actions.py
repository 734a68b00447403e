"""What `plan` may look at and what it may ask for: values only, carried out elsewhere.

A plan never waits for its own status. What is irreversible (a delete) is planned only when the
status that was read already holds its reason; so `apply` may carry out the actions of one plan in
any order and together with its status write, and a crash between any two of them loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from jobflow.api.command import Command
from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.job import Job
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod


@dataclass(frozen=True, slots=True)
class Holder:
    """A vcjob, read live, that has a name which we wanted and which is not ours."""

    job: Job
    owner_alive: bool
    """False when its controller owner is gone or being deleted; True when it has no owner."""
    retry_at: datetime | None = None
    """When the create may be tried again, if the name may become free; until then the answer
    stands. None: as soon as the answer is no longer in the View."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's answer to a create, if it holds back only this vcjob."""

    code: int
    """HTTP status: 422 is for good; 400 and 403 may be lifted (another webhook)."""
    message: str
    retry_at: datetime | None
    """When the create may be tried again; None: never."""


@dataclass(frozen=True, slots=True)
class Held:
    """The API server refused a create for a reason that applies to the whole namespace (a quota,
    missing rights), so it would refuse the flow's other creates too."""

    message: str
    """Why, in the API server's words."""
    retry_at: datetime | None
    """When the next create may be tried; None: never (the namespace is being deleted)."""
    tried: tuple[str, ...] = ()
    """The vcjobs that were refused, the one that was refused longest ago first."""
    room: int = 1
    """How many creates may be tried at once; it grows with each one that succeeds."""

    def is_due(self, now: datetime) -> bool:
        """Whether a create may be tried."""
        return self.retry_at is not None and now >= self.retry_at


@dataclass(frozen=True, slots=True)
class PodsRead:
    """The answer to ReadPods: the pods of a vcjob, read live."""

    pods: tuple[Pod, ...] = ()
    trouble: str = ""
    """Why they could not be read; empty: they were."""
    retry_at: datetime | None = None
    """When they may be asked for again; None: the answer is definite."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How a Probe stands."""

    passed: bool = False
    message: str = ""
    """What is in the way, as last seen: `pod x-ps-0 answers 503`; empty: nothing is known yet.
    It holds no counts and no times, so that it changes only when the matter does."""


@dataclass(frozen=True, slots=True)
class View:
    """A frozen snapshot of all that a plan may look at, for one flow."""

    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    """Templates of the flow's namespace by name; one that is not there does not exist yet."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """vcjobs by name whose controller owner is this flow's UID, and the last object seen of those
    that were deleted (until the flow's status holds their outcome)."""
    deleted: frozenset[str] = frozenset()
    """Which of `jobs` are gone from the cluster."""
    absent: frozenset[str] = frozenset()
    """Answers to Confirm: vcjobs that a live read, after a live read of this very flow, did not
    find."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Answers to creates that met a name already in use, by vcjob name."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """Answers to refused creates that hold back only one vcjob, by its name."""
    held: Held | None = None
    """The answer that holds back all creates of the flow but a few; None: nothing does."""
    commands: Mapping[str, Command] | None = field(default_factory=dict)
    """Commands by name that target a flow of this name, be it this one or an earlier one; None:
    not known."""
    aborts: Mapping[str, datetime] = field(default_factory=dict)
    """When AbortJob was last carried out, by the vcjob's UID. Forgetting it costs one Command."""
    pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Pods by their vcjob's UID and by name, as they were last watched: good enough to see that
    something has come about, never to conclude that it has not."""
    pods_followed: bool = True
    """False: pods cannot be watched at present, so that a vcjob without any in `pods` may have
    some."""
    read: Mapping[str, PodsRead] = field(default_factory=dict)
    """Answers to ReadPods, by the vcjob's UID."""
    probes: Mapping[tuple[str, str], ProbeResult] = field(default_factory=dict)
    """How the Probes of the last plan stand, by step and target's vcjob UID."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Make this vcjob."""

    step: str
    name: str
    manifest: Mapping[str, Any]
    """The whole object, ready to send."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this vcjob, if it still is the one with this UID; gone already is success."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Read the flow and this vcjob live: the answer is in the next View."""

    name: str


@dataclass(frozen=True, slots=True)
class AbortJob:
    """Make a Command that has Volcano abort this vcjob; one that is there still will do."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteCommand:
    """Delete this Command, if it still is the one with this UID; gone already is success."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteFlow:
    """Delete the flow itself, if it still is as it was read; its vcjobs go with it."""

    uid: str


@dataclass(frozen=True, slots=True)
class ReadPods:
    """List the pods of this vcjob live: the answer is in the next View."""

    job: str
    uid: str


Action = CreateJob | DeleteJob | Confirm | AbortJob | DeleteCommand | DeleteFlow | ReadPods


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of a probe: a request that every pod of a task has to answer."""

    task: str
    pods: int
    """How many the task has: its replicas."""
    port: int
    path: str | None = None
    """None: a connection is enough (tcpSocketList). Else an HTTP GET has to be answered by 2xx or
    3xx (httpGetList)."""
    header: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to be checked on a vcjob's pods for as long as plans say so."""

    step: str
    """The step that waits."""
    job: str
    uid: str
    """Of the target's vcjob."""
    checks: tuple[Check, ...]
    """All have to pass, in one round."""


class EventType(StrEnum):
    """`type` of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell the user by an Event on the flow."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now about one flow."""

    actions: tuple[Action, ...]
    status: JobFlowStatus
    """The whole status to be; the same as the flow's when there is nothing to write."""
    urgent: bool = False
    """Whether the status has to be written at once: the flow's phase changed, or what comes next
    waits for it. Otherwise writes may be coalesced to one a second."""
    events: tuple[Event, ...] = ()
    """What is worth telling of the way from the flow's status to `status`: to be sent once, when
    that status is written. Until it is, every plan tells it again."""
    requeue_after: timedelta | None = None
    """When to plan again although nothing happened, always later than now; None: not by time."""
    probes: tuple[Probe, ...] = ()
    """What is to be probed until the next plan; what is no longer among them is not. They are no
    actions: carrying them out changes nothing."""
