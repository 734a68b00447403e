"""Trees and tables of fixed statuses, compared as text."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow_status import JobFlowStatus, RequestedHours, StepFailure
from jobflow.api.job import TaskState
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.tree import Tree, table
from jobflow.core.text import format_duration
from support.plan.flow_statuses import DIAMOND, FAILED, NOW, standing


def tree(flow: JobFlow, width: int = 80, height: int | None = None) -> list[str]:
    return [line.plain for line in Tree(flow).lines(NOW, width, height)]


def rows(flow: JobFlow, width: int | None = None) -> list[str]:
    return [line.plain for line in table(flow, NOW, width)]


def with_conditions(flow: JobFlow, **changes: dict[str, Any]) -> JobFlow:
    """Return the flow with other fields in its steps' conditions."""
    conditions = dict(flow.status.conditions or {})
    for step, fields in changes.items():
        key = f"{flow.metadata.name}-{step}"
        conditions[key] = msgspec.structs.replace(conditions[key], **fields)
    status = msgspec.structs.replace(flow.status, conditions=conditions)
    return msgspec.structs.replace(flow, status=status)


WAITS = "waits for c (Running) and d (Pending)"


def test_the_tree_of_a_running_flow() -> None:
    assert tree(DIAMOND) == [
        "test  Running  2/5  1m15s",
        "└─ ✔ a        Completed      2s",
        "   └─ ✔ b     Completed      2s",
        "      ├─ ● c  Running     1m15s",
        "      ├─ ◌ d  Pending     1m15s",
        f"      └─ ○ e  Waiting            {WAITS}",
    ]


def test_the_tree_of_a_failed_flow() -> None:
    assert tree(FAILED) == [
        "training  Failed  3/3  1m15s",
        "└─ ✖ train        Failed         2s  Failed: task worker lost two pods",
        "   ├─ ⊘ evaluate  Skipped            UpstreamFailed: train did not complete",
        "   └─ ✔ alarm     Completed      2s",
    ]
    job_failed = "JobFailed: the job training-train ended Failed: task worker lost two pods"
    assert tree(FAILED, 160)[1] == f"└─ ✖ train        Failed         2s  {job_failed}"


def test_a_terminal_without_utf8_gets_ascii() -> None:
    lines = [line.plain for line in Tree(DIAMOND, ascii_only=True).lines(NOW, 80)]
    assert "\n".join(lines).isascii()
    assert lines[4].startswith("      |- o d")


RUNNING = TaskState(phase={"Running": 2})
MIXED = TaskState(phase={"Succeeded": 3, "Running": 1})
BROKEN = TaskState(phase={"Running": 1, "Pending": 1, "Failed": 2})


@pytest.mark.parametrize(
    ("step", "counts", "width", "text"),
    [
        ("c", {"ps": RUNNING, "worker": MIXED}, 80, "  worker 3/4 done; ps 2/2 running"),
        ("c", {"ps": RUNNING, "worker": MIXED}, 56, "  worker 3/4, ps 2/2"),
        ("c", {"t": BROKEN}, 80, "  t 1/4 running, 2 failed"),
        ("c", {"t": TaskState(phase={"Running": 1})}, 80, ""),
        ("a", {"worker": MIXED}, 80, ""),
        ("c", {}, 80, ""),
        ("c", {"t": TaskState()}, 80, ""),
    ],
)
def test_pods_are_counted_by_task(
    step: str, counts: dict[str, TaskState], width: int, text: str
) -> None:
    line = {"a": 1, "c": 3}[step]
    flow = with_conditions(DIAMOND, **{step: {"task_status_count": counts}})
    assert tree(flow, width)[line] == tree(DIAMOND, width)[line] + text


def test_a_waiting_step_shows_how_long_it_has_waited() -> None:
    flow = with_conditions(DIAMOND, e={"last_transition_time": NOW - timedelta(seconds=70)})
    assert tree(flow)[5] == f"      └─ ○ e  Waiting     1m10s  {WAITS}"
    assert rows(flow) == rows(DIAMOND)


FAILURE = StepFailure(task="worker", pod="training-train-worker-1", exit_code=3, reason="Error")
MESSAGE = (
    "the job training-train ended Failed: pod training-train-worker-1 (task worker): "
    "exit code 3 (Error)"
)
PROBE = "waits for b: 0 of 4 pods of task worker Succeeded"


