"""Trees and tables of fixed statuses, word for word, at 80 and at 160 columns."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from jobflow.api.flow_status import JobFlowStatus, RequestedHours, StepFailure
from jobflow.api.job import TaskState
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.tree import Tree, table
from jobflow.core.text import format_duration
from support.plan.flow_statuses import DIAMOND, FAILED, NOW, standing


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def tree(flow: JobFlow, width: int = 80, height: int | None = None) -> list[str]:
    return [line.plain for line in Tree(flow).lines(NOW, width, height)]


def rows(flow: JobFlow, width: int | None = None) -> list[str]:
    return [line.plain for line in table(flow, NOW, width)]


def test_a_running_diamond() -> None:
    assert tree(DIAMOND) == [
        "test  Running  2/5  1m15s",
        "└─ ✔ a        Completed      2s",
        "   └─ ✔ b     Completed      2s",
        "      ├─ ● c  Running     1m15s",
        "      ├─ ◌ d  Pending     1m15s",
        "      └─ ○ e  Waiting            waits for c (Running) and d (Pending)",
    ]


def test_a_failed_flow_at_80_columns_leaves_out_what_its_place_says() -> None:
    assert tree(FAILED) == [
        "training  Failed  3/3  1m15s",
        "└─ ✖ train        Failed         2s  Failed: task worker lost two pods",
        "   ├─ ⊘ evaluate  Skipped            UpstreamFailed: train did not complete",
        "   └─ ✔ alarm     Completed      2s",
    ]


def test_at_160_columns_nothing_is_cut() -> None:
    assert tree(FAILED, 160)[1] == (
        "└─ ✖ train        Failed         2s  "
        "JobFailed: the job training-train ended Failed: task worker lost two pods"
    )


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("flow", [DIAMOND, FAILED], ids=["diamond", "failed"])
def test_no_line_is_wider_than_the_terminal(flow: JobFlow, width: int) -> None:
    assert all(cell_len(line) <= max(width, 36) for line in tree(flow, width))


def test_without_utf8_there_are_plain_icons() -> None:
    lines = [line.plain for line in Tree(DIAMOND, ascii_only=True).lines(NOW, 80)]
    assert "\n".join(lines).isascii()
    assert lines[4].startswith("      |- o d")


def with_conditions(flow: JobFlow, **changes: dict[str, Any]) -> JobFlow:
    """The flow with other fields of its steps' conditions."""
    conditions = dict(flow.status.conditions or {})
    for step, fields in changes.items():
        key = f"{flow.metadata.name}-{step}"
        conditions[key] = msgspec.structs.replace(conditions[key], **fields)
    status = msgspec.structs.replace(flow.status, conditions=conditions)
    return msgspec.structs.replace(flow, status=status)


PODS = {
    "ps": TaskState(phase={"Running": 2}),
    "worker": TaskState(phase={"Succeeded": 3, "Running": 1}),
}


def test_tasks_that_run_say_how_far_they_are() -> None:
    flow = with_conditions(DIAMOND, c={"task_status_count": PODS}, d={"task_status_count": PODS})
    assert tree(flow)[3] == ("      ├─ ● c  Running     1m15s  worker 3/4 done; ps 2/2 running")
    assert tree(flow, 56)[3] == "      ├─ ● c  Running     1m15s  worker 3/4, ps 2/2"
    broken = {"t": TaskState(phase={"Running": 1, "Pending": 1, "Failed": 2})}
    flow = with_conditions(DIAMOND, c={"task_status_count": broken})
    assert tree(flow)[3].endswith("  t 1/4 running, 2 failed")


@pytest.mark.parametrize(
    ("step", "counts"),
    [
        ("c", {"t": TaskState(phase={"Running": 1})}),
        ("a", PODS),
        ("c", {}),
        ("c", {"t": TaskState()}),
    ],
    ids=["one pod that runs", "a step that is over", "nothing", "no counts"],
)
def test_where_there_is_nothing_to_tell_of_tasks_nothing_is(
    step: str, counts: dict[str, TaskState]
) -> None:
    flow = with_conditions(DIAMOND, **{step: {"task_status_count": counts}})
    assert tree(flow) == tree(DIAMOND)


def test_a_waiting_step_says_how_long_it_has_waited() -> None:
    flow = with_conditions(DIAMOND, e={"last_transition_time": NOW - timedelta(seconds=70)})
    assert tree(flow)[5] == (
        "      └─ ○ e  Waiting     1m10s  waits for c (Running) and d (Pending)"
    )
    assert rows(flow) == rows(DIAMOND)


FAILURE = StepFailure(task="worker", pod="training-train-worker-1", exit_code=3, reason="Error")
SAID = (
    "the job training-train ended Failed: pod training-train-worker-1 (task worker): "
    "exit code 3 (Error)"
)


def test_a_failure_names_exit_code_and_pod_at_80_and_all_at_160_columns() -> None:
    flow = with_conditions(FAILED, train={"failure": FAILURE, "message": SAID})
    assert tree(flow)[1].endswith("  exit code 3 (Error): pod training-train-wo…")
    assert tree(flow, 90)[1].endswith("  exit code 3 (Error): pod training-train-worker-1")
    assert tree(flow, 160)[1].endswith(f"  JobFailed: {SAID}")


