"""Fields of Volcano jobs and probes, written by tools/authoring_types.py (`make manifests`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jobflow.core.suggest import Suggester, did_you_mean


class Fields:
    """An object of the API. Its fields have the names of the API in snake_case; fields that are
    None are not set."""

    def __new__(cls, **fields: Any) -> Self:
        """Raises TypeError for a field that does not exist."""
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]
        for name in fields.keys() - known.keys():
            guess = did_you_mean(Suggester([*known]).nearest(name))
            raise TypeError(f"{cls.__name__} has no field {name}{guess}")
        return super().__new__(cls)


@dataclass(frozen=True, kw_only=True, eq=False)
class JobSpec(Fields):
    """Specification of a Volcano job."""

    scheduler_name: str | None = None
    """Scheduler of the pods. Volcano's default: volcano."""
    min_available: int | None = None
    """Number of pods that must be available for the job to run (gang), at most all replicas."""
    min_success: int | None = None
    """Number of pods that must succeed for the job to be Completed."""
    volumes: Sequence[Volume] | None = None
    """Volumes that are mounted into every pod."""
    tasks: Sequence[Task] | None = None
    """Tasks of the job, at least one."""
    policies: Sequence[LifecyclePolicy] | None = None
    """Lifecycle policies for events of any task."""
    plugins: Mapping[str, Sequence[str]] | None = None
    """Arguments of Volcano's job plugins (env, svc, ssh, pytorch, mpi …), by plugin name."""
    running_estimate: str | None = None
    """Expected running time of the job, such as "2h"."""
    queue: str | None = None
    """Queue of the job. Volcano's default: default."""
    max_retry: int | None = None
    """Maximum number of restarts before the job fails. Volcano's default: 3."""
    ttl_seconds_after_finished: int | None = None
    """Seconds after which the finished job is deleted. Default: never."""
    priority_class_name: str | None = None
    """Priority class of the pods."""
    network_topology: NetworkTopology | None = None
    """Required proximity of the pods."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(Fields):
    """A number of pods with the same pod template."""

    name: str | None = None
    """Name, unique in the job: lower-case letters, digits and dashes (DNS-1123)."""
    replicas: int | None = None
    """Number of pods."""
    min_available: int | None = None
    """Number of pods that must be available for the task to run."""
    template: Mapping[str, Any] | None = None
    """Pod template; see `kubectl explain pod.spec`."""
    policies: Sequence[LifecyclePolicy] | None = None
    """Lifecycle policies of the task, evaluated before the job's."""
    max_retry: int | None = None
    """Maximum number of restarts of the task before the job fails."""
    topology_policy: str | None = None
    """NUMA policy: none, best-effort, restricted or single-numa-node."""
    depends_on: TaskDependsOn | None = None
    """Tasks of the job that must start before this one."""
    partition_policy: PartitionPolicy | None = None
    """Division of the task's pods into partitions."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LifecyclePolicy(Fields):
    """Action of Volcano on an event or an exit code of a task's pods."""

    action: str | None = None
    """Action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob,
    CompleteJob or ResumeJob."""
    event: str | None = None
    """Event that triggers it: PodPending, PodRunning, PodFailed, PodEvicted, Unknown,
    TaskCompleted, TaskFailed, OutOfSync, CommandIssued, JobUpdated, or `*` for any. Excludes
    exitCode."""
    events: Sequence[str] | None = None
    """Several events for the action. Excludes exitCode."""
    exit_code: int | None = None
    """Exit code of a container that triggers it, not 0. Excludes event and events."""
    timeout: str | None = None
    """Time that the event must last before the action, such as "30s"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskDependsOn(Fields):
    """Tasks of the same job that must start before this one."""

    name: Sequence[str] | None = None
    """Names of tasks of this job."""
    iteration: str | None = None
    """any: wait for one of them; all: wait for every one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Volume(Fields):
    """A volume that is mounted into every pod of the job."""

    mount_path: str | None = None
    """Path to mount it at, unique in the job, without a colon."""
    volume_claim_name: str | None = None
    """Name of an existing claim. Excludes volumeClaim."""
    volume_claim: Mapping[str, Any] | None = None
    """Claim that Volcano creates for the job; see `kubectl explain pvc.spec`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkTopology(Fields):
    """Required proximity of the pods in the network topology."""

    mode: str | None = None
    """hard or soft."""
    highest_tier_allowed: int | None = None
    """Highest tier that the pods may span. Excludes highestTierName."""
    highest_tier_name: str | None = None
    """Name of the highest tier that the pods may span. Excludes highestTierAllowed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionPolicy(Fields):
    """Division of a task's pods into partitions that are placed together."""

    total_partitions: int | None = None
    """Number of partitions."""
    partition_size: int | None = None
    """Number of pods in a partition."""
    min_partitions: int | None = None
    """Number of partitions that must be available for the task to run."""
    network_topology: NetworkTopology | None = None
    """Required proximity of the pods of a partition."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe(Fields):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass
    for it; the condition is ignored."""

    http_get_list: Sequence[HTTPGetProbe] | None = None
    """HTTP requests that must succeed."""
    tcp_socket_list: Sequence[TCPSocketProbe] | None = None
    """TCP connections that must succeed."""
    task_status_list: Sequence[TaskStatusProbe] | None = None
    """Pod phases that must be reached."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HTTPGetProbe(Fields):
    """HTTP request to each pod of a task."""

    task_name: str | None = None
    """Name of the task whose pods are probed."""
    path: str | None = None
    """Path, which begins with a slash."""
    port: int | None = None
    """Port, 1 to 65535."""
    http_header: HTTPHeader | None = None
    """Header to send."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HTTPHeader(Fields):
    """HTTP header of a probe."""

    name: str | None = None
    """Name of the header."""
    value: str | None = None
    """Value of the header."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TCPSocketProbe(Fields):
    """TCP connection to each pod of a task."""

    task_name: str | None = None
    """Name of the task whose pods are probed."""
    port: int | None = None
    """Port, 1 to 65535."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskStatusProbe(Fields):
    """Phase of a task's pods."""

    task_name: str | None = None
    """Name of the task whose pods are counted."""
    phase: str | None = None
    """Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase has
    reached Pending and Running too."""
    count: int | None = None
    """Number of pods that must reach the phase. Default: all."""
