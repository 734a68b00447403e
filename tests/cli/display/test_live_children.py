"""Live trees of flows with child flows."""

import io
from typing import Any

import msgspec
from rich.console import Console

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.display.live import LiveTrees
from jobflow.cli.display.tree import MOST_LIVE_CHILDREN
from support.plan.flow_statuses import NOW


def outer(phases: dict[int, str], *, count: int) -> JobFlow:
    """Return the flow f, whose step train runs a flow for each item; those in `phases` began."""
    step = {"name": "train", "forEach": {"count": count}, "flow": {"flows": [{"name": "fit"}]}}
    runs = [{"index": i, "phase": phase, "flow": f"f-train-{i}"} for i, phase in phases.items()]
    return _flow("f", [step], {"f-train": {"phase": "Running", "runs": runs}}, "Running")


def child(index: int, phase: str, state: str = "Running") -> JobFlow:
    """Return the child flow of an item, with the phase of its step fit."""
    name = f"f-train-{index}"
    flow = _flow(name, [{"name": "fit"}], {f"{name}-fit": {"phase": phase}}, state)
    owner = {"kind": "JobFlow", "name": "f", "uid": "f", "controller": True}
    meta = {"labels": {"flow.volcano.sh/root": "f"}, "ownerReferences": [owner]}
    raw = msgspec.to_builtins(flow)
    return msgspec.convert({**raw, "metadata": {**raw["metadata"], **meta}}, JobFlow)


def _flow(name: str, steps: list[Any], conditions: dict[str, Any], state: str) -> JobFlow:
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"flows": steps},
        "status": {"state": {"phase": state}, "conditions": conditions},
    }
    return msgspec.convert(raw, JobFlow)


def lines(trees: LiveTrees, height: int = 20) -> list[str]:
    return [" ".join(line.plain.split()) for line in trees.lines(NOW, 80, height)]


def test_steps_of_child_flows_are_below_their_item_as_they_change() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    trees.show(outer({0: "Running"}, count=2))
    assert lines(trees)[1:] == [
        "└─ ● train Running 0/2 items done, 1 running",
    ]
    trees.show_child(child(0, "Running"))
    below = [
        "└─ ● train Running 0/2 items done, 1 running",
        "├─ ● train/0 Running",
        "│ └─ ● fit Running",
        "└─ ○ train/1 Waiting",
    ]
    assert lines(trees)[1:] == below
    trees.show_child(child(0, "Failed"))
    assert "│ └─ ✖ fit Failed" in lines(trees)


def test_many_child_flows_are_folded_as_items_are() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80))
    trees.show(outer(dict.fromkeys(range(9), "Running"), count=9))
    for index in range(9):
        trees.show_child(child(index, "Running"))
    assert lines(trees)[1:] == ["└─ ● train Running 0/9 items done, 9 running"]


def test_a_live_tree_opens_only_some_of_many_child_flows_failed_ones_first() -> None:
    trees = LiveTrees(Console(file=io.StringIO(), width=80), items=True)
    count = 10 * MOST_LIVE_CHILDREN
    trees.show(outer(dict.fromkeys(range(count), "Running"), count=count))
    for index in range(count):
        failed = index == count - 1
        trees.show_child(
            child(index, "Failed" if failed else "Running", "Failed" if failed else "")
        )
    shown = lines(trees, 10 * count)
    assert sum("fit" in line for line in shown) == MOST_LIVE_CHILDREN
    assert "✖ fit Failed" in shown[-1]
