"""How far the tasks of a job have come, in a few words: `worker 3/4 done`. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobflow.api.job import TaskState
from jobflow.api.pod import PodPhase


def task_progress(counts: Mapping[str, TaskState] | None) -> list[str]:
    """A text a task, those that have furthest to go first: of all its pods how many are done, or,
    while none is, how many run; `worker 1/4 done, 1 failed`. Of a job of one pod that runs there
    is nothing to tell."""
    if not counts or _is_one_pod_that_runs(counts):
        return []
    ranked = sorted((_share(state), task) for task, state in counts.items() if _total(state))
    return [f"{task} {_said(counts[task])}" for _, task in ranked]


def _is_one_pod_that_runs(counts: Mapping[str, TaskState]) -> bool:
    running = sum(_count(state, PodPhase.RUNNING) for state in counts.values())
    return running == 1 == sum(_total(state) for state in counts.values())


def _said(state: TaskState) -> str:
    return ", ".join(_parts(state, _total(state)))


def _parts(state: TaskState, total: int) -> Iterator[str]:
    done, failed = _count(state, PodPhase.SUCCEEDED), _count(state, PodPhase.FAILED)
    if done or failed == total:
        yield f"{done}/{total} done"
    else:
        yield f"{_count(state, PodPhase.RUNNING)}/{total} running"
    if failed:
        yield f"{failed} failed"


def _share(state: TaskState) -> float:
    return _count(state, PodPhase.SUCCEEDED) / _total(state)


def _count(state: TaskState, phase: str) -> int:
    return (state.phase or {}).get(phase, 0)


def _total(state: TaskState) -> int:
    return sum((state.phase or {}).values())
