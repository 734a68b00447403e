"""View: everything that `plan` reads besides the flow and the time, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.planning.actions import WantKey
from jobflow.core.spec.concurrency import Group, GroupName
from jobflow.core.timestamps import add
from jobflow.core.violations import Violation

ERROR_SHOWN = timedelta(seconds=5)
"""Time after which a step says that its create fails by an error of the API server."""


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
    """A vcjob of somebody else, read live, that has a name which the flow needs."""

    job: Job
    owner_alive: bool
    """False if its controller owner is gone or being deleted; True if it has no owner."""
    retry_at: datetime | None = None
    """When the create may be tried again, if the name may become free. None: as soon as the answer
    is no longer in the View."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a create that was refused for a reason that applies to this vcjob only."""

    code: int
    """HTTP status: 422 is final; 400 and 403 may change (another webhook)."""
    message: str
    retry_at: datetime | None
    """When the create may be tried again; None: never."""

    @property
    def is_final(self) -> bool:
        """Whether no further create is tried."""
        return self.code == 422  # noqa: PLR2004 - Unprocessable Entity


@dataclass(frozen=True, slots=True)
class CreateError:
    """A create, or the move of a claim, failed by an error of the API server, or got no answer. It
    is sent again in the backoff of the flow."""

    message: str
    """The last error."""
    since: datetime
    """When the first of these creates was sent."""

    @property
    def shown_at(self) -> datetime:
        """When a step says it: most errors are over by then."""
        return add(self.since, ERROR_SHOWN)


@dataclass(frozen=True, slots=True)
class ClaimHolder:
    """A PersistentVolumeClaim of others, or one being deleted, has a name that the flow needs."""

    owner: OwnerReference | None
    """Its controller owner."""
    going: bool
    """Whether it is being deleted, or its owner is gone, so that the name becomes free."""
    retry_at: datetime
    """When the create may be tried again."""


ClaimAnswer = Refusal | ClaimHolder | CreateError | None
"""The answer to the create or move of a PersistentVolumeClaim; None: it is the flow's."""


@dataclass(frozen=True, slots=True)
class PodsRead:
    """The answer to ReadPods: the pods of a vcjob, read live."""

    pods: tuple[Pod, ...] = ()
    trouble: str = ""
    """Why they could not be read, or ""."""
    retry_at: datetime | None = None
    """When they may be read again; None: the answer is final."""


@dataclass(frozen=True, slots=True)
class View:
    """A frozen snapshot of the cluster for one flow."""

    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    """Templates of the flow's namespace, by name."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """vcjobs and child flows (`children.ChildFlow`) by name whose controller owner is this flow's
    UID, or whose UID its status has, and vcjobs without a controller that this flow has created. A
    deleted one stays, as it was last seen, until the flow's status holds its end."""
    source: JobFlow | None = None
    """The flow that `spec.reuse` names, if it exists; later the one that the status names."""
    claim_takers: Sequence[JobFlow] = ()
    """The flows of the namespace that may have taken volume claims, if the plan asks for them."""
    source_children: Mapping[str, ObjectMeta] = field(default_factory=dict)
    """The metadata of its child flows that exist, by name."""
    reused_by: Sequence[str] = ()
    """Names of the flows that have not ended and name this one in `spec.reuse`."""
    is_awaited: bool = False
    """Whether the flow's CronJobFlow waits for it (`status.waitsFor`), or may do so."""
    parent: JobFlow | None = None
    """The flow of which this one is a child; None if it is no child, or its parent is gone."""
    deleted: frozenset[str] = frozenset()
    """Names of vcjobs that are gone: some of `jobs`, and those that ReadJob did not find."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Answers to creates whose name was already in use, by vcjob name."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """Answers to creates that were refused for one vcjob only, by its name."""
    create_errors: Mapping[str, CreateError] = field(default_factory=dict)
    """Errors of creates that have not succeeded since, by vcjob name."""
    violations: Sequence[Violation] = ()
    """Faults of a flow that has not begun (`plan.judge`), in case it was stored without review."""
    claims: Mapping[str, ClaimAnswer] = field(default_factory=dict)
    """Answers to CreateClaim and MoveClaim, by the claim's name; None: it is the flow's."""
    held: Held | None = None
    """The answer that holds back all creates of the flow but a few, or None."""
    groups: Mapping[GroupName, Group] = field(default_factory=dict)
    """The other flows of the concurrency groups of the flow and of its steps."""
    cancels: Mapping[str, datetime] = field(default_factory=dict)
    """When CancelFlow was last sent, by the UID of the other flow. Losing it costs one Command."""
    commands: Mapping[str, Command] | None = field(default_factory=dict)
    """Commands by name that target this flow or an earlier one of this name; None: not known."""
    aborts: Mapping[str, datetime] = field(default_factory=dict)
    """When AbortJob was last sent, by the vcjob's UID, and CommandFlow, by its key. Losing it costs
    one Command."""
    pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Pods by their vcjob's UID and by name, as last watched. They may be behind: they can show
    that something has happened, never that it has not."""
    gone_pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Pods that were deleted after their end, by the UID of their vcjob, then by name: only those
    whose termination message may be the outputs."""
    pods_followed: bool = True
    """Whether pods are watched; else a vcjob without entry in `pods` may have pods."""
    read: Mapping[str, PodsRead] = field(default_factory=dict)
    """Answers to ReadPods, by the vcjob's UID."""
    answers: Mapping[WantKey, Any] = field(default_factory=dict)
    """Answers so far to the wants of the last plan, by their keys."""

    def is_going(self, job: Job) -> bool:
        """Return whether a vcjob or child flow of `jobs` is gone or being deleted."""
        return job.metadata.name in self.deleted or job.metadata.deletion_timestamp is not None
