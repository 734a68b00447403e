"""A vcjob as the job controller reads it, with the defaults of Volcano's webhook.

The defaults are never written back: in a real cluster the stored object has them from the start,
and a later write would create a second generation.
"""

from dataclasses import dataclass

import msgspec

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.volcano.job import JobSpec, JobStatus
from jobflow.sandbox.jobs.policies import DEFAULT_MAX_RETRY


class VcjobObject(Struct, frozen=True, kw_only=True):
    """A vcjob as stored; spec and status are still JSON."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class Vcjob:
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus
    fault: str | None = None
    """Why the spec cannot be read; it is then empty."""


_decode_spec = msgspec.json.Decoder(JobSpec).decode
_decode_status = msgspec.json.Decoder(JobStatus).decode


def read_vcjob(raw: VcjobObject) -> Vcjob:
    """Decode a vcjob and set the defaults of its spec. An invalid spec is reported as `fault`, an
    invalid status counts as empty: a loose CRD schema lets both be stored."""
    try:
        status = _decode_status(raw.status)
    except msgspec.ValidationError:
        status = JobStatus()
    try:
        return Vcjob(raw.metadata, with_defaults(_decode_spec(raw.spec)), status)
    except msgspec.ValidationError as error:
        return Vcjob(raw.metadata, JobSpec(), status, f"spec cannot be read: {error}")


def with_defaults(spec: JobSpec) -> JobSpec:
    """Return the spec with the defaults of Volcano's webhook (webhooks/admission/jobs/mutate), for
    which 0 means not set in `minAvailable` of the job and in both `maxRetry`."""
    tasks = []
    for index, task in enumerate(spec.tasks or ()):
        available, policy = task.min_available, task.partition_policy
        # A task in partitions needs the pods of its smallest number of partitions.
        if available is None and policy is not None and policy.min_partitions:
            available = policy.min_partitions * (policy.partition_size or 0)
        elif available is None:
            available = task.replicas or 0
        task = msgspec.structs.replace(
            task,
            name=task.name or f"default{index}",
            replicas=task.replicas or 0,
            min_available=available,
            max_retry=task.max_retry or DEFAULT_MAX_RETRY,
        )
        tasks.append(task)
    return msgspec.structs.replace(
        spec,
        queue=spec.queue or "default",
        scheduler_name=spec.scheduler_name or "volcano",
        max_retry=spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        tasks=tasks,
    )
