"""`batch.volcano.sh/v1alpha1` Job (a vcjob): the spec of a template, and the status that is read.

Fields have no defaults, because Volcano sets them (pkg/apis/batch/v1alpha1/job.go).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.resources import ObjectMeta, Schema, Struct

Int32 = Annotated[int, Schema(format="int32")]
Opaque = Schema(**{"x-kubernetes-preserve-unknown-fields": True})


NOT_COMPARED = object()
"""Mark of a field that says where, when or how often a job runs, not what it does: a flow that
reuses another does not compare it (`core/manifests/fingerprint.py`)."""


class JobPhase(StrEnum):
    """`status.state.phase` of a vcjob, which is empty at first."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


ENDED_PHASES = frozenset(
    {JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED}
)
"""Phases in which a vcjob has ended, unless it is resumed."""


class LifecyclePolicy(Struct):
    """Action of Volcano on an event or an exit code of a task's pods."""

    action: str | None = None
    """Action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob,
    CompleteJob or ResumeJob."""
    event: str | None = None
    """Event that triggers it: PodPending, PodRunning, PodFailed, PodEvicted, Unknown,
    TaskCompleted, TaskFailed, OutOfSync, CommandIssued, JobUpdated, or `*` for any. Excludes
    exitCode."""
    events: list[str] | None = None
    """Several events for the action. Excludes exitCode."""
    exit_code: Int32 | None = None
    """Exit code of a container that triggers it, not 0. Excludes event and events."""
    timeout: str | None = None
    """Time that the event must last before the action, such as "30s"."""


class NetworkTopology(Struct):
    """Required proximity of the pods in the network topology."""

    mode: str | None = None
    """hard or soft."""
    highest_tier_allowed: int | None = None
    """Highest tier that the pods may span. Excludes highestTierName."""
    highest_tier_name: str | None = None
    """Name of the highest tier that the pods may span. Excludes highestTierAllowed."""


class PartitionPolicy(Struct):
    """Division of a task's pods into partitions that are placed together."""

    total_partitions: Int32 | None = None
    """Number of partitions."""
    partition_size: Int32 | None = None
    """Number of pods in a partition."""
    min_partitions: Int32 | None = None
    """Number of partitions that must be available for the task to run."""
    network_topology: NetworkTopology | None = None
    """Required proximity of the pods of a partition."""


class TaskDependsOn(Struct):
    """Tasks of the same job that must start before this one."""

    name: list[str] | None = None
    """Names of tasks of this job."""
    iteration: str | None = None
    """any: wait for one of them; all: wait for every one."""


class Task(Struct):
    """A number of pods with the same pod template."""

    name: str | None = None
    """Name, unique in the job: lower-case letters, digits and dashes (DNS-1123)."""
    replicas: Int32 | None = None
    """Number of pods."""
    min_available: Int32 | None = None
    """Number of pods that must be available for the task to run."""
    template: Annotated[dict[str, Any] | None, Opaque] = None
    """Pod template; see `kubectl explain pod.spec`."""
    policies: Annotated[list[LifecyclePolicy] | None, NOT_COMPARED] = None
    """Lifecycle policies of the task, evaluated before the job's."""
    max_retry: Annotated[Int32 | None, NOT_COMPARED] = None
    """Maximum number of restarts of the task before the job fails."""
    topology_policy: Annotated[str | None, NOT_COMPARED] = None
    """NUMA policy: none, best-effort, restricted or single-numa-node."""
    depends_on: TaskDependsOn | None = None
    """Tasks of the job that must start before this one."""
    partition_policy: PartitionPolicy | None = None
    """Division of the task's pods into partitions."""


class Volume(Struct):
    """A volume that is mounted into every pod of the job."""

    mount_path: str | None = None
    """Path to mount it at, unique in the job, without a colon."""
    volume_claim_name: str | None = None
    """Name of an existing claim. Excludes volumeClaim."""
    volume_claim: Annotated[dict[str, Any] | None, Opaque] = None
    """Claim that Volcano creates for the job; see `kubectl explain pvc.spec`."""


