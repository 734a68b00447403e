"""Rules of spec.concurrency."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, Verdict, validate_flow
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
