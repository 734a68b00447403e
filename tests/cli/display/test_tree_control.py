"""Trees and tables of flows with the primitives of control, word for word."""

from __future__ import annotations

import time

import msgspec
import pytest
from rich.cells import cell_len

from jobflow.api.control import Case, ForEach
from jobflow.api.flow_status import StepCondition
from jobflow.api.jobflow import DependsOn, JobFlow, Step
from jobflow.cli.display.tree import Tree, table
from support.plan.control_flows import TAKEN, items, one, repeat, retrying, run, several
from support.plan.flow_statuses import NOW


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def lines(flow: JobFlow, width: int = 80) -> list[str]:
    """The tree without the flow's own line."""
    return [line.plain for line in Tree(flow).lines(NOW, width)][1:]


def line(flow: JobFlow, width: int = 80) -> str:
    """What it says of the only step, behind its phase."""
    [only] = lines(flow, width)
    return " ".join(only.split()[4:])


def rows(flow: JobFlow, width: int | None = None) -> list[str]:
    return [line.plain for line in table(flow, NOW, width)][1:]


def test_items_are_counted_and_not_listed() -> None:
    phases = "Completed " * 12 + "Running Pending Running Failed"
    assert lines(items(phases, 40)) == [
        "└─ ● a  Running     1m15s  12/40 items done, 3 running, 1 failed"
    ]
    assert line(items(phases, 40), 56) == "1m15s 12/40 items"


def test_a_thousand_items_are_one_line() -> None:
    flow = items("Completed " * 900 + "Running " * 100, 1000)
    assert line(flow) == "1m15s 900/1,000 items done, 100 running"


@pytest.mark.parametrize(
    ("phases", "said"),
    [("Completed " * 3, "2s 3 items"), ("Completed", "2s 1 item")],
)
def test_items_that_are_over(phases: str, said: str) -> None:
    assert line(items(phases, len(phases.split()), "Completed")) == said


def test_no_items_at_all() -> None:
    assert line(items("", 0, "Completed")) == "no items"


def test_an_item_that_runs_again_and_what_is_in_its_way() -> None:
    message = "1 of 3 items are over; item 1: runs again (1 of 3): it took too long"
    runs = [run(0, "Completed"), run(1, "Waiting", reason="Retrying"), run(2, "Running")]
    flow = one(
        Step(name="a", for_each=ForEach(count=3)),
        StepCondition(phase="Running", runs=runs, message=message),
    )
    assert line(flow, 160) == (
        "1m15s 1/3 items done, 1 running, 1 to run again; item 1: runs again (1 of 3): it took too "
        "long"
    )


def test_the_table_names_all_jobs_of_the_items() -> None:
    assert rows(items("Completed Completed Failed", 3, "Failed", reason="JobFailed")) == [
        "a      f-a-0 … 2   Failed   12:00:00   2s         JobFailed"
    ]
    assert rows(items("Completed", 1, "Completed")) == [
        "a      f-a-0   Completed   12:00:00   2s         1 item"
    ]


def test_a_repeat_says_which_run_it_is() -> None:
    assert lines(repeat("Completed Completed Running")) == [
        "└─ ● a  Running     1m15s  run 3 of at most 10"
    ]
    assert line(repeat("Completed Completed Running"), 44) == "1m15s run 3"


def test_a_repeat_that_is_over_has_the_outputs_of_its_last_run() -> None:
    flow = repeat("Completed Completed", "Completed")
    assert line(flow) == "2s 2 runs; accuracy=0.9"
    assert rows(flow) == ["a      f-a-1   Completed   12:00:00   2s         2 runs; accuracy=0.9"]


def test_between_two_attempts_it_says_when_the_next_one_comes() -> None:
    flow = one(Step(name="a"), retrying())
    assert line(flow, 160) == (
        "3s in 12s: runs again (1 of 3): the job f-a ended Failed: pod f-a-main-0 (task main): "
        "exit code 3 (Error)"
    )
    assert line(flow, 80) == "3s in 12s: exit code 3 (Error): pod f-a-main-0"


def test_an_attempt_that_is_due_has_no_time() -> None:
    flow = one(Step(name="a"), msgspec.structs.replace(retrying(), next_attempt_time=NOW))
    assert line(flow) == "3s exit code 3 (Error): pod f-a-main-0"


SWITCH = [Case(when="false", template="small"), Case(when="true", template="large"), Case()]


@pytest.mark.parametrize(("phase", "took"), [("Running", "1m15s"), ("Completed", "2s")])
def test_the_case_that_was_taken_is_named(phase: str, took: str) -> None:
    condition = StepCondition(phase=phase, job="f-a", attempts=1, decisions=TAKEN)
    flow = one(Step(name="a", switch=SWITCH), condition)
    assert line(flow) == f"{took} case 2 of 3: large"


def test_a_step_that_was_not_taken_says_the_expression() -> None:
    message = '`steps["b"].outputs.accuracy > 0.9` does not hold'
    condition = StepCondition(phase="Skipped", reason="NotTaken", message=message)
    assert line(one(Step(name="a"), condition), 160) == f"NotTaken: {message}"


def test_daemons_and_finally_say_what_they_are() -> None:
    flow = several(
        [
            (Step(name="db", daemon=True), StepCondition(phase="Running", job="f-db", attempts=1)),
            (
                Step(name="a", depends_on=DependsOn(targets=["db"])),
                StepCondition(phase="Running", job="f-a", attempts=1),
            ),
        ],
        last=[
            (
                Step(name="clean-up"),
                StepCondition(phase="Waiting", message="waits until all other steps are over"),
            )
        ],
    )
    assert lines(flow) == [
        "├─ ● db        Running     1m15s  daemon",
        "│  └─ ● a      Running     1m15s  once db runs",
        "└─ ○ clean-up  Waiting            waits until all other steps are over",
    ]
    assert [row.split()[0] for row in rows(flow)] == ["db", "a", "clean-up"]


def test_a_daemon_that_was_ended_says_so_in_the_table() -> None:
    message = "all other steps are over; the job f-a ended Aborted"
    condition = StepCondition(
        phase="Completed", reason="DaemonEnded", message=message, job="f-a", attempts=1
    )
    assert rows(one(Step(name="a", daemon=True), condition)) == [
        f"a      f-a   Completed   12:00:00   2s         DaemonEnded: {message}"
    ]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    phases = "Completed " * 12 + "Running Failed"
    for flow in (items(phases, 40), repeat("Completed Running"), one(Step(name="a"), retrying())):
        assert all(cell_len(each) <= max(width, 36) for each in lines(flow, width))