class JobSpec(Struct):
    """Specification of a Volcano job."""

    scheduler_name: Annotated[str | None, NOT_COMPARED] = None
    """Scheduler of the pods. Volcano's default: volcano."""
    min_available: Int32 | None = None
    """Number of pods that must be available for the job to run (gang), at most all replicas."""
    min_success: Int32 | None = None
    """Number of pods that must succeed for the job to be Completed."""
    volumes: list[Volume] | None = None
    """Volumes that are mounted into every pod."""
    tasks: list[Task] | None = None
    """Tasks of the job, at least one."""
    policies: Annotated[list[LifecyclePolicy] | None, NOT_COMPARED] = None
    """Lifecycle policies for events of any task."""
    plugins: dict[str, list[str]] | None = None
    """Arguments of Volcano's job plugins (env, svc, ssh, pytorch, mpi …), by plugin name."""
    running_estimate: Annotated[str | None, NOT_COMPARED] = None
    """Expected running time of the job, such as "2h"."""
    queue: Annotated[str | None, NOT_COMPARED] = None
    """Queue of the job. Volcano's default: default."""
    max_retry: Annotated[Int32 | None, NOT_COMPARED] = None
    """Maximum number of restarts before the job fails. Volcano's default: 3."""
    ttl_seconds_after_finished: Annotated[Int32 | None, NOT_COMPARED] = None
    """Seconds after which the finished job is deleted. Default: never."""
    priority_class_name: Annotated[str | None, NOT_COMPARED] = None
    """Priority class of the pods."""
    network_topology: Annotated[NetworkTopology | None, NOT_COMPARED] = None
    """Required proximity of the pods."""


class JobState(Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class JobCondition(Struct):
    """An entry of a vcjob's history: a phase and its beginning."""

    status: str = ""
    last_transition_time: datetime | None = None


class TaskState(Struct):
    """Number of a task's pods in each pod phase."""

    phase: dict[str, Int32] | None = None
    """Number of pods by pod phase."""


class JobStatus(Struct):
    """`status` of a vcjob. Volcano removes counts and taskStatusCount from a completed vcjob."""

    state: JobState = msgspec.field(default_factory=JobState)
    min_available: int | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None
    version: int | None = None
    retry_count: int | None = None
    running_duration: str | None = None
    conditions: list[JobCondition] | None = None


Odd = str | int | float | bool | list[Any] | None
"""Any value in place of an object. Volcano's CRD has no schema for pod templates, and one malformed
vcjob must not make a whole list unreadable."""


class ContainerResources(Struct):
    """A container's resources: maps of quantities, which are strings or numbers."""

    requests: Any = None
    limits: Any = None


class ContainerOutline(Struct):
    name: Any = None
    resources: ContainerResources | Odd = None


OddList = list[ContainerOutline | Odd] | dict[str, Any] | str | int | float | bool | None
"""A list of containers, or any value in its place."""


class PodOutline(Struct):
    containers: OddList = None
    init_containers: OddList = None

    @property
    def asking(self) -> list[ContainerOutline]:
        return _containers(self.containers)

    @property
    def asking_first(self) -> list[ContainerOutline]:
        return _containers(self.init_containers)


def _containers(found: OddList) -> list[ContainerOutline]:
    # malformed values count as missing
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, ContainerOutline)]


class PodTemplateOutline(Struct):
    spec: PodOutline | Odd = None


class PolicyOutline(Struct):
    event: str | None = None
    events: list[str] | None = None
    action: str | None = None


class TaskOutline(Struct):
    name: str | None = None
    replicas: int | None = None
    policies: list[PolicyOutline] | None = None
    template: PodTemplateOutline | Odd = None

    @property
    def pod(self) -> PodOutline:
        """The outline of the task's pods, empty if the template is malformed."""
        template = self.template
        spec = template.spec if isinstance(template, PodTemplateOutline) else None
        return spec if isinstance(spec, PodOutline) else PodOutline()


class JobOutline(Struct):
    """The part of a vcjob's spec that is kept."""

    tasks: list[TaskOutline] | None = None
    policies: list[PolicyOutline] | None = None


class Job(Struct):
    """A vcjob with an outline of its spec."""

    api_version: str = "batch.volcano.sh/v1alpha1"
    kind: str = "Job"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobOutline = msgspec.field(default_factory=JobOutline)
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    @property
    def phase(self) -> str:
        """`status.state.phase`; an empty phase counts as Pending."""
        return self.status.state.phase or JobPhase.PENDING

    @property
    def ended(self) -> bool:
        return self.status.state.phase in ENDED_PHASES
