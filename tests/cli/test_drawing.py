"""Trees and tables of fixed statuses, word for word, at 80 and at 160 columns."""

from __future__ import annotations

import time
from datetime import timedelta

import msgspec
import pytest
from rich.cells import cell_len

from jobflow.api.jobflow import JobFlow, JobFlowStatus
from jobflow.cli.drawing import Tree, table
from jobflow.core.wording import span
from shown import DIAMOND, FAILED, NOW, standing


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


def test_a_failed_flow_at_80_columns_cuts_what_is_too_long() -> None:
    assert tree(FAILED) == [
        "training  Failed  3/3  1m15s",
        "└─ ✖ train        Failed         2s  JobFailed: the job training-train ended Fa…",
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


def test_a_second_attempt_is_said() -> None:
    conditions = dict(DIAMOND.status.conditions or {})
    conditions["test-c"] = msgspec.structs.replace(conditions["test-c"], attempts=2)
    status = msgspec.structs.replace(DIAMOND.status, conditions=conditions)
    assert "attempt 2" in tree(msgspec.structs.replace(DIAMOND, status=status))[3]


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
    assert span(timedelta(seconds=seconds)) == said


def test_no_span() -> None:
    assert span(None) == ""
