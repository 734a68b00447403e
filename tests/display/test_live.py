"""Displays of running flows: trees on a terminal, one line per change elsewhere."""

import io
import re
from datetime import timedelta

import msgspec
from rich.console import Console

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.client.flows.follow import Display
from jobflow.display.flow_table import FlowTable, phase_of
from jobflow.display.live import ChangeLog, LiveTable, LiveTrees, TableLog
from support.plan.flow_statuses import DIAMOND, FAILED, NOW, standing, with_conditions

DONE = standing("test", "Succeed", **dict.fromkeys("abcde", "Completed"))


def log_lines(*flows: JobFlow) -> list[str]:
    out = io.StringIO()
    with ChangeLog(Console(file=out, force_terminal=False, width=80)) as display:
        for flow in flows:
            display.show(flow)
    return out.getvalue().splitlines()


def test_only_changes_are_logged() -> None:
    lines = log_lines(DIAMOND, DIAMOND, DONE)
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


def test_a_change_has_the_time_that_the_status_says() -> None:
    """A change that is seen without a time in the status has the present one."""
    done = with_conditions(
        DONE,
        c={"last_transition_time": NOW},
        d={"last_transition_time": NOW - timedelta(minutes=2)},
    )
    before, after = log_lines(DIAMOND)[1:], log_lines(DIAMOND, done)[5:]
    assert {line[:10] for line in before} == {" " * 10}
    assert re.match(r"\d\d:\d\d:\d\d  test/e  Completed", after[2])
    assert after[:2] == ["11:59:15  test/d  Completed", "12:01:15  test/c  Completed"]
    assert log_lines(done)[:3] == [
        "          test/a  Completed",
        "          test/b  Completed",
        "          test/e  Completed",
    ]


def test_a_flow_has_the_times_of_its_start_and_its_end() -> None:
    status = msgspec.structs.replace(DONE.status, completion_time=NOW)
    ended = msgspec.structs.replace(DONE, status=status)
    assert log_lines(DIAMOND, ended)[0] == "12:00:00  test  Running"
    assert log_lines(ended)[-1] == "12:01:15  test  Succeed"


def test_a_failure_is_logged_with_its_reason_and_no_escape_codes() -> None:
    lines = log_lines(FAILED)
    assert lines[0][10:] == (
        "training/train  Failed  "
        "JobFailed: the job training-train ended Failed: task worker lost two pods"
    )
    state = msgspec.structs.replace(FAILED.status.state, message="a\x1b[2Jb")
    status = msgspec.structs.replace(FAILED.status, state=state)
    lines += log_lines(msgspec.structs.replace(FAILED, status=status))
    assert lines[-1].endswith("a\ufffd[2Jb")
    assert "\x1b" not in "".join(lines)


