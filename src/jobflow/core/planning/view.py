"""What `plan` may look at: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jobflow.api.command import Command
from jobflow.api.job import Job
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod


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
    """Names of vcjobs that are gone from the cluster: some of `jobs`, and those that ReadJob did
    not find."""
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
