"""How far the tasks of a job have come, in a few words."""

from __future__ import annotations

import pytest

from jobflow.api.job import TaskState
from jobflow.core.explain.progress import format_task_progress


@pytest.mark.parametrize(
    ("phases", "text", "brief"),
    [
        ({"Running": 1, "Pending": 3}, "w 1/4 running", "w 1/4"),
        ({"Succeeded": 1, "Running": 2, "Failed": 1}, "w 1/4 done, 1 failed", "w 1/4"),
        ({"Succeeded": 4}, "w 4/4 done", "w 4/4"),
        ({"Failed": 2}, "w 0/2 done, 2 failed", "w 0/2"),
        ({"Running": 2, "Failed": 1}, "w 2/3 running, 1 failed", "w 2/3"),
    ],
)
def test_how_far_a_task_has_come(phases: dict[str, int], text: str, brief: str) -> None:
    counts = {"w": TaskState(phase=phases)}
    assert format_task_progress(counts) == [text]
    assert format_task_progress(counts, brief=True) == [brief]


@pytest.mark.parametrize("phases", [None, {}, {"Running": 1}, {"Running": 0}])
def test_of_no_pod_and_of_one_that_runs_there_is_nothing_to_tell(
    phases: dict[str, int] | None,
) -> None:
    assert format_task_progress({"w": TaskState(phase=phases)}) == []
    assert format_task_progress(None) == []


def test_those_on_their_way_come_first() -> None:
    counts = {
        "done": {"Succeeded": 2},
        "new": {"Pending": 2},
        "half": {"Succeeded": 1, "Running": 1},
        "all": {"Running": 2},
    }
    states = {task: TaskState(phase=phases) for task, phases in counts.items()}
    assert format_task_progress(states, brief=True) == [
        "half 1/2",
        "new 0/2",
        "all 2/2",
        "done 2/2",
    ]
