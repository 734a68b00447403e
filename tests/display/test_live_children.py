"""Live trees of flows with child flows."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from jobflow.api.flow.jobflow import JobFlow
from jobflow.display.live import LiveTrees
from jobflow.display.tree import MOST_LIVE_CHILDREN, Tree
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


LOG = (
    "the job f-train-0-fit ended Failed: pod f-train-0-fit-main-0 (task main): exit code 1: no luck"
)
STATE = f"step fit failed: {LOG}"
RUN = f"the flow f-train-0 ended Failed: {STATE}"


def failed_pair(*, has_items: bool) -> tuple[JobFlow, JobFlow]:
    """Return a flow that failed because of its child flow, and the child."""
    step: dict[str, Any] = {"name": "train", "flow": {"flows": [{"name": "fit"}]}}
    told = {"phase": "Failed", "reason": "FlowFailed", "message": RUN, "flow": "f-train-0"}
    if has_items:
        step["forEach"] = {"count": 1}
        told |= {"message": f"item 0: {RUN}"[:100] + "…", "runs": [told | {"index": 0}]}
    fails = {"phase": "Failed", "reason": "JobFailed", "message": LOG}
    parent = _flow("f", [step], {"f-train": told}, "Failed")
    inner = _flow("f-train-0", [{"name": "fit"}], {"f-train-0-fit": fails}, "Failed")
    states = {
        "reason": "StepFailed",
        "message": f"step train failed: {told['message']}"[:100] + "…",
    }
    state = msgspec.structs.replace(parent.status.state, **states)
    status = msgspec.structs.replace(parent.status, state=state)
    return msgspec.structs.replace(parent, status=status), inner


@pytest.mark.parametrize("has_items", [False, True])
def test_a_failure_is_told_once_where_it_happened(has_items: bool) -> None:
    parent, inner = failed_pair(has_items=has_items)
    tree = Tree(parent, {"f-train-0": inner})
    shown = [" ".join(line.plain.split()) for line in tree.lines(NOW, None)]
    between = ["└─ ✖ train Failed FlowFailed: item 0"] if has_items else []
    item = "train/0" if has_items else "train"
    failed = "FlowFailed: the flow f-train-0 ended Failed: step fit failed"
    assert shown == [
        "f Failed 1 failed; StepFailed: step train failed",
        *between,
        f"└─ ✖ {item} Failed {failed}",
        f"└─ ✖ fit Failed JobFailed: {LOG}",
    ]
    assert LOG[:30] in [" ".join(line.plain.split()) for line in Tree(parent).lines(NOW, None)][-1]
