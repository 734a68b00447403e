"""Rules of concurrency groups, of flows and of steps."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, Verdict, validate_flow
from jobflow.core.violations import Reason
from support.admission.reviewed import flow_of

PARAMS = [{"name": "env", "value": "prod"}, {"name": "none", "value": ""}]


@pytest.mark.parametrize(
    "concurrency",
    [
        {"group": "nightly"},
        {"group": "deploy to $(params.env)", "limit": 3, "policy": "Wait"},
        {"group": "$(params.env)", "policy": "Replace"},
        {"group": "$(flow.namespace)", "policy": "Forbid"},
    ],
    ids=str,
)
def test_valid_groups_are_admitted(concurrency: dict[str, Any]) -> None:
    flow = flow_of("a", concurrency=concurrency, params=PARAMS)
    assert validate_flow(flow, Known()) == Verdict()


@pytest.mark.parametrize(
    ("concurrency", "place", "detail"),
    [
        ({}, "group Required", "write the name of the group"),
        ({"group": ""}, "group Required", "write the name of the group"),
        ({"group": "$(params.none)"}, "group Invalid", "make an empty name"),
        ({"group": "$(params.envv)"}, "group Invalid", '"env"'),
        ({"group": "$(params.env.x)"}, "group Invalid", "has no value"),
        ({"group": "$(steps.a.outputs.x)"}, "group Invalid", "known before it starts"),
        ({"group": "$(item)"}, "group Invalid", "known before it starts"),
        ({"group": "g" * 254}, "group TooLong", "at most 253"),
        ({"group": "g", "limit": 0}, "limit Invalid", "at least 1"),
        ({"group": "g", "policy": "Queue"}, "policy NotSupported", '"Wait", "Replace", "Forbid"'),
        ({"group": "g", "policy": "wait"}, "policy NotSupported", "did you mean"),
    ],
    ids=str,
)
def test_invalid_groups_are_refused(concurrency: Any, place: str, detail: str) -> None:
    flow = flow_of("a", concurrency=concurrency, params=PARAMS)
    (fault,) = validate_flow(flow, Known()).violations
    reason = fault.reason.removeprefix("FieldValue")
    assert f"{fault.path} {reason}" == f"spec.concurrency.{place}"
    assert detail in fault.message


@pytest.mark.parametrize(
    "concurrency",
    [
        {"group": "nightly"},
        {"group": "$(params.env)", "limit": 3, "slots": 3},
        {"group": "$(flow.namespace)"},
    ],
    ids=str,
)
def test_valid_groups_of_steps_are_admitted(concurrency: dict[str, Any]) -> None:
    flow = flow_of({"name": "a", "concurrency": concurrency}, params=PARAMS)
    assert validate_flow(flow, Known()) == Verdict()


@pytest.mark.parametrize(
    ("concurrency", "place", "detail"),
    [
        ({"limit": 2}, "group Required", "write the name of the group whose steps"),
        ({"group": "$(params.envv)"}, "group Invalid", '"env"'),
        ({"group": "$(item)"}, "group Invalid", "the group of a step is known before it starts"),
        ({"group": "g" * 254}, "group TooLong", "at most 253"),
        ({"group": "g", "limit": 0}, "limit Invalid", "at least 1"),
        ({"group": "g", "slots": 0}, "slots Invalid", "at least 1"),
        ({"group": "g", "slots": 2}, "slots Invalid", "its limit is 1; raise the limit"),
        ({"group": "g", "limit": 2, "slots": 3}, "slots Invalid", "its limit is 2"),
    ],
    ids=str,
)
def test_invalid_groups_of_steps_are_refused(concurrency: Any, place: str, detail: str) -> None:
    flow = flow_of({"name": "a", "concurrency": concurrency}, params=PARAMS)
    (fault,) = validate_flow(flow, Known()).violations
    reason = fault.reason.removeprefix("FieldValue")
    assert f"{fault.path} {reason}" == f"spec.flows[0].concurrency.{place}"
    assert detail in fault.message


PLACES = {"group": "g"}
INNER = {"name": "b", "template": "b", "concurrency": {"group": "h"}}


def nested(*, middle: dict[str, Any]) -> dict[str, Any]:
    return {"name": "m", **middle, "flow": {"flows": [INNER]}}


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (nested(middle={"concurrency": PLACES}), "spec.flows[0].flow.flows[0].concurrency"),
        (
            {"name": "o", "concurrency": PLACES, "flow": {"flows": [nested(middle={})]}},
            "spec.flows[0].flow.flows[0].flow.flows[0].concurrency",
        ),
        (
            {"name": "o", "concurrency": PLACES, "switch": [{"flow": {"flows": [INNER]}}]},
            "spec.flows[0].switch[0].flow.flows[0].concurrency",
        ),
    ],
)
def test_no_step_below_one_with_places_has_any(step: dict[str, Any], path: str) -> None:
    (fault,) = validate_flow(flow_of(step), Known()).violations
    assert (fault.path, fault.reason) == (path, Reason.FORBIDDEN)


def test_places_in_child_flows_of_other_steps_are_admitted() -> None:
    flow = flow_of(nested(middle={}), {"name": "a", "concurrency": PLACES})
    assert validate_flow(flow, Known()) == Verdict()


def test_two_limits_of_one_group_are_a_warning() -> None:
    flow = flow_of(
        {"name": "a", "concurrency": PLACES}, {"name": "b", "concurrency": {**PLACES, "limit": 2}}
    )
    (warning,) = validate_flow(flow, Known()).warnings
    assert warning.startswith('the concurrency group "g" of steps has different limits (1 and 2)')


def test_another_limit_than_that_of_other_flows_is_a_warning() -> None:
    known = Known(limits=lambda group: [3] if group == (True, "g") else [])
    flow = flow_of({"name": "a", "concurrency": PLACES}, concurrency={"group": "g"})
    (warning,) = validate_flow(flow, known).warnings
    assert "of steps has different limits (1 and 3)" in warning