def test_trees_share_the_height_of_the_terminal() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    for flow in (standing("done", "Succeed", a="Completed"), DIAMOND, FAILED):
        trees.show(flow)
    assert [line.plain for line in trees.lines(NOW, 80, 13)] == [
        "done  Succeed  1/1  1m15s",
        "└─ ✔ a  Completed      2s",
        "test  Running  2/5  1m15s",
        "      ├─ ● c  Running     1m15s",
        "      └─ ◌ d  Pending     1m15s",
        "… 2 Completed, 1 Waiting not shown",
        "training  Failed  3/3  1m15s  1 completed, 1 failed, 1 skipped",
        "└─ ✖ train        Failed         2s",
        "   │ JobFailed: the job training-train ended Failed: task worker lost two pods",
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


def test_flows_keep_their_order_and_finished_ones_are_counted_first() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    for flow in (standing("done", "Succeed", a="Completed"), standing("f", "Running", a="Running")):
        trees.show(flow)
    assert [line.plain for line in trees.lines(NOW, 80, 4)][::2] == [
        "done  Succeed  1/1  1m15s",
        "f  Running  0/1  1m15s",
    ]
    trees.show(standing("f", "Succeed", a="Completed"))
    trees.show(standing("g", "Running", a="Running"))
    assert [line.plain for line in trees.lines(NOW, 80, 2)] == [
        "g  Running  0/1  1m15s",
        "… 2 more flows",
    ]


def table(*flows: JobFlow, height: int = 20, phase: str = "") -> list[str]:
    """Return the lines of a live table of these flows."""
    live = LiveTable(Console(), FlowTable(), lambda flow: phase in ("", phase_of(flow)))
    for flow in flows:
        live.show(flow)
    return [line.plain for line in live.lines(NOW, 80, height)]


def test_a_live_table_keeps_the_order_of_flows() -> None:
    flows = [standing(name, "Running", a="Running") for name in "fed"]
    ended = standing("e", "Succeed", a="Completed")
    assert [line.split()[:2] for line in table(*flows, ended)[1:]] == [
        ["f", "Running"],
        ["e", "Succeed"],
        ["d", "Running"],
    ]


def test_a_live_table_counts_flows_that_do_not_fit_finished_ones_first() -> None:
    flows = [standing(f"f{n}", "Running", a="Running") for n in range(3)]
    done = [standing(f"d{n}", "Succeed", a="Completed") for n in range(1000)]
    lines = table(*done, *flows, height=6)
    assert [line.split()[0] for line in lines] == ["NAME", "d0", "f0", "f1", "f2", "…"]
    assert lines[-1] == "… 999 Succeed not shown"


def test_a_live_table_leaves_out_a_flow_that_changes_its_phase() -> None:
    running, ended = standing("f", "Running", a="Running"), standing("f", "Failed", a="Failed")
    assert len(table(running, phase="Running")) == 2
    assert len(table(running, ended, phase="Running")) == 1


def test_a_narrow_table_leaves_out_columns() -> None:
    flow = standing("a-flow-with-a-name", "Running", a="Running")
    lines = [line.plain for line in FlowTable(40).lines([flow], NOW)]
    assert lines == [
        "NAME                 PHASE     PROGRESS",
        "a-flow-with-a-name   Running   0/1",
    ]
    [header, line] = [line.plain for line in FlowTable(12).lines([flow], NOW)]
    assert (header, line) == ("NAME       …", "a-flow-with…")


def test_rows_that_come_later_stay_below_their_headings() -> None:
    columns = FlowTable()
    long = standing("a-long-name", "Running", a="Running")
    [header, _] = [line.plain for line in columns.lines([long], NOW)]
    row = columns.row(standing("f", "Running", a="Running"), NOW).plain
    assert header.index("PHASE") == row.index("Running")


def test_a_live_tree_shows_changes_and_is_erased_at_the_end() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    with LiveTrees(console) as display:
        display.show(DIAMOND)
        display.refresh()
        assert "● c" in out.getvalue()
        display.show(DONE)
    assert "test  Succeed" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


def test_a_live_tree_is_drawn_only_if_it_has_changed() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    with LiveTrees(console) as display:
        for flow in (DONE, DONE, FAILED, FAILED):
            display.show(flow)
            display.refresh()
            display.refresh()
        assert out.getvalue().count("test  Succeed") == 2
        assert out.getvalue().count("training  Failed") == 1
    assert out.getvalue().count("test  Succeed") == 2


def test_a_live_table_follows_the_width_of_the_terminal() -> None:
    live = LiveTable(Console(), FlowTable(80), lambda flow: True)
    live.show(standing("f", "Running", a="Running"))
    headers = [[*live.lines(NOW, width, 20)][0].plain for width in (80, 20)]
    assert [len(header.split()) for header in headers] == [6, 2]


def test_the_base_display_prints_nothing() -> None:
    with Display() as display:
        display.show(DIAMOND)


def owned(name: str, owner: str = "") -> JobFlow:
    """Return a flow whose controller is the flow `owner`."""
    by = [OwnerReference(kind="JobFlow", name=owner, uid=owner, controller=True)] if owner else None
    return JobFlow(metadata=ObjectMeta(name=name, uid=name, owner_references=by))


def test_child_flows_are_indented_below_their_parent() -> None:
    pairs = ("b", ""), ("c", "a"), ("a", ""), ("d", "c"), ("e", "gone"), ("x", "y"), ("y", "x")
    table = FlowTable().lines([owned(*pair) for pair in pairs], NOW)
    names = [line.plain.partition("Pending")[0].rstrip() for line in table[1:]]
    assert names == ["b", "a", "  c", "    d", "e", "x", "  y"]


def test_child_flows_are_indented_in_a_log_of_a_table_too() -> None:
    out = io.StringIO()
    log = TableLog(Console(file=out, width=80), FlowTable(), lambda flow: flow.metadata.name != "z")
    parent, child, deep = owned("a"), owned("b", "a"), owned("c", "b")
    log.show(child)
    log.show(parent)
    with log:
        log.show(deep)
        log.show(owned("e", "gone"))
        log.show(owned("z"))
        log.show(owned("f", "z"))
        log.remove(parent)
        log.remove(child)
        log.remove(deep)
    names = [re.split("Pending|Deleted", line)[0].rstrip() for line in out.getvalue().splitlines()]
    assert names[1:] == ["a", "  b", "    c", "e", "f", "a", "  b", "    c"]


def test_a_log_of_a_table_has_flows_that_own_each_other() -> None:
    out = io.StringIO()
    with TableLog(Console(file=out, width=80), FlowTable(), lambda flow: True) as log:
        log.show(owned("x", "y"))
        log.show(owned("y", "x"))
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["NAME", "x", "y"]
