"""A vcjob as its job controller reads it, with the defaults that Volcano's webhook would set.

Values only. The defaults are applied to what is read and never written back: on a real cluster
the stored object has them from the moment it is made, and a later write would make a second
generation of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from jobflow.api.job import JobSpec, JobStatus, Task
from jobflow.api.meta import ObjectMeta, Struct

DEFAULT_QUEUE = "default"
DEFAULT_SCHEDULER = "volcano"
DEFAULT_MAX_RETRY = 3
FINISHED_PHASES = frozenset({"Completed", "Failed", "Terminated"})
"""The phases that nothing leads out of. An Aborted vcjob can be resumed and is not among them."""


class VcjobObject(Struct, frozen=True, kw_only=True):
    """A vcjob as it is stored; its spec and status are still JSON."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class Vcjob:
    """A vcjob, spec included."""

    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus
    fault: str = ""
    """Why `spec` (then empty) could not be read; no fault: empty."""


_decode_spec = msgspec.json.Decoder(JobSpec).decode
_decode_status = msgspec.json.Decoder(JobStatus).decode


def read_vcjob(raw: VcjobObject) -> Vcjob:
    """A vcjob, its spec with defaults.

    A spec that is no job spec is a `fault`, and an unreadable status counts as none: both can
    be stored where the API server's schema is loose.
    """
    try:
        status = _decode_status(raw.status)
    except msgspec.ValidationError:
        status = JobStatus()
    try:
        return Vcjob(raw.metadata, with_defaults(_decode_spec(raw.spec)), status)
    except msgspec.ValidationError as error:
        return Vcjob(raw.metadata, JobSpec(), status, f"spec cannot be read: {error}")


def with_defaults(spec: JobSpec) -> JobSpec:
    """The spec as Volcano's mutating webhook leaves it (webhooks/admission/jobs/mutate).

    As there, 0 counts as not set for `minAvailable` of the job and for both `maxRetry`.
    """
    tasks = [_task_defaults(task, index) for index, task in enumerate(spec.tasks or ())]
    return msgspec.structs.replace(
        spec,
        queue=spec.queue or DEFAULT_QUEUE,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        max_retry=spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        tasks=tasks,
    )


def _task_defaults(task: Task, index: int) -> Task:
    available = task.min_available
    if available is None:
        policy = task.partition_policy
        if policy is not None and policy.min_partitions:
            available = policy.min_partitions * (policy.partition_size or 0)
        else:
            available = task.replicas or 0
    return msgspec.structs.replace(
        task,
        name=task.name or f"default{index}",
        replicas=task.replicas or 0,
        min_available=available,
        max_retry=task.max_retry or DEFAULT_MAX_RETRY,
    )
