"""Plan: the actions, wants, status and events that `plan` returns. `apply` sends the actions.

A plan never waits for its own status. It contains an irreversible action (a delete) only if the
status that was read already holds the reason. So `apply` may send the actions of one plan in any
order and together with its status write, and a crash between any two of them loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import RETRIES
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.api.volcano.job import Job
from jobflow.core.work import work_of_object


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition for creating a further attempt. It is read live just before the create."""

    uid: str
    """The flow has this UID and has not changed since the plan was made."""
    gone: str = ""
    """No vcjob of the flow has this name; "" if the latest attempt was seen to end."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create this vcjob or child flow."""

    step: str
    name: str
    manifest: Mapping[str, Any]
    """The whole object, ready to send."""
    guard: Guard | None = None
    """None for a first attempt: its name alone prevents a second vcjob."""
    kind: WorkKind = WorkKind.JOB


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create this PersistentVolumeClaim; the answer is in the next View."""

    name: str
    manifest: Mapping[str, Any]
    """The whole object, ready to send."""


@dataclass(frozen=True, slots=True)
class MoveClaim:
    """Make the flow the owner of this PersistentVolumeClaim, if its owner has this UID; the answer
    is in the next View."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this vcjob or ended child flow if it still has this UID; success if it is gone."""

    name: str
    uid: str
    kind: WorkKind = WorkKind.JOB

    @classmethod
    def of(cls, job: Job) -> DeleteJob:
        """Return the delete of a vcjob or a child flow."""
        return cls(job.metadata.name, job.metadata.uid, work_of_object(job).kind)


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read the flow and this vcjob or child flow live; the answer is in the next View."""

    name: str
    kind: WorkKind = WorkKind.JOB


@dataclass(frozen=True, slots=True)
class AbortJob:
    """Create a Command with which Volcano aborts this vcjob, unless there is one already."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CancelFlow:
    """Create a Command that cancels another flow, unless there is one already."""

    name: str
    uid: str
    message: str


COMMAND_AGAIN = timedelta(seconds=10)
"""Time until another Command for an object on which one had no effect."""


@dataclass(frozen=True, slots=True)
class CommandFlow:
    """Create a Command on this child flow, unless there is one already."""

    name: str
    uid: str
    action: CommandAction

    @property
    def key(self) -> str:
        """The key of `View.aborts` under which the time of the Command is kept."""
        return f"{self.uid} {self.action}"


def outdated(sent: Iterable[str], jobs: Iterable[Job]) -> list[str]:
    """Return the keys of `View.aborts` whose Commands no longer count for these jobs."""
    ended = {job.metadata.uid: job.ended for job in jobs}
    # an abort counts until the job has ended, a retry of a child flow until it runs
    parts = ((key, *key.partition(" ")) for key in sent)
    return [key for key, uid, _, action in parts if ended.get(uid) != (action in RETRIES)]


@dataclass(frozen=True, slots=True)
class DeleteCommand:
    """Delete this Command if it still has this UID; success if it is already gone."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteFlow:
    """Delete the flow if it has not changed since it was read; its vcjobs are deleted with it."""

    uid: str


@dataclass(frozen=True, slots=True)
class ReadPods:
    """List the pods of this vcjob live; the answer is in the next View."""

    job: str
    uid: str


Action = (
    CreateJob
    | CreateClaim
    | MoveClaim
    | DeleteJob
    | ReadJob
    | AbortJob
    | CancelFlow
    | CommandFlow
    | DeleteCommand
    | DeleteFlow
    | ReadPods
)


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of a probe: a request that every pod of a task must answer."""

    task: str
    pods: int
    """The replicas of the task."""
    port: int
    path: str | None = None
    """Path of an HTTP GET that must be answered by 2xx or 3xx (httpGetList). None if a connection
    is enough (tcpSocketList)."""
    header: tuple[str, str] | None = None


WantKey = tuple[str, str]
"""Step, and what of it wants something: the key of the answer in `View.answers`."""


class Want(Protocol):
    """Anything that lasts. Actions are sent once, and no other plan is made meanwhile; the
    controller keeps a want up as long as plans contain it (`controller/wants.py`)."""

    @property
    def key(self) -> WantKey: ...

    def assume(self, count_running: Callable[[str, str], int]) -> Any:
        """Return the answer in virtual time, where all goes well. `count_running`: counts the
        Running pods of a task of a vcjob."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer to a JobProbe so far."""

    passed: bool = False
    message: str = ""
    """Why it has not passed yet: `pod x-ps-0 answers 503`; "" if nothing is known. It holds no
    counts and no times, so that it changes only with the cause."""


@dataclass(frozen=True, slots=True)
class JobProbe:
    """A check of a vcjob's pods that is repeated until it passes."""

    step: str
    """The waiting step."""
    job: str
    uid: str
    checks: tuple[Check, ...]
    """All must pass in one round."""

    @property
    def key(self) -> WantKey:
        """The step and the UID of the vcjob."""
        return self.step, self.uid

    def assume(self, count_running: Callable[[str, str], int]) -> ProbeResult:
        # a pod answers as soon as it is Running, as in the sandbox
        return ProbeResult(all(count_running(self.job, c.task) >= c.pods for c in self.checks))


@dataclass(frozen=True, slots=True)
class PodWarning:
    """A pod that has a node, does not start and does not say why: its last warning is wanted, such
    as `FailedMount: …`, or "" if it has none."""

    step: str
    pod: str
    uid: str

    @property
    def key(self) -> WantKey:
        """The step and the UID of the pod."""
        return self.step, self.uid

    def assume(self, count_running: Callable[[str, str], int]) -> str:
        return ""


class EventType(StrEnum):
    """`type` of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event on the flow."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to do now about one flow."""

    actions: tuple[Action, ...]
    status: JobFlowStatus
    """The new status; equal to the flow's status if there is nothing to write."""
    urgent: bool = False
    """Whether the status must be written at once, because the flow's phase changes or a next action
    waits for it. Other writes may be coalesced to one a second."""
    continues: bool = False
    """Whether a next action waits for the status to be written."""
    events: tuple[Event, ...] = ()
    """The Events of the changes from the flow's status to `status`. They are sent once, when that
    status is written; until then every plan contains them."""
    requeue_after: timedelta | None = None
    """When to plan again although nothing happened; always positive. None: only after an event."""
    wants: tuple[Want, ...] = ()
    """All that is kept up until the next plan."""
    only_ends_matter: bool = False
    """Whether a vcjob lets steps start only by its end, so that a vcjob that becomes Pending or
    Running changes nothing but the status."""
