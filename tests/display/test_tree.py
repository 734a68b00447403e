"""Trees and tables of fixed statuses, compared as text."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    FlowState,
    JobFlowStatus,
    RequestedHours,
    RunCondition,
    StepCondition,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import TaskState
from jobflow.core.text import format_duration
from jobflow.display.tree import Tree, table
from support.plan.flow_statuses import (
    DIAMOND,
    FAILED,
    NOW,
    several,
    standing,
    with_conditions,
)


def tree(flow: JobFlow, width: int | None = 80, height: int | None = None) -> list[str]:
    return [line.plain for line in Tree(flow).lines(NOW, width, height)]


def rows(flow: JobFlow, width: int | None = None) -> list[str]:
    return [line.plain for line in table(flow, NOW, width)]


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
        "training  Failed  3/3  1m15s  1 completed, 1 failed, 1 skipped",
        "└─ ✖ train        Failed         2s",
        "   │ JobFailed: the job training-train ended Failed: task worker lost two pods",
        "   ├─ ⊘ evaluate  Skipped            UpstreamFailed: train did not complete",
        "   └─ ✔ alarm     Completed      2s",
    ]
    job_failed = "JobFailed: the job training-train ended Failed: task worker lost two pods"
    assert tree(FAILED, 160)[1] == f"└─ ✖ train        Failed         2s  {job_failed}"


def test_a_narrow_tree_has_all_texts_below_their_steps() -> None:
    steps = ("prepare", "train-the-model-on-all-gpus", "evaluate")
    texts = ("", "waits for prepare (Running)", "waits for train-the-model-on-all-gpus (Waiting)")
    flow = standing(
        "narrow",
        "Running",
        after=dict(pairwise(reversed(steps))),
        **{
            step: ("Waiting" if text else "Running", "", text)
            for step, text in zip(steps, texts, strict=True)
        },
    )
    state = FlowState(phase="Running", reason="Suspended", message="nothing new starts")
    status = msgspec.structs.replace(flow.status, state=state)
    assert tree(msgspec.structs.replace(flow, status=status), 40) == [
        "narrow  Running  0/3  1m15s",
        "  Suspended: nothing new starts",
        "└─ ● prepare         Running     1m15s",
        "   └─ ○ train-the-model-on-all-gpus",
        "      │              Waiting",
        "      │ waits for prepare (Running)",
        "      └─ ○ evaluate  Waiting",
        "           waits for",
        "           train-the-model-on-all-gpus",
        "           (Waiting)",
    ]


def test_a_terminal_without_utf8_gets_ascii() -> None:
    lines = [line.plain for line in Tree(DIAMOND, ascii_only=True).lines(NOW, 80)]
    lines += [line.plain for line in Tree(FAILED, ascii_only=True).lines(NOW, 40)]
    assert "\n".join(lines).isascii()
    assert lines[4].startswith("      |- o d")


RUNNING = TaskState(phase={"Running": 2})
MIXED = TaskState(phase={"Succeeded": 3, "Running": 1})
BROKEN = TaskState(phase={"Running": 1, "Pending": 1, "Failed": 2})


@pytest.mark.parametrize(
    ("step", "counts", "text"),
    [
        ("c", {"ps": RUNNING, "worker": MIXED}, "  worker 3/4 done; ps 2/2 running"),
        ("c", {"t": BROKEN}, "  t 1/4 running, 2 failed"),
        ("c", {"t": TaskState(phase={"Running": 1})}, ""),
        ("a", {"worker": MIXED}, ""),
        ("c", {}, ""),
        ("c", {"t": TaskState()}, ""),
    ],
)
def test_pods_are_counted_by_task(step: str, counts: dict[str, TaskState], text: str) -> None:
    line = {"a": 1, "c": 3}[step]
    flow = with_conditions(DIAMOND, **{step: {"task_status_count": counts}})
    assert tree(flow)[line] == tree(DIAMOND)[line] + text


def test_a_waiting_step_shows_how_long_it_has_waited() -> None:
    flow = with_conditions(DIAMOND, e={"last_transition_time": NOW - timedelta(seconds=70)})
    assert tree(flow)[5] == f"      └─ ○ e  Waiting     1m10s  {WAITS}"
    assert rows(flow) == rows(DIAMOND)


MESSAGE = (
    "the job training-train ended Failed: pod training-train-worker-1 (task worker): "
    "exit code 3 (Error)"
)
PROBE = "waits for b: 0 of 4 pods of task worker Succeeded"


@pytest.mark.parametrize(
    ("flow", "step", "condition", "text"),
    [
        (FAILED, 1, {"message": MESSAGE}, f"JobFailed: {MESSAGE}"),
        (
            FAILED,
            1,
            {"message": f"{MESSAGE}: no rows", "outputs": {"text": "no\nrows\n"}},
            f"JobFailed: {MESSAGE}: no rows",
        ),
        (DIAMOND, 5, {"message": PROBE, "reason": "WaitingForProbe"}, PROBE),
        (DIAMOND, 5, {"message": "waits\x1b[2J for\nc"}, "waits�[2J for c"),
        (DIAMOND, 3, {"attempts": 2}, "attempt 2"),
    ],
)
def test_a_message_is_beside_its_step(
    flow: JobFlow, step: int, condition: dict[str, Any], text: str
) -> None:
    name = "train" if flow is FAILED else "abcde"[step - 1]
    assert tree(with_conditions(flow, **{name: condition}), None)[step].endswith(f"  {text}")


def test_outputs_are_cut_to_the_width() -> None:
    outputs = {"acc": 0.9, "best": "adam", "sizes": [1, 2], "escape": "\x1b[2J"}
    long = {"text": "x" * 4000}
    flow = with_conditions(
        DIAMOND, a={"outputs": outputs}, b={"outputs": long, "reason": "R", "message": "told"}
    )
    text = 'acc=0.9, best=adam, sizes=[1, 2], escape="\\u001b[2J"'
    assert tree(flow, 160)[1].endswith(f"  {text}")
    assert tree(flow)[1:3] == [
        '└─ ✔ a        Completed      2s  acc=0.9, best=adam, sizes=[1, 2], escape="\\u00…',
        f"   └─ ✔ b     Completed      2s  R: told; text={'x' * 32}…",
    ]
    assert max(map(len, tree(flow))) == 80
    assert tree(flow, 46)[1:6] == [
        "└─ ✔ a        Completed      2s  acc=0.9, bes…",
        "   └─ ✔ b     Completed      2s",
        "      │ R: told;",
        f"      │ text={'x' * 32}…",
        "      ├─ ● c  Running     1m15s",
    ]
    assert rows(flow)[1] == f"a      test-a   Completed   12:00:00   2s         {text}"
    assert rows(flow, 80)[2].endswith("   R: told; text=xxxxxxxxxxxxxxx…")
    assert tree(flow, None)[2].endswith(long["text"]) and rows(flow)[2].endswith(long["text"])


def test_a_part_of_a_tree_begins_at_its_step() -> None:
    part = Tree(DIAMOND).part("c", NOW, 80)
    assert [line.plain for line in part] == ["└─ ● c  Running     1m15s"]
    assert Tree(DIAMOND).part("x", NOW) == []


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


def test_texts_that_do_not_fit_into_the_height_hide_less_important_steps() -> None:
    """The text of the most important step is cut instead."""
    head = ["training  Failed  3/3  1m15s", "  1 completed, 1 failed, 1 skipped"]
    train = [
        "└─ ✖ train  Failed         2s",
        "     JobFailed: the job training-train",
        "     ended Failed: task worker lost two",
        "     pods",
    ]
    hidden = "… 1 Skipped, 1 Completed not shown"
    assert tree(FAILED, 40, 10) == tree(FAILED, 40)
    assert tree(FAILED, 40, 9)[-2:] == ["   └─ ✔ alarm  Completed      2s", "… 1 Skipped not shown"]
    assert tree(FAILED, 40, 7) == [*head, *train, hidden]
    assert tree(FAILED, 40, 5) == [*head, *train[:2], hidden]
    assert tree(FAILED, 40, 3) == [*head, "… 1 Failed, 1 Skipped, 1 Completed not …"]
    assert tree(FAILED, 40, 1) == head[:1]


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.042, "4.0s"), (59.99, "59.9s"), (4, "4s"), (60.5, "1m"), (-0.5, "0s")],
)
def test_tenths_are_those_of_the_duration(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds), tenths=True) == text


@pytest.mark.parametrize(
    ("phase", "reported", "text"),
    [
        ("Completed", "4.042199818s", "4.0s"),
        ("Completed", "4s", "2s"),
        ("Completed", "soon", "2s"),
        ("Running", "4.042199818s", "1m15s"),
    ],
)
def test_a_step_has_tenths_only_if_volcano_reported_them(
    phase: str, reported: str, text: str
) -> None:
    flow = with_conditions(standing("f", "Running", a=phase), a={"running_duration": reported})
    assert tree(flow)[1].split()[-1] == text
    assert rows(flow)[1].split()[-1] == text


def test_a_time_that_passes_is_in_whole_seconds() -> None:
    lines = Tree(DIAMOND).lines(NOW + timedelta(seconds=0.7), 80)
    assert "● c  Running     1m15s" in [line.plain for line in lines][3]


ITEMS = several(
    [
        (
            Step(name="a", for_each=ForEach(items=["eu", {"n": 1}, 2, "x" * 50])),
            StepCondition(
                phase="Running",
                runs=[
                    RunCondition(index=0, phase="Completed", job="f-a-0", attempts=2),
                    RunCondition(index=2, phase="Failed", reason="JobFailed", message="m\x1b"),
                ],
            ),
        ),
    ]
)


def test_items_have_a_line_each_also_before_they_start() -> None:
    lines = [line.plain for line in Tree(ITEMS, items=True).lines(NOW, 80)]
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "├─ ✔ a/0 Completed 2s eu; attempt 2",
        '├─ ○ a/1 Waiting {"n": 1}',
        "├─ ✖ a/2 Failed JobFailed: m\ufffd",
        f"└─ ○ a/3 Waiting {'x' * 39}…",
    ]


def test_items_that_a_finished_step_did_not_start_have_no_line() -> None:
    lines = [*Tree(with_conditions(ITEMS, a={"phase": "Failed"}), items=True).lines(NOW, 80)]
    assert [line.plain.split()[2] for line in lines[2:]] == ["a/0", "a/2"]


def test_the_most_important_items_are_shown_if_there_is_little_room() -> None:
    lines = [line.plain for line in Tree(ITEMS, items=True).lines(NOW, 80, 4)]
    assert [line.split()[2] for line in lines[1:3]] == ["a", "a/2"]
    assert lines[3] == "… 2 Waiting, 1 Completed not shown"


def test_a_waiting_step_has_whole_seconds() -> None:
    since = NOW - timedelta(seconds=13)
    flow = with_conditions(DIAMOND, e={"last_transition_time": since})
    [*_, line] = [line.plain for line in Tree(flow).lines(NOW + timedelta(seconds=0.4), 80)]
    assert "13s" in line
