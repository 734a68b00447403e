"""Names of a tree of flows: equal ones are found without making all names."""

from functools import partial
from typing import Any

import pytest

from jobflow.core.admission.rules import child_flows
from support.admission.reviewed import brief, faults, flow_of, knowing, template_of
from support.laws.counted_work import lines_run

RETRY = {"retry": {"limit": 1}}
ITEMS = {"forEach": {"count": 3}}


def child(name: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "flow": {"flows": list(steps)}, **more}


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "template": "t", **more}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (child("a", leaf("b")), leaf("a-b")),
        (child("a", leaf("b"), **ITEMS), leaf("a-2-b")),
        (child("a", leaf("b"), **RETRY), leaf("a-r1-b")),
        (child("a", leaf("b"), **ITEMS, **RETRY), leaf("a-0-r1-b")),
        (child("a", leaf("b", **ITEMS)), leaf("a-b", **ITEMS)),
        (child("a", child("b", leaf("c")), **RETRY), child("a-r1", leaf("b-c"))),
        (child("a", leaf("b"), **ITEMS), child("a-1", leaf("b"))),
    ],
)
def test_a_job_of_two_flows_is_found(first: dict[str, Any], second: dict[str, Any]) -> None:
    found = faults(flow_of(first, second), knowing(template_of("t")))
    assert any("makes a job or child flow of this name too" in fault for fault in found)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (child("a", leaf("b")), leaf("a-c")),
        (child("a", leaf("b"), **ITEMS), leaf("a-3-b")),
        (child("a", leaf("b"), **RETRY), leaf("a-r2-b")),
        (child("a", leaf("b"), **ITEMS), leaf("a-00-b")),
    ],
)
def test_other_names_are_not(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert faults(flow_of(first, second), knowing(template_of("t"))) == []


def test_a_pod_of_two_flows_is_found() -> None:
    known = knowing(template_of("t", "b-c-d"), template_of("u", "d"))
    steps = child("a-b", {"name": "c", "template": "u"}), leaf("a")
    (fault,) = faults(flow_of(*steps), known)
    assert fault.endswith("makes a pod of this name too; rename one of the steps")
    assert "-a-b-c-d-0" in fault


def test_cases_of_a_switch_may_make_equal_names() -> None:
    case = {"when": "true", "flow": {"flows": [leaf("b")]}}
    assert faults(flow_of({"name": "a", "switch": [case, case]})) == []


def _chains(count: int) -> list[dict[str, Any]]:
    inner = leaf("x", **RETRY)
    for _ in range(2):
        inner = child("c", inner, **RETRY)
    return [child(f"s{i}", inner, **RETRY) for i in range(count)]


@pytest.mark.no_cover
def test_retries_and_tasks_do_not_multiply() -> None:
    """Eight times as many names of pods for each task, and each task in each chain."""
    flow = flow_of(*_chains(20))
    templates = (template_of("t", *(f"t{i}" for i in range(count))) for count in (10, 400))
    few, many = (lines_run(partial(faults, flow, knowing(each))) for each in templates)
    assert many < 2 * few


def test_a_search_among_names_alike_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_flows, "MAX_COMPARED", 100)
    alike = ["-".join(["a"] * i) for i in range(1, 9)]
    steps = [
        child(name, *(leaf(f"{each}-x{i}") for each in alike), **RETRY)
        for i, name in enumerate(alike)
    ]
    assert brief(faults(flow_of(*steps))) == ["spec.flows Too"]
