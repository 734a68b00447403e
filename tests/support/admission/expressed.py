"""Faults of a step's expressions and references."""

from typing import Any

from support.admission.reviewed import faults, flow_of

PARAMS: list[dict[str, Any]] = [
    {"name": "workers", "value": 4},
    {"name": "mode", "value": "fast"},
    {"name": "on", "value": True},
    {"name": "rates", "value": [0.1, 0.2]},
    {"name": "many", "value": [0] * 1001},
    {"name": "map", "value": {"x": {"y": 1}}},
]
AFTER_A: dict[str, Any] = {"name": "b", "dependsOn": {"targets": ["a"]}}


def said_of(**step: Any) -> list[str]:
    """Return the faults of step b, which depends on a; c depends on b, d on nothing, z is last."""
    last: Any = {"finally": [{"name": "z"}]}
    others: list[Any] = ["a", "c: b", "d", "a-b", "e.f", "2a"]
    flow = flow_of(
        others[0],
        AFTER_A | step,
        *others[1:],
        {"name": "all", "forEach": {"count": 2}},
        params=PARAMS,
        **last,
    )
    return [fault.removeprefix("spec.flows[1].") for fault in faults(flow)]
