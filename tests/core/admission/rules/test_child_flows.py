"""Rules of child flows whose place depends on the list of the step."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import brief, faults, flow_of

CHILD = {"name": "a", "flow": {"flows": [{"name": "i", "template": "t"}]}}
PROBE = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
PROBING = {"name": "b", "template": "t", "dependsOn": {"targets": ["a"], "probe": PROBE}}


@pytest.mark.parametrize("place", ["flows", "finally"])
def test_a_probe_checks_no_child_flow(place: str) -> None:
    steps = [CHILD, PROBING]
    flow = flow_of(*steps) if place == "flows" else flow_of("first", **{"finally": steps})
    assert brief(faults(flow)) == [f"spec.{place}[1].dependsOn.targets[0] Invalid"]


def test_a_probe_in_finally_checks_no_step_of_the_flow() -> None:
    flow = flow_of(CHILD, **{"finally": [PROBING]})
    assert brief(faults(flow)) == ["spec.finally[0].dependsOn.targets[0] Invalid"]


def container(*command: str) -> dict[str, Any]:
    return {"image": "busybox", "command": ["echo", *command]}


BELOW = "$(params.s.id)"
FIELDS: dict[str, dict[str, Any]] = {
    "container": {"container": container(BELOW, "$(params.deep.inner.x.0)")},
    "env, image, args": {
        "container": container(), "env": {"A": BELOW}, "image": BELOW, "args": [BELOW]
    },
    "timeout and retry": {
        "container": container(), "timeout": "$(params.s.t)",
        "retry": {"limit": "$(params.s.n)", "patch": {"jobSpec": {"queue": BELOW}}},
    },
    "numbers": {
        "container": container(),
        "forEach": {"count": "$(params.s.n)", "parallelism": "$(params.s.n)"},
    },
    "repeat": {"container": container(), "repeat": {"max": "$(params.s.n)", "until": "true"}},
    "approval": {"approval": {"message": BELOW, "timeout": "$(params.s.t)"}},
    "switch": {"switch": [{"when": "params.s.n > 1", "container": container(BELOW)}]},
    "vars": {"container": container("$(vars.v)"), "vars": {"v": "params.s.id"}},
    "a child of the child": {
        "flow": {
            "params": {"q": "$(params.s)", "w": BELOW},
            "flows": [{"name": "z", "container": container("$(params.q.id)", "$(params.w.x)")}],
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
def test_what_only_a_run_knows_of_a_param_is_not_judged(fields: dict[str, Any]) -> None:
    params = {"s": "$(item)", "deep": {"inner": "$(item.c)"}}
    flow = {"params": params, "flows": [{"name": "x", **fields}], "parallelism": "$(params.s.n)"}
    step = {"name": "a", "flow": flow, "forEach": {"items": [{"id": "a", "c": 1}]}}
    assert validate_flow(flow_of(step), Known()).violations == ()


def test_what_is_known_of_a_param_is_judged() -> None:
    flow = {"params": {"s": {"id": "$(item)"}}, "flows": [
        {"name": "x", "container": container("$(params.s.id.y)", "$(params.s.ix)")}
    ]}  # fmt: skip
    step = {"name": "a", "flow": flow, "forEach": {"items": [1]}}
    found = [v.value for v in validate_flow(flow_of(step), Known()).violations]
    assert found == ["$(params.s.ix)"]
