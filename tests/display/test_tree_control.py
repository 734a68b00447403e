"""Trees and tables of flows with forEach, repeat, retry, switch, daemons and finally."""

from datetime import timedelta

import msgspec
import pytest
from rich.cells import cell_len

from jobflow.api.flow.control import Case, ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.display.tree import Tree, table
from support.plan.flow_statuses import (
    DIAMOND,
    NOW,
    TAKEN,
    items,
    one,
    repeat,
    retrying,
    run,
    several,
)
from support.plan.flow_statuses import FAILED as TRAINING


def lines(flow: JobFlow, width: int = 80) -> list[str]:
    """Return the tree without the flow's own line."""
    return [line.plain for line in Tree(flow).lines(NOW, width)][1:]


def detail(flow: JobFlow, width: int = 80) -> str:
    """Return the text after the phase of the only step."""
    [only] = lines(flow, width)
    return " ".join(only.split()[4:])


def rows(flow: JobFlow, width: int | None = None) -> list[str]:
    return [line.plain for line in table(flow, NOW, width)][1:]


def with_waiting_item() -> JobFlow:
    runs = [run(0, "Completed"), run(1, "Waiting", reason="Retrying"), run(2, "Running")]
    message = "1 of 3 items are over; item 1: runs again (1 of 3): it took too long"
    condition = StepCondition(phase="Running", runs=runs, message=message)
    return one(Step(name="a", for_each=ForEach(count=3)), condition)


def retry_in(seconds: float) -> JobFlow:
    next_attempt = NOW + timedelta(seconds=seconds)
    return one(Step(name="a"), msgspec.structs.replace(retrying(), next_attempt_time=next_attempt))


def with_switch(phase: str) -> JobFlow:
    cases = [Case(when="false", template="small"), Case(when="true", template="large"), Case()]
    condition = StepCondition(phase=phase, job="f-a", attempts=1, decisions=TAKEN)
    return one(Step(name="a", switch=cases), condition)


FORTY = items("Completed " * 12 + "Running Pending Running Failed", 40)
NOT_TAKEN = '`steps["b"].outputs.accuracy > 0.9` does not hold'
SKIPPED = StepCondition(phase="Skipped", reason="NotTaken", message=NOT_TAKEN)
AGAIN = retrying().message


@pytest.mark.parametrize(
    ("flow", "width", "text"),
    [
        (FORTY, 80, "1m15s 12/40 items done, 3 running, 1 failed"),
        (items("Completed " * 3, 3, "Completed"), 80, "2s 3 items"),
        (items("", 0, "Completed"), 80, "no items"),
        (
            with_waiting_item(),
            160,
            "1m15s 1/3 items done, 1 running, 1 to run again; item 1: runs again (1 of 3): it took "
            "too long",
        ),
        (repeat("Completed Completed Running"), 80, "1m15s run 3 of at most 10"),
        (repeat("Completed Completed", "Completed"), 80, "2s 2 runs; accuracy=0.9"),
        (
            retry_in(12),
            160,
            f"3s in 12s: {AGAIN}",
        ),
        (retry_in(0.5), 160, f"3s now: {AGAIN}"),
        (retry_in(-1), 160, f"3s now: {AGAIN}"),
        (with_switch("Running"), 80, "1m15s case 2 of 3: large"),
        (with_switch("Completed"), 80, "2s case 2 of 3: large"),
        (one(Step(name="a"), SKIPPED), 160, f"NotTaken: {NOT_TAKEN}"),
    ],
)
def test_the_detail_of_a_step(flow: JobFlow, width: int, text: str) -> None:
    assert detail(flow, width) == text


ENDED = StepCondition(
    phase="Completed",
    reason="DaemonEnded",
    message="all other steps are over; the job f-a ended Aborted",
    job="f-a",
    attempts=1,
)


@pytest.mark.parametrize(
    ("flow", "row"),
    [
        (
            items("Completed Completed Failed", 3, "Failed", reason="JobFailed"),
            "a      f-a-0 … 2   Failed   12:00:00   2s         JobFailed: the cause was dropped, "
            "because the status of the flow is too large",
        ),
        (
            items("Completed", 1, "Completed"),
            "a      f-a-0   Completed   12:00:00   2s         1 item",
        ),
        (
            repeat("Completed Completed", "Completed"),
            "a      f-a-1   Completed   12:00:00   2s         2 runs; accuracy=0.9",
        ),
        (
            one(Step(name="a", daemon=True), ENDED),
            f"a      f-a   Completed   12:00:00   2s         DaemonEnded: {ENDED.message}",
        ),
    ],
)
def test_the_row_of_a_step(flow: JobFlow, row: str) -> None:
    assert rows(flow) == [row]


def test_daemons_and_finally_are_marked() -> None:
    depends = DependsOn(targets=["db"])
    message = "waits until all other steps are over"
    flow = several(
        [
            (Step(name="db", daemon=True), StepCondition(phase="Running", job="f-db", attempts=1)),
            (
                Step(name="a", depends_on=depends),
                StepCondition(phase="Running", job="f-a", attempts=1),
            ),
        ],
        last=[(Step(name="clean-up"), StepCondition(phase="Waiting", message=message))],
    )
    assert lines(flow) == [
        "├─ ● db        Running     1m15s  daemon",
        "│  └─ ● a      Running     1m15s  once db runs",
        f"└─ ○ clean-up  Waiting            {message}",
    ]
    assert [row.split()[0] for row in rows(flow)] == ["db", "a", "clean-up"]


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize(
    "flow", [FORTY, repeat("Completed Running"), retry_in(12), DIAMOND, TRAINING]
)
def test_no_line_is_wider_than_the_terminal(flow: JobFlow, width: int) -> None:
    assert all(cell_len(line) <= max(width, 36) for line in lines(flow, width))
