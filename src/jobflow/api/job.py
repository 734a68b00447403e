"""`batch.volcano.sh/v1alpha1` Job (a vcjob): the spec a template holds, and the status we read.

Shapes are Volcano's (staging/src/volcano.sh/apis/pkg/apis/batch/v1alpha1/job.go). No field has a
default value here: defaults come from Volcano when the vcjob is made.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.meta import Doc, ListMeta, ObjectMeta, Struct

Int32 = Annotated[int, Doc("", format="int32")]
Opaque = {"x-kubernetes-preserve-unknown-fields": True}


class JobPhase(StrEnum):
    """`status.state.phase` of a vcjob. A fresh vcjob has none."""

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
"""The phases in which a vcjob has ended: nothing more comes unless someone resumes it."""


class LifecyclePolicy(Struct, frozen=True, kw_only=True):
    """What Volcano does on an event or an exit code of a task's pods."""

    action: Annotated[
        str | None,
        Doc(
            "What to do: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, "
            "TerminateJob, CompleteJob or ResumeJob."
        ),
    ] = None
    event: Annotated[
        str | None,
        Doc(
            "The event that triggers it: PodPending, PodRunning, PodFailed, PodEvicted, Unknown, "
            "TaskCompleted, TaskFailed, OutOfSync, CommandIssued, JobUpdated, or `*` for any. "
            "Either event(s) or exitCode, not both."
        ),
    ] = None
    events: Annotated[list[str] | None, Doc("Several events for one action.")] = None
    exit_code: Annotated[
        Int32 | None, Doc("The exit code of a container that triggers it; not 0.")
    ] = None
    timeout: Annotated[
        str | None, Doc('How long the event must last before the action, such as "30s".')
    ] = None


class NetworkTopology(Struct, frozen=True, kw_only=True):
    """How close together, on the network, the pods have to be."""

    mode: Annotated[str | None, Doc("hard or soft.")] = None
    highest_tier_allowed: Annotated[
        int | None, Doc("The highest tier that may be crossed. Excludes highestTierName.")
    ] = None
    highest_tier_name: Annotated[
        str | None, Doc("The same by the tier's name. Excludes highestTierAllowed.")
    ] = None


class PartitionPolicy(Struct, frozen=True, kw_only=True):
    """How the pods of a task are split into partitions that are placed together."""

    total_partitions: Annotated[Int32 | None, Doc("How many partitions there are.")] = None
    partition_size: Annotated[Int32 | None, Doc("How many pods a partition has.")] = None
    min_partitions: Annotated[
        Int32 | None, Doc("How many partitions must be there for the task to run.")
    ] = None
    network_topology: Annotated[
        NetworkTopology | None, Doc("How close together the pods of one partition have to be.")
    ] = None


class TaskDependsOn(Struct, frozen=True, kw_only=True):
    """The tasks of the same job that must have been started before this one."""

    name: Annotated[list[str] | None, Doc("Names of tasks of this job.")] = None
    iteration: Annotated[str | None, Doc("any: one of them is enough. all: every one.")] = None


class Task(Struct, frozen=True, kw_only=True):
    """A task: a number of pods from one pod template."""

    name: Annotated[
        str | None, Doc("Unique in the job, lower-case letters, digits and dashes (DNS-1123).")
    ] = None
    replicas: Annotated[Int32 | None, Doc("How many pods the task has.")] = None
    min_available: Annotated[
        Int32 | None, Doc("How many of them must be available for the task to run.")
    ] = None
    template: Annotated[
        dict[str, Any] | None,
        Doc("The pod template; `kubectl explain pod.spec` has its fields.", **Opaque),
    ] = None
    policies: Annotated[
        list[LifecyclePolicy] | None, Doc("Policies for this task; they go before the job's.")
    ] = None
    max_retry: Annotated[
        Int32 | None, Doc("How often the task is restarted before the job fails.")
    ] = None
    topology_policy: Annotated[
        str | None, Doc("NUMA policy: none, best-effort, restricted or single-numa-node.")
    ] = None
    depends_on: Annotated[
        TaskDependsOn | None, Doc("Tasks of this job that start before this one.")
    ] = None
    partition_policy: Annotated[
        PartitionPolicy | None, Doc("Splits the task's pods into partitions.")
    ] = None


class Volume(Struct, frozen=True, kw_only=True):
    """A volume that is mounted into every pod of the job."""

    mount_path: Annotated[str | None, Doc("Where it is mounted; once a path, no colon.")] = None
    volume_claim_name: Annotated[str | None, Doc("An existing claim. Excludes volumeClaim.")] = None
    volume_claim: Annotated[
        dict[str, Any] | None,
        Doc(
            "A claim that Volcano makes for the job; `kubectl explain pvc.spec` has its fields.",
            **Opaque,
        ),
    ] = None


