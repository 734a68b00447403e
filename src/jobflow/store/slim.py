"""Memory-saving copies of jobs and pods: fields that are read, with equal values shared."""

from collections.abc import Callable
from functools import lru_cache, partial
from sys import intern

import msgspec

from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.api.volcano.job import Job, JobCondition, JobOutline
from jobflow.api.volcano.pod import (
    TASK,
    TASK_INDEX,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from jobflow.core.pods.failure import is_disruption

KEPT_PREFIXES = ("volcano.sh/", "flow.volcano.sh/")
"""Prefixes of the labels and annotations of a job that are copied."""
SHARED = 4096
"""Number of values of a type that are shared."""


def slim_job(job: Job) -> Job:
    """Return the job in less memory: equal strings and outlines are shared, labels and annotations
    of users are dropped."""
    meta, status = job.metadata, job.status
    return Job(
        metadata=msgspec.structs.replace(
            meta,
            namespace=intern(meta.namespace),
            labels=_own_words(meta.labels),
            annotations=_own_words(meta.annotations),
            owner_references=[*map(_shared, meta.owner_references or ())] or None,
            finalizers=[intern(word) for word in meta.finalizers or ()] or None,
        ),
        # encoded, because a struct that holds lists has no hash
        spec=_outline(msgspec.json.encode(job.spec)),
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


_outline = lru_cache(SHARED)(msgspec.json.Decoder(JobOutline).decode)
"""Decodes an outline. Jobs of one template mostly share theirs."""
_shared: Callable[[OwnerReference], OwnerReference] = lru_cache(SHARED)(lambda reference: reference)
_owners: Callable[[OwnerReference], list[OwnerReference]] = lru_cache(SHARED)(lambda owner: [owner])


def _own_words(table: dict[str, str] | None) -> dict[str, str] | None:
    own = (entry for entry in (table or {}).items() if entry[0].startswith(KEPT_PREFIXES))
    return {intern(key): intern(value) for key, value in own} or None


def slim_pod(pod: Pod) -> Pod:
    """Return the pod in less memory: owner, task, index and state. The message of a container that
    ended well is kept only in the first pod of a task: only that can be a step's output."""
    meta, status, owner = pod.metadata, pod.status, pod.metadata.controller
    first = pod.index == 0
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=intern(meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_task(pod.task, (meta.labels or {}).get(TASK_INDEX, "")),
            owner_references=_owners(owner) if owner is not None else None,
        ),
        # plans read no more of a pod's spec
        spec=_spec(node_name=pod.spec.node_name),
        status=PodStatus(
            phase=intern(status.phase),
            reason=intern(status.reason),
            message=status.message,
            pod_ip=status.pod_ip,
            start_time=status.start_time,
            conditions=[each for each in status.conditions or () if is_disruption(each)] or None,
            container_statuses=_containers(status.container_statuses, messages=first),
            init_container_statuses=_containers(status.init_container_statuses, messages=first),
        ),
    )


_spec = lru_cache(SHARED)(PodSpec)


@lru_cache(SHARED)
def _task(task: str, index: str) -> dict[str, str] | None:
    return {key: word for key, word in ((TASK, task), (TASK_INDEX, index)) if word} or None


_NO_STATE = ContainerState()
_running_container = lru_cache(SHARED)(
    partial(ContainerStatus, state=_NO_STATE, last_state=_NO_STATE)
)


def _containers(
    statuses: list[ContainerStatus] | None, *, messages: bool
) -> list[ContainerStatus] | None:
    slim = []
    for each in statuses or ():
        state, last = _state(each.state, messages), _state(each.last_state, messages)
        name, restarts = intern(each.name), each.restart_count
        if state is _NO_STATE and last is _NO_STATE:
            slim.append(_running_container(name=name, restart_count=restarts))
        else:
            slim.append(
                ContainerStatus(name=name, restart_count=restarts, state=state, last_state=last)
            )
    return slim or None


def _state(state: ContainerState, messages: bool) -> ContainerState:
    if state.waiting is None and state.terminated is None:
        return _NO_STATE
    ended = state.terminated
    # messages of failures are kept, because a failure may quote them
    if ended is None or not ended.message or messages or ended.exit_code or ended.signal:
        return state
    return msgspec.structs.replace(state, terminated=msgspec.structs.replace(ended, message=""))
