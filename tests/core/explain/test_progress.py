"""Short texts of the progress of items, repeats and tasks."""

import pytest

from jobflow.api.flow.control import Case, ForEach, Repeat
from jobflow.api.flow.status import Decisions, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import TaskState
from jobflow.core.explain.progress import format_case, format_run_progress, format_task_progress
from jobflow.core.reasons import StepReason
from support.plan.flow_statuses import run

FORTY = Step(name="a", for_each=ForEach(count=40))
TEN = Step(name="a", repeat=Repeat(until="false", max=10))


def progress(phases: str, phase: str = "Running") -> StepCondition:
    runs = [run(index, word) for index, word in enumerate(phases.split())]
    return StepCondition(phase=phase, runs=runs or None)


@pytest.mark.parametrize(
    ("step", "condition", "text", "brief"),
    [
        (TEN, progress("Completed Running"), "run 2 of at most 10", "run 2"),
        (Step(name="a", repeat=Repeat()), progress("Running"), "run 1 of at most 1000", "run 1"),
        (TEN, progress("Completed Completed", "Completed"), "2 runs", "2 runs"),
        (TEN, progress("Failed", "Failed"), "1 run", "1 run"),
        (TEN, progress(""), "", ""),
        (FORTY, progress(""), "", ""),
        (FORTY, progress("Completed Running Pending"), "1/40 items done, 2 running", "1/40 items"),
        (
            FORTY,
            progress("Completed Failed", "Failed"),
            "1/40 items done, 1 failed, 38 not started",
            "1 of 40 failed",
        ),
        (FORTY, progress("Completed " * 40), "40/40 items done", "40/40 items"),
        (FORTY, progress("Completed " * 40, "Completed"), "40 items", "40 items"),
        (FORTY, progress("", "Skipped"), "", ""),
        (
            FORTY,
            StepCondition(
                phase="Completed",
                runs=[run(i, "Skipped", reason="NotTaken") for i in range(40)],
            ),
            "none of 40 items taken",
            "none of 40 items taken",
        ),
        (Step(name="a", for_each=ForEach(count=0)), progress("", "Completed"), "no items",
         "no items"),
        (Step(name="a", for_each=ForEach(count=0)), progress("", "Waiting"), "", ""),
        (Step(name="a"), progress("", "Running"), "", ""),
    ],
)  # fmt: skip
def test_run_progress_is_formatted(
    step: Step, condition: StepCondition, text: str, brief: str
) -> None:
    assert format_run_progress(step, condition) == text
    assert format_run_progress(step, condition, brief=True) == brief


def test_items_that_run_again_are_counted() -> None:
    reasons = (StepReason.RETRYING, StepReason.JOB_LOST, StepReason.CREATE_REFUSED)
    runs = [run(at, "Waiting", reason=reason) for at, reason in enumerate(reasons)]
    text = format_run_progress(FORTY, StepCondition(phase="Running", runs=runs))
    assert text == "0/40 items done, 2 to run again"


def test_items_that_a_user_has_skipped_are_done() -> None:
    runs = [run(index, "Completed") for index in range(38)]
    runs += [run(at, "Skipped", reason=StepReason.SKIPPED_BY_USER) for at in (38, 39)]
    running = StepCondition(phase="Running", runs=[*runs[1:], run(0, "Running")])
    assert format_run_progress(FORTY, running) == "39/40 items done, 1 running, 2 skipped"
    completed = StepCondition(phase="Completed", runs=runs)
    assert format_run_progress(FORTY, completed) == "40 items, 2 skipped"
    assert format_run_progress(FORTY, completed, brief=True) == "40 items"


def test_the_chosen_case_is_formatted() -> None:
    step = Step(name="a", switch=[Case(when="false"), Case(template="large"), Case()])

    def formatted(case: int | None) -> str:
        return format_case(step, StepCondition(decisions=Decisions(case=case)))

    texts = ["case 1 of 3", "case 2 of 3: large", "case 3 of 3"]
    assert [formatted(case) for case in (0, 1, 2)] == texts
    assert formatted(None) == format_case(step, StepCondition()) == ""
    assert format_case(Step(name="a"), StepCondition(decisions=Decisions(case=1))) == ""


@pytest.mark.parametrize(
    ("phases", "text"),
    [
        ({"Running": 1, "Pending": 3}, "w 1/4 running"),
        ({"Succeeded": 1, "Running": 2, "Failed": 1}, "w 1/4 done, 1 failed"),
        ({"Succeeded": 4}, "w 4/4 done"),
        ({"Failed": 2}, "w 0/2 done, 2 failed"),
        ({"Running": 2, "Failed": 1}, "w 2/3 running, 1 failed"),
    ],
)
def test_task_progress_is_formatted(phases: dict[str, int], text: str) -> None:
    assert format_task_progress({"w": TaskState(phase=phases)}) == [text]


@pytest.mark.parametrize("phases", [None, {}, {"Running": 1}, {"Running": 0}])
def test_tasks_with_at_most_one_running_pod_are_omitted(
    phases: dict[str, int] | None,
) -> None:
    assert format_task_progress({"w": TaskState(phase=phases)}) == []
    assert format_task_progress(None) == []


def test_tasks_in_progress_come_first() -> None:
    counts = {
        "done": {"Succeeded": 2},
        "new": {"Pending": 2},
        "half": {"Succeeded": 1, "Running": 1},
        "all": {"Running": 2},
    }
    states = {task: TaskState(phase=phases) for task, phases in counts.items()}
    texts = ["half 1/2 done", "new 0/2 running", "all 2/2 running", "done 2/2 done"]
    assert format_task_progress(states) == texts