class JobSpec(Struct, frozen=True, kw_only=True):
    """The specification of a Volcano job."""

    scheduler_name: Annotated[str | None, Doc("The scheduler; Volcano's default: volcano.")] = None
    min_available: Annotated[
        Int32 | None,
        Doc("How many pods must be available for the job to run (gang); at most all replicas."),
    ] = None
    min_success: Annotated[
        Int32 | None, Doc("How many pods must succeed for the job to be Completed.")
    ] = None
    volumes: Annotated[list[Volume] | None, Doc("Volumes mounted into every pod.")] = None
    tasks: Annotated[list[Task] | None, Doc("The tasks of the job, at least one.")] = None
    policies: Annotated[list[LifecyclePolicy] | None, Doc("What to do on events of any task.")] = (
        None
    )
    plugins: Annotated[
        dict[str, list[str]] | None,
        Doc("Volcano's job plugins by name (env, svc, ssh, pytorch, mpi …) with their arguments."),
    ] = None
    running_estimate: Annotated[
        str | None, Doc('How long the job is expected to run, such as "2h".')
    ] = None
    queue: Annotated[str | None, Doc("The queue; Volcano's default: default.")] = None
    max_retry: Annotated[
        Int32 | None, Doc("How often the job is restarted before it fails; Volcano's default: 3.")
    ] = None
    ttl_seconds_after_finished: Annotated[
        Int32 | None, Doc("How long a finished job is kept; for ever where not set.")
    ] = None
    priority_class_name: Annotated[str | None, Doc("The priority class of the pods.")] = None
    network_topology: Annotated[
        NetworkTopology | None, Doc("How close together the pods have to be.")
    ] = None


class JobState(Struct, frozen=True, kw_only=True):
    """Where a vcjob stands."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class JobCondition(Struct, frozen=True, kw_only=True):
    """One entry of a vcjob's history: the phase it went into, and when."""

    status: str = ""
    last_transition_time: datetime | None = None


class TaskState(Struct, frozen=True, kw_only=True):
    """How many pods of a task are in each pod phase."""

    phase: Annotated[dict[str, Int32] | None, Doc("Number of pods by pod phase.")] = None


class JobStatus(Struct, frozen=True, kw_only=True):
    """`status` of a vcjob. Counts and taskStatusCount go when the job has completed."""

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
"""What may stand for an object in a pod template, which a CRD without a schema lets through: one
strange vcjob must not keep all others from being read."""


class ContainerResources(Struct, frozen=True, kw_only=True):
    """What a container asks for: maps of quantities, which are texts or numbers, by resource."""

    requests: Any = None
    limits: Any = None


class ContainerOutline(Struct, frozen=True, kw_only=True):
    """A container, by its name and what it asks for."""

    name: Any = None
    resources: ContainerResources | Odd = None


OddList = list[ContainerOutline | Odd] | dict[str, Any] | str | int | float | bool | None
"""A list of containers, or what may stand in its place."""


class PodOutline(Struct, frozen=True, kw_only=True):
    """A pod's spec, by what it asks for."""

    containers: OddList = None
    init_containers: OddList = None

    @property
    def asking(self) -> list[ContainerOutline]:
        """The containers."""
        return _containers(self.containers)

    @property
    def asking_first(self) -> list[ContainerOutline]:
        """The init containers."""
        return _containers(self.init_containers)


def _containers(found: OddList) -> list[ContainerOutline]:
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, ContainerOutline)]


class PodTemplateOutline(Struct, frozen=True, kw_only=True):
    """A pod template, by what its pods ask for."""

    spec: PodOutline | Odd = None


class TaskOutline(Struct, frozen=True, kw_only=True):
    """A task, by how many pods it has and what each asks for."""

    name: str | None = None
    replicas: int | None = None
    template: PodTemplateOutline | Odd = None

    @property
    def pod(self) -> PodOutline:
        """What is known of its pods; an empty outline where that is nothing."""
        template = self.template
        spec = template.spec if isinstance(template, PodTemplateOutline) else None
        return spec if isinstance(spec, PodOutline) else PodOutline()


class JobOutline(Struct, frozen=True, kw_only=True):
    """What is kept of a vcjob's spec."""

    tasks: list[TaskOutline] | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A vcjob as the controller keeps it: metadata, status, and of the spec its outline."""

    api_version: str = "batch.volcano.sh/v1alpha1"
    kind: str = "Job"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobOutline = msgspec.field(default_factory=JobOutline)
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    @property
    def phase(self) -> str:
        """`status.state.phase`; the empty phase of a fresh vcjob counts as Pending."""
        return self.status.state.phase or JobPhase.PENDING

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.state.phase in ENDED_PHASES


class JobList(Struct, frozen=True, kw_only=True):
    """A page of vcjobs."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Job] = []
