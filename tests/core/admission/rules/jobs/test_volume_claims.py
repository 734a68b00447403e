"""Rules of spec.volumeClaims."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import flow_of, knowing, template_of

GOOD = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
PARAMS = [{"name": "size", "value": "1Gi"}, {"name": "n", "value": 3}]


def storage(size: Any) -> dict[str, Any]:
    return {**GOOD, "resources": {"requests": {"storage": size}}}


@pytest.mark.parametrize(
    "claim",
    [
        GOOD,
        storage("$(params.size)"),
        storage("$(params.n)"),
        storage("$(params.n)Gi"),
        {**GOOD, "storageClassName": "$(flow.namespace)"},
        {**GOOD, "volumeMode": "Block", "accessModes": ["ReadWriteMany", "ReadOnlyMany"]},
    ],
    ids=str,
)
def test_valid_claims_are_admitted(claim: dict[str, Any]) -> None:
    flow = flow_of("a", volumeClaims={"data": claim}, params=PARAMS)
    assert validate_flow(flow, Known()).violations == ()


@pytest.mark.parametrize(
    ("claims", "place", "detail"),
    [
        ({"Data": GOOD}, "Data Invalid", "at most 63 lower-case letters"),
        ({"a.b": GOOD}, "[a.b] Invalid", "at most 63 lower-case letters"),
        ({"d" * 64: GOOD}, f"{'d' * 64} Invalid", "at most 63 lower-case letters"),
        ({"d": None}, "d Required", "write the spec of the claim"),
        ({"d": {}}, "d Required", "write the spec of the claim"),
        ({"d": "10Gi"}, "d TypeInvalid", "must be of type object"),
        ({"d": {**GOOD, "accessModes": []}}, "d.accessModes Required", "at least one"),
        ({"d": {**GOOD, "accessModes": ["RWO"]}}, "d.accessModes[0] NotSupported", "supported"),
        (
            {"d": {**GOOD, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}},
            "d.accessModes Forbidden",
            "cannot be combined",
        ),
        ({"d": {**GOOD, "resources": None}}, "d.resources Required", "size"),
        ({"d": {**GOOD, "resources": {}}}, "d.resources.requests Required", "size"),
        ({"d": storage("0Gi")}, "d.resources.requests.storage Invalid", "more than 0"),
        ({"d": storage("-1Gi")}, "d.resources.requests.storage Invalid", "more than 0"),
        ({"d": storage("1 GB")}, "d.resources.requests.storage TypeInvalid", '"1G"'),
        ({"d": {**GOOD, "volumeMode": "block"}}, "d.volumeMode NotSupported", '"Block"'),
        ({"d": storage("$(params.sise)")}, "d.resources.requests.storage Invalid", '"size"'),
        ({"d": storage("$(item)")}, "d.resources.requests.storage Invalid", "once for the flow"),
        (
            {"d": storage("$(steps.a.outputs.n)")},
            "d.resources.requests.storage Invalid",
            "once for the flow",
        ),
        ({"d": storage("$(params.size.x)")}, "d Invalid", "has no value"),
        ({f"d{i}": GOOD for i in range(33)}, " TooMany", "at most 32"),
    ],
    ids=str,
)
def test_invalid_claims_are_refused(claims: dict[str, Any], place: str, detail: str) -> None:
    flow = flow_of("a", volumeClaims=claims, params=PARAMS)
    (fault,) = validate_flow(flow, Known()).violations
    dot = "" if place[0] in "[ " else "."
    reason = fault.reason.removeprefix("FieldValue")
    assert f"{fault.path} {reason}" == f"spec.volumeClaims{dot}{place}"
    assert detail in fault.message


def test_a_claim_that_only_a_child_flow_gets_is_used() -> None:
    child = {"flows": [{"name": "c", "template": "t"}], "params": {"x": "$(flow.claims.data)"}}
    known = knowing(template_of("t"))
    used = flow_of({"name": "a", "flow": child}, volumeClaims={"data": GOOD})
    assert validate_flow(used, known).field_warnings == ()
    unused = flow_of({"name": "a", "template": "t"}, volumeClaims={"data": GOOD})
    (found,) = validate_flow(unused, known).field_warnings
    assert "the claim will not be created" in str(found)


@pytest.mark.parametrize(
    ("claim", "warning"),
    [
        ({"storageClas": "x"}, '.storageClas: unknown field; did you mean "storageClassName"?'),
        (
            {"resources": {"request": {}}},
            '.resources.request: unknown field; did you mean "requests"?',
        ),
        ({"selector": {"zone": "a"}}, ".selector.zone: unknown field"),
    ],
)
def test_an_unknown_field_of_a_claim_gives_a_warning(claim: dict[str, Any], warning: str) -> None:
    flow = flow_of("a", volumeClaims={"data": {**GOOD, **claim}})
    (found,) = validate_flow(flow, Known()).field_warnings
    assert str(found) == f"spec.volumeClaims.data{warning}"
