"""Rules of steps that wait for the end of a daemon.

examples/refused contains the messages, one file per rule.
"""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import flow_of


def step(name: str, targets: str = "", condition: str | None = None, **ends: str) -> dict[str, Any]:
    depends_on: dict[str, Any] = {"targets": targets.split()}
    depends_on |= {"condition": condition} if condition else {}
    return {"name": name, "dependsOn": depends_on | ({"conditions": ends} if ends else {})}


def daemon(name: str, targets: str = "", **ends: str) -> dict[str, Any]:
    return {**step(name, targets, **ends), "daemon": True}


def faults(*steps: dict[str, Any]) -> list[str]:
    return [f"{v.path}: {v.detail}" for v in validate_flow(flow_of(*steps), Known()).violations]


A = daemon("a")
ADMITTED = [
    (A, step("x", "a", "Completed")),
    (A, step("x", "a", "Running"), step("y", "x a", "Finished")),
    (A, step("x", "a"), step("y", "x"), step("z", "y a", a="Failed")),
    (A, daemon("d", "a"), step("x", "d"), step("y", "x a", a="Completed")),
    (
        A,
        step("x", "a", "Completed"),
        daemon("d", "x"),
        step("y", "d"),
        step("z", "y d", "Finished"),
    ),
    (A, daemon("b"), step("x", "a", "Completed"), step("y", "x b")),
]
REFUSED = [
    ("flows[1].dependsOn.targets[0]", "x -> y -> end of a -> x",
     (A, step("x", "a", "Completed"), step("y", "x a", a="Running"))),
    ("flows[1].dependsOn.targets[0]", "x -> y -> z -> end of a -> x",
     (A, step("x", "a", "Finished"), step("y", "x"), step("z", "y a"))),
    ("flows[2].dependsOn.targets[0]", "x -> end of a -> y -> end of b -> x",
     (A, daemon("b"), step("x", "b a", b="Completed"), step("y", "a b", a="Completed"))),
    ("flows[2].dependsOn.targets[0]", "x -> y -> end of d -> end of a -> x",
     (A, daemon("d", "a"), step("x", "a", "Completed"), step("y", "x d"))),
    ("flows[1].dependsOn.targets[0]", "x -> end of a -> y -> x",
     (A, step("x", "y a"), step("y", "a", "Failed"))),
]  # fmt: skip


@pytest.mark.parametrize("steps", ADMITTED)
def test_a_step_can_wait_for_the_end_of_a_daemon_that_it_does_not_need(
    steps: tuple[dict[str, Any], ...],
) -> None:
    assert faults(*steps) == []


@pytest.mark.parametrize(("path", "cycle", "steps"), REFUSED)
def test_a_step_that_needs_a_daemon_cannot_wait_for_its_end(
    path: str, cycle: str, steps: tuple[dict[str, Any], ...]
) -> None:
    (fault,) = faults(*steps)
    assert cycle in fault
    assert fault.startswith(f"spec.{path}: ")


def test_a_cycle_of_steps_is_reported_alone() -> None:
    (fault,) = faults(A, step("x", "y a", a="Completed"), step("y", "x a"))
    assert "these steps wait for each other: x -> y -> x" in fault


def test_each_explicit_end_of_a_daemon_has_a_warning() -> None:
    probe = {"tcpSocketList": [{"taskName": "main", "port": 80}]}
    probing = {
        "name": "p",
        "dependsOn": {"targets": ["a"], "condition": "Completed", "probe": probe},
    }
    steps = (
        A, daemon("b"), step("w", "a", "Running"), step("x", "a", "Completed"),
        step("y", "a b", b="Finished"), step("z", "w", "Failed"), probing,
    )  # fmt: skip
    warned = validate_flow(flow_of(*steps), Known()).field_warnings
    assert [(each.path, "the daemon a" in each.detail) for each in warned] == [
        ("spec.flows[3].dependsOn.condition", True),
        ("spec.flows[4].dependsOn.conditions.b", False),
    ]
