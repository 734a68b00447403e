"""Admission leaves neither objects nor reference cycles behind.

The webhook rarely runs the garbage collector (`serve.freeze_garbage_collector`).
"""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from jobflow.core.admission.analysis.flow_expressions import FlowExpressions
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.resolved_specs import KnownTasks
from jobflow.core.admission.validate import validate_flow
from support.admission.reviewed import flow_of, knowing, template_of

CONTROLLED: list[dict[str, Any]] = [
    {"name": "a", "template": "t", "forEach": {"items": [{"x": 1}]}, "retry": {"limit": 1}},
    {
        "name": "b",
        "dependsOn": {"targets": ["a"]},
        "when": 'steps["a"].items.all(i, has(i.outputs.x)) && steps["a"].tasks.main.Failed == 0',
        "switch": [{"when": 'steps["a"].phase == "Completed"', "template": "t"}],
        "patch": {"jobSpec": {"queue": "q", "plugins": {"env": ["$(flow.name)"]}}},
    },
    {"name": "c", "template": "t", "when": "steps.a.nothing == no", "repeat": {"max": 2}},
]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


PROBE = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
PROBING = {"name": "b", "template": "t", "dependsOn": {"targets": ["a"], "probe": PROBE}}
FIRST = {"name": "a", "template": "t"}


@pytest.mark.long
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("steps", [["t", "u: t"], [FIRST, PROBING], CONTROLLED])
def test_an_admission_leaves_no_objects(steps: list[Any]) -> None:
    known = knowing(template_of("t", "main"))
    flow = flow_of(*steps)
    before = _alive()
    for _ in range(3):
        validate_flow(flow, known)
    assert _alive() == before


def _alive() -> int:
    types = (FlowFacts, FlowExpressions, KnownTasks)
    return sum(isinstance(each, types) for each in gc.get_objects())