def test_short_outputs_are_shown_and_long_ones_are_not() -> None:
    outputs = {"acc": 0.9, "best": "adam", "sizes": [1, 2], "escape": "\x1b[2J"}
    flow = with_conditions(DIAMOND, a={"outputs": outputs}, b={"outputs": {"text": "x" * 60}})
    said = 'acc=0.9, best=adam, sizes=[1, 2], escape="\\u001b[2J"'
    assert tree(flow, 160)[1].endswith(f"  {said}")
    assert rows(flow)[1] == f"a      test-a   Completed   12:00:00   2s         {said}"
    assert tree(flow)[2] == tree(DIAMOND)[2]


def test_what_jobs_held_of_the_cluster_is_the_last_line_of_the_table() -> None:
    flow = with_conditions(
        DIAMOND,
        a={"requested_hours": RequestedHours(cpu="1.25", memory="2.5")},
        b={"requested_hours": RequestedHours(cpu="0.25", memory="0.125", gpu="0.5")},
    )
    line = "requested: 1.5 core hours, 2.625 GiB hours and 0.5 GPU hours"
    assert rows(flow)[-1] == rows(flow, 80)[-1] == line
    assert rows(flow, 40)[-1] != line


def test_messages_cannot_move_the_cursor() -> None:
    flow = with_conditions(DIAMOND, e={"message": "waits\x1b[2J for\nc"})
    assert tree(flow)[5].endswith("waits�[2J for c")


def test_a_second_attempt_is_said() -> None:
    assert "attempt 2" in tree(with_conditions(DIAMOND, c={"attempts": 2}))[3]


def test_a_flow_without_status_is_all_waiting() -> None:
    fresh = msgspec.structs.replace(DIAMOND, status=JobFlowStatus())
    assert tree(fresh)[:2] == ["test  Pending", "└─ ○ a        Waiting"]
    assert rows(fresh)[1] == "a            Waiting"


def test_too_many_steps_for_the_terminal() -> None:
    """What runs and what failed stays; a last line counts the rest."""
    names = [f"s{i:02}" for i in range(40)]
    steps = dict.fromkeys(names, "Waiting") | dict.fromkeys(names[:10], "Completed")
    big = standing("big", "Running", **steps | {"s10": "Running", "s25": "Failed"})
    lines = tree(big, 80, height=6)
    assert [line.split()[2] for line in lines[1:-1]] == ["s00", "s01", "s10", "s25"]
    assert lines[-1] == "… 28 Waiting, 8 Completed not shown"
    assert len(lines) == 6
    assert lines[4].startswith("└─ ✖ s25")


def test_the_table() -> None:
    assert rows(DIAMOND) == [
        "STEP   JOB      PHASE       START      DURATION   MESSAGE",
        "a      test-a   Completed   12:00:00   2s",
        "b      test-b   Completed   12:00:00   2s",
        "c      test-c   Running     12:00:00   1m15s",
        "d      test-d   Pending     12:00:00   1m15s",
        "e               Waiting                           waits for c (Running) and d (Pending)",
    ]


def test_without_messages_there_is_no_such_column() -> None:
    assert rows(standing("f", "Succeed", a="Completed")) == [
        "STEP   JOB   PHASE       START      DURATION",
        "a      f-a   Completed   12:00:00   2s",
    ]


def test_messages_wrap_in_their_column_where_there_is_room() -> None:
    first, *more = rows(FAILED, 90)[1:5]
    assert first.endswith("   2s         JobFailed: the job")
    assert more == [
        f"{'':62}training-train ended Failed:",
        f"{'':62}task worker lost two pods",
        "evaluate                    Skipped                           UpstreamFailed: train did",
    ]


def test_where_the_terminal_is_narrow_columns_go_before_lines_break() -> None:
    assert rows(DIAMOND, 40)[:2] == [
        "STEP   PHASE       START      DURATION",
        "a      Completed   12:00:00   2s",
    ]
    assert rows(DIAMOND, 30)[:2] == ["STEP   PHASE       DURATION", "a      Completed   2s"]


def test_a_waiting_step_keeps_what_is_in_the_way_where_there_is_little_room() -> None:
    message = "waits for b: 0 of 4 pods of task worker Succeeded"
    flow = with_conditions(DIAMOND, e={"message": message, "reason": "WaitingForProbe"})
    assert tree(flow, 100)[5].endswith(f"  {message}")
    assert tree(flow, 80)[5].endswith("  0 of 4 pods of task worker Succeeded")


def test_messages_go_below_where_there_is_none() -> None:
    assert rows(FAILED, 80)[1:3] == [
        "train      training-train   Failed      12:00:00   2s",
        "    JobFailed: the job training-train ended Failed: task worker lost two pods",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (7260, "2h1m"), (3605, "1h")]
    + [(86400, "1d"), (90000, "1d1h")],
)
def test_spans(seconds: float, said: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == said


def test_no_span() -> None:
    assert format_duration(None) == ""