@pytest.mark.parametrize(
    ("flow", "step", "condition", "width", "text"),
    [
        (FAILED, 1, {"failure": FAILURE, "message": MESSAGE}, 80,
         "exit code 3 (Error): pod training-train-wo…"),
        (FAILED, 1, {"failure": FAILURE, "message": MESSAGE}, 90,
         "exit code 3 (Error): pod training-train-worker-1"),
        (FAILED, 1, {"failure": FAILURE, "message": MESSAGE}, 160, f"JobFailed: {MESSAGE}"),
        (DIAMOND, 5, {"message": PROBE, "reason": "WaitingForProbe"}, 100, PROBE),
        (DIAMOND, 5, {"message": PROBE, "reason": "WaitingForProbe"}, 80,
         "0 of 4 pods of task worker Succeeded"),
        (DIAMOND, 5, {"message": "waits\x1b[2J for\nc"}, 80, "waits�[2J for c"),
        (DIAMOND, 3, {"attempts": 2}, 80, "attempt 2"),
    ],
)  # fmt: skip
def test_a_message_is_shortened_to_the_width(
    flow: JobFlow, step: int, condition: dict[str, Any], width: int, text: str
) -> None:
    name = "train" if flow is FAILED else "abcde"[step - 1]
    assert tree(with_conditions(flow, **{name: condition}), width)[step].endswith(f"  {text}")


def test_only_short_outputs_are_shown() -> None:
    outputs = {"acc": 0.9, "best": "adam", "sizes": [1, 2], "escape": "\x1b[2J"}
    flow = with_conditions(DIAMOND, a={"outputs": outputs}, b={"outputs": {"text": "x" * 60}})
    text = 'acc=0.9, best=adam, sizes=[1, 2], escape="\\u001b[2J"'
    assert tree(flow, 160)[1].endswith(f"  {text}")
    assert rows(flow)[1] == f"a      test-a   Completed   12:00:00   2s         {text}"
    assert tree(flow)[2] == tree(DIAMOND)[2]


def test_requested_hours_are_the_last_line_of_the_table() -> None:
    flow = with_conditions(
        DIAMOND,
        a={"requested_hours": RequestedHours(cpu="1.25", memory="2.5")},
        b={"requested_hours": RequestedHours(cpu="0.25", memory="0.125", gpu="0.5")},
    )
    line = "requested: 1.5 core hours, 2.625 GiB hours and 0.5 GPU hours"
    assert rows(flow)[-1] == rows(flow, 80)[-1] == line
    assert rows(flow, 40)[-1] != line


def test_a_flow_without_status_is_pending() -> None:
    new = msgspec.structs.replace(DIAMOND, status=JobFlowStatus())
    assert tree(new)[:2] == ["test  Pending", "└─ ○ a        Waiting"]
    assert rows(new)[1] == "a            Waiting"


def test_steps_beyond_the_height_are_counted() -> None:
    names = [f"s{i:02}" for i in range(40)]
    steps = dict.fromkeys(names, "Waiting") | dict.fromkeys(names[:10], "Completed")
    large = standing("big", "Running", **steps | {"s10": "Running", "s25": "Failed"})
    lines = tree(large, 80, height=6)
    assert [line.split()[2] for line in lines[1:-1]] == ["s00", "s01", "s10", "s25"]
    assert lines[-1] == "… 28 Waiting, 8 Completed not shown"
    assert lines[4].startswith("└─ ✖ s25")


def test_the_table_of_a_flow() -> None:
    assert rows(DIAMOND) == [
        "STEP   JOB      PHASE       START      DURATION   MESSAGE",
        "a      test-a   Completed   12:00:00   2s",
        "b      test-b   Completed   12:00:00   2s",
        "c      test-c   Running     12:00:00   1m15s",
        "d      test-d   Pending     12:00:00   1m15s",
        f"e               Waiting                           {WAITS}",
    ]
    assert rows(standing("f", "Succeed", a="Completed")) == [
        "STEP   JOB   PHASE       START      DURATION",
        "a      f-a   Completed   12:00:00   2s",
    ]


def test_a_narrow_table_wraps_messages_and_omits_columns() -> None:
    """Messages wrap. In a narrower table they are below their step, and columns are omitted."""
    first, *more = rows(FAILED, 90)[1:5]
    assert first.endswith("   2s         JobFailed: the job")
    assert more == [
        f"{'':62}training-train ended Failed:",
        f"{'':62}task worker lost two pods",
        "evaluate                    Skipped                           UpstreamFailed: train did",
    ]
    assert rows(FAILED, 80)[1:3] == [
        "train      training-train   Failed      12:00:00   2s",
        "    JobFailed: the job training-train ended Failed: task worker lost two pods",
    ]
    assert rows(DIAMOND, 40)[:2] == [
        "STEP   PHASE       START      DURATION",
        "a      Completed   12:00:00   2s",
    ]
    assert rows(DIAMOND, 30)[:2] == ["STEP   PHASE       DURATION", "a      Completed   2s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (7260, "2h1m"), (3605, "1h")]
    + [(86400, "1d"), (90000, "1d1h"), (None, "")],
)
def test_durations_have_at_most_two_units(seconds: float | None, text: str) -> None:
    assert format_duration(None if seconds is None else timedelta(seconds=seconds)) == text
