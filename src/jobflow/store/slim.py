"""What is kept of an object: what is read of it, and what many objects share only once.

Nothing here decides which objects are kept.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern

import msgspec

from jobflow.api.job import Job, JobCondition, JobOutline
from jobflow.api.meta import ObjectMeta, OwnerReference
from jobflow.api.pod import (
    TASK,
    TASK_INDEX,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)

KEPT_PREFIXES = ("volcano.sh/", "flow.volcano.sh/")
"""Labels and annotations of a vcjob that are copied; what else users put there is theirs."""
SHARED = 4096
"""How many different values of a sort are remembered to be shared."""


def slim_job(job: Job) -> Job:
    """The same vcjob in less memory: words that many share are one object, as are equal outlines;
    strange labels go."""
    meta, status = job.metadata, job.status
    references = meta.owner_references
    return Job(
        metadata=msgspec.structs.replace(
            meta,
            namespace=intern(meta.namespace),
            labels=_words(meta.labels),
            annotations=_words(meta.annotations),
            owner_references=[_shared(reference) for reference in references or ()] or None,
            finalizers=[intern(word) for word in meta.finalizers or ()] or None,
        ),
        spec=_facts(msgspec.json.encode(job.spec)),
        status=msgspec.structs.replace(
            status,
            state=msgspec.structs.replace(status.state, phase=intern(status.state.phase)),
            conditions=[
                JobCondition(
                    status=intern(entry.status), last_transition_time=entry.last_transition_time
                )
                for entry in status.conditions or ()
            ]
            or None,
        ),
    )


@lru_cache(SHARED)
def _facts(encoded: bytes) -> JobOutline:
    """One outline for all vcjobs that have the same: those of one template mostly do."""
    return msgspec.json.decode(encoded, type=JobOutline)


def _words(table: dict[str, str] | None) -> dict[str, str] | None:
    if not table:
        return None
    return {
        intern(key): intern(value) for key, value in table.items() if key.startswith(KEPT_PREFIXES)
    } or None


def _shared(reference: OwnerReference) -> OwnerReference:
    return msgspec.structs.replace(
        reference,
        api_version=intern(reference.api_version),
        kind=intern(reference.kind),
        name=intern(reference.name),
        uid=intern(reference.uid),
    )


# ---------------------------------------------------------------------- pods


def slim_pod(pod: Pod) -> Pod:
    """The same pod in less memory: whose it is, its task and index, and where it stands.

    What a container that ended well has to say stays only in the first pods of tasks: only these
    can be a step's outputs.
    """
    meta, status = pod.metadata, pod.status
    owner = meta.controller
    words = meta.labels or {}
    first = pod.index == 0
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=intern(meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_task(pod.task, words.get(TASK_INDEX, "")),
            owner_references=_owners(owner.api_version, owner.kind, owner.name, owner.uid)
            if owner is not None
            else None,
        ),
        spec=_spec(pod.spec.node_name),
        status=PodStatus(
            phase=intern(status.phase),
            reason=intern(status.reason),
            message=status.message,
            pod_ip=status.pod_ip,
            start_time=status.start_time,
            container_statuses=_containers(status.container_statuses, first),
            init_container_statuses=_containers(status.init_container_statuses, first),
        ),
    )


@lru_cache(SHARED)
def _spec(node_name: str) -> PodSpec:
    return PodSpec(node_name=node_name)


@lru_cache(SHARED)
def _task(task: str, index: str) -> dict[str, str] | None:
    return {key: word for key, word in ((TASK, task), (TASK_INDEX, index)) if word} or None


@lru_cache(SHARED)
def _owners(api_version: str, kind: str, name: str, uid: str) -> list[OwnerReference]:
    return [OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=True)]


def _containers(
    statuses: list[ContainerStatus] | None, messages: bool
) -> list[ContainerStatus] | None:
    return [_container(each, messages) for each in statuses or ()] or None


_NOTHING = ContainerState()


def _container(status: ContainerStatus, messages: bool) -> ContainerStatus:
    state, last = _state(status.state, messages), _state(status.last_state, messages)
    if state is _NOTHING and last is _NOTHING:
        return _undisturbed(status.name, status.restart_count)
    return ContainerStatus(
        name=intern(status.name),
        restart_count=status.restart_count,
        state=state,
        last_state=last,
    )


@lru_cache(SHARED)
def _undisturbed(name: str, restarts: int) -> ContainerStatus:
    """A container of which there is nothing to tell."""
    return ContainerStatus(name=name, restart_count=restarts, state=_NOTHING, last_state=_NOTHING)


def _state(state: ContainerState, messages: bool) -> ContainerState:
    if state.waiting is None and state.terminated is None:
        return _NOTHING
    ended = state.terminated
    if ended is None or not ended.message or messages or ended.exit_code or ended.signal:
        return state
    return msgspec.structs.replace(state, terminated=msgspec.structs.replace(ended, message=""))
