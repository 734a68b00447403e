"""By which pod a vcjob failed: the container, its exit code and reason, the node.

Pods are looked at as they are; whether they are all that there were, the caller knows. A pod that
is being deleted counts like any other: it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from jobflow.api.flow_status import StepFailure
from jobflow.api.pod import ContainerStatus, Pod, PodPhase, Terminated

_LATE = datetime.max.replace(tzinfo=UTC)
_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that are no trouble."""
KUBELET_REASONS = frozenset({"ContainerCannotRun", "StartError", "ContainerStatusUnknown"})
"""Reasons of a container that wrote no termination message: the message says what was wrong."""


class PodFailure(NamedTuple):
    """What is to be recorded and what is to be said of one pod."""

    failure: StepFailure
    sure: bool
    """Whether the pod itself has failed, not only been in trouble when its job ended."""
    said: str
    """`pod f-b-worker-1 (task worker): exit code 3 (Error) on node n1`."""


class _Suspect(NamedTuple):
    """What may have been the cause; the least of them was."""

    rank: int
    """0: the pod failed. 1: a container of a pod that goes on. 2: it failed before. 3: it never
    began."""
    when: datetime
    pod: str
    place: int
    """Of the container in its pod."""
    container: str
    ended: Terminated | None
    reason: str
    message: str


def find_first_failure(pods: Iterable[Pod]) -> PodFailure | None:
    """The pod that failed first, for the others often fail because it did; None where none has.

    The answer does not depend on the order of the pods.
    """
    by_name = {pod.metadata.name: pod for pod in pods}
    found = min((s for pod in by_name.values() for s in _suspects(pod)), key=_order, default=None)
    if found is None:
        return None
    pod, ended = by_name[found.pod], found.ended
    failure = StepFailure(
        task=pod.task,
        pod=found.pod,
        container=found.container,
        exit_code=ended.exit_code if ended is not None else None,
        reason=found.reason,
        node=pod.spec.node_name,
    )
    return PodFailure(failure, found.rank == 0, _said(pod, failure, found))


def _order(suspect: _Suspect) -> tuple[int, datetime, str, int]:
    return suspect.rank, suspect.when, suspect.pod, suspect.place


def _suspects(pod: Pod) -> Iterator[_Suspect]:
    status, name = pod.status, pod.metadata.name
    if pod.phase == PodPhase.SUCCEEDED:
        return
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    failed = pod.phase == PodPhase.FAILED
    own = [_of_container(name, place, c, failed) for place, c in enumerate(containers)]
    suspects = [suspect for suspect in own if suspect is not None]
    if failed and (status.reason or not any(suspect.rank == 0 for suspect in suspects)):
        # evicted, out of time, lost with its node: then its containers ended by that
        when = min((suspect.when for suspect in suspects), default=_LATE)
        yield _Suspect(0, when, name, -1, "", None, status.reason, status.message)
    else:
        yield from suspects


def _of_container(
    pod: str, place: int, container: ContainerStatus, failed: bool
) -> _Suspect | None:
    now, before = container.state, container.last_state.terminated
    ended, waiting = now.terminated, now.waiting
    name = container.name
    if ended is not None and _bad(ended):
        rank = 0 if failed else 1
    elif before is not None and _bad(before) and ended is None:
        ended, rank = before, 2
    elif waiting is not None and waiting.reason not in _ON_THE_WAY:
        return _Suspect(3, _LATE, pod, place, name, None, waiting.reason, waiting.message)
    else:
        return None
    when = ended.finished_at or _LATE
    message = ended.message if ended.reason in KUBELET_REASONS else ""
    return _Suspect(rank, when, pod, place, name, ended, ended.reason, message)


def _bad(ended: Terminated) -> bool:
    return ended.exit_code != 0 or ended.signal is not None


def _said(pod: Pod, failure: StepFailure, found: _Suspect) -> str:
    status = pod.status
    several = len(status.container_statuses or ()) + len(status.init_container_statuses or ())
    where = [f"task {failure.task}"] if failure.task else []
    if failure.container and several > 1:
        where.append(f"container {failure.container}")
    who = f"pod {failure.pod}" + (f" ({', '.join(where)})" if where else "")
    node = f" on node {failure.node}" if failure.node else ""
    more = f": {' '.join(found.message.split())}" if found.message else ""
    return f"{who}: {_how(found)}{node}{more}"


def _how(found: _Suspect) -> str:
    if found.ended is None:
        return found.reason or "failed"
    if found.ended.signal is not None:
        how = f"signal {found.ended.signal}"
    else:
        how = f"exit code {found.ended.exit_code}"
    return f"{how} ({found.reason})" if found.reason else how
