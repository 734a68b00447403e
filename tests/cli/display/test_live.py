"""Displays of running flows: trees on a terminal, one line per change elsewhere."""

import io
import re

from rich.console import Console

from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.live import ChangeLog, Display, LiveTrees
from support.plan.flow_statuses import DIAMOND, FAILED, NOW, standing

DONE = standing("test", "Succeed", **dict.fromkeys("abcde", "Completed"))


def log_lines(*flows: JobFlow) -> list[str]:
    out = io.StringIO()
    with ChangeLog(Console(file=out, force_terminal=False, width=80)) as display:
        for flow in flows:
            display.show(flow)
    return out.getvalue().splitlines()


def test_only_changes_are_logged() -> None:
    lines = log_lines(DIAMOND, DIAMOND, DONE)
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in lines)
    assert [line[10:] for line in lines] == [
        "test  Running",
        "test/a  Completed",
        "test/b  Completed",
        "test/c  Running",
        "test/d  Pending",
        "test/c  Completed",
        "test/d  Completed",
        "test/e  Completed",
        "test  Succeed",
    ]


def test_a_failure_is_logged_with_its_reason_and_no_escape_codes() -> None:
    lines = log_lines(FAILED)
    assert lines[0][10:] == (
        "training/train  Failed  "
        "JobFailed: the job training-train ended Failed: task worker lost two pods"
    )
    assert "\x1b" not in "".join(lines)


def test_trees_share_the_height_of_the_terminal() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    for flow in (standing("done", "Succeed", a="Completed"), DIAMOND, FAILED):
        trees.show(flow)
    assert [line.plain for line in trees.lines(NOW, 80, 12)] == [
        "test  Running  2/5  1m15s",
        "      ├─ ● c  Running     1m15s",
        "      └─ ◌ d  Pending     1m15s",
        "… 2 Completed, 1 Waiting not shown",
        "done  Succeed  1/1  1m15s",
        "└─ ✔ a  Completed      2s",
        "training  Failed  3/3  1m15s",
        "└─ ✖ train        Failed         2s  Failed: task worker lost two pods",
        "   ├─ ⊘ evaluate  Skipped            UpstreamFailed: train did not complete",
        "   └─ ✔ alarm     Completed      2s",
    ]


def test_flows_beyond_the_height_are_counted() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    for n in range(30):
        trees.show(standing(f"f{n}", "Running", a="Running", b="Waiting"))
    lines = [line.plain for line in trees.lines(NOW, 80, 10)]
    assert len(lines) == 10
    assert lines[0] == "f0  Running  0/2  1m15s"
    assert lines[-1] == "… 21 more flows"


def test_a_live_tree_shows_changes_and_is_erased_at_the_end() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    with LiveTrees(console) as display:
        display.show(DIAMOND)
        console.print()  # redraws the tree, as the next tick does
        assert "● c" in out.getvalue()
        display.show(DONE)
    assert "test  Succeed" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


def test_the_base_display_prints_nothing() -> None:
    with Display() as display:
        display.show(DIAMOND)
