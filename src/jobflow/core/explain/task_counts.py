"""How far the tasks of a job have come, in a few words: `worker 3/4 done`. It decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from jobflow.api.job import TaskState
from jobflow.api.pod import PodPhase


def task_progress(counts: Mapping[str, TaskState] | None, *, brief: bool = False) -> list[str]:
    """A text a task, those on their way first: of all its pods how many are done, or, while none
    is, how many run; `worker 1/4 done, 1 failed`, and `worker 1/4` where it is to be `brief`. Of a
    job of one pod that runs there is nothing to tell."""
    if not counts or _is_one_pod_that_runs(counts):
        return []
    ranked = sorted((_rank(state), task) for task, state in counts.items() if _total(state))
    return [f"{task} {_said(counts[task], brief=brief)}" for _, task in ranked]


def _is_one_pod_that_runs(counts: Mapping[str, TaskState]) -> bool:
    running = sum(_count(state, PodPhase.RUNNING) for state in counts.values())
    return running == 1 == sum(_total(state) for state in counts.values())


def _said(state: TaskState, *, brief: bool) -> str:
    total, done = _total(state), _count(state, PodPhase.SUCCEEDED)
    failed = _count(state, PodPhase.FAILED)
    over = done or failed == total
    share = f"{done if over else _count(state, PodPhase.RUNNING)}/{total}"
    if brief:
        return share
    return f"{share} {'done' if over else 'running'}" + (f", {failed} failed" if failed else "")


def _rank(state: TaskState) -> int:
    """0: some of its pods are done. 1: some do not run yet. 2: all run. 3: all are done."""
    total, done = _total(state), _count(state, PodPhase.SUCCEEDED)
    if done:
        return 3 if done == total else 0
    return 2 if _count(state, PodPhase.RUNNING) == total else 1


def _count(state: TaskState, phase: str) -> int:
    return (state.phase or {}).get(phase, 0)


def _total(state: TaskState) -> int:
    return sum((state.phase or {}).values())
