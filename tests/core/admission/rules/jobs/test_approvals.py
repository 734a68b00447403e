"""Rules of steps that wait for approval. examples/refused contains the messages."""

from typing import Any

import pytest

from jobflow.api.flow.traits import WorkKind
from jobflow.core.admission.rules.jobs import work
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.violations import Verdict
from support.admission.reviewed import faults, flow_of, knowing, template_of


def places(*steps: dict[str, Any] | str, **spec: Any) -> list[str]:
    return [
        f"{v.path} {v.reason.removeprefix('FieldValue')}"
        for v in validate_flow(flow_of(*steps, **spec), Known()).violations
    ]


def approval(approval: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": "ok", "approval": approval or {}, **fields}


@pytest.mark.parametrize(
    "step",
    [
        approval(),
        approval({"message": "Deploy $(params.x) of $(flow.name) in $(HOME)?"}),
        approval({"timeout": "1h"}),
        approval({"timeout": "1h", "default": "Approve"}),
        approval(when="params.x > 0", continueOnFailure=True),
        approval({"message": "$(item) $(index)"}, forEach={"count": 3, "parallelism": 1}),
        approval(template="", daemon=False, patch=None),
    ],
    ids=str,
)
def test_valid_approvals_are_admitted(step: dict[str, Any]) -> None:
    assert places(step, "b: ok", params=[{"name": "x", "value": 1}]) == []


def test_an_approval_needs_no_template() -> None:
    known = knowing(template_of("b"))
    assert validate_flow(flow_of(approval(), "b: ok"), known) == Verdict()


@pytest.mark.parametrize(
    "fields",
    [
        {"template": "t"},
        {"patch": {"jobSpec": {"queue": "q"}}},
        {"switch": [{}]},
        {"repeat": {"until": "true", "max": 2}},
        {"retry": {"limit": 1}},
        {"timeout": "1h"},
        {"daemon": True},
    ],
    ids=str,
)
def test_fields_about_a_job_are_refused(fields: dict[str, Any]) -> None:
    [field] = fields
    assert places(approval(**fields)) == [f"spec.flows[0].{field} Forbidden"]


@pytest.mark.parametrize("field", ["patch", "avoidNodes"])
def test_fields_about_a_job_are_refused_within_a_field_that_is_not(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as in a kind of work that is tried again
    others = [each for each in work._WITHOUT[WorkKind.APPROVAL] if each[0].json != "retry"]
    monkeypatch.setitem(work._WITHOUT, WorkKind.APPROVAL, others)
    value = {"patch": {"jobSpec": {}}, "avoidNodes": True}[field]
    step = approval(retry={"limit": 1, field: value})
    assert f"spec.flows[0].retry.{field} Forbidden" in places(step)


@pytest.mark.parametrize(
    ("step", "place"),
    [
        (approval({"timeout": "soon"}), "timeout Invalid"),
        (approval({"timeout": "0s"}), "timeout Invalid"),
        (approval({"timeout": "$(params.x)"}), "timeout Invalid"),
        (approval({"timeout": "1$(params.t)"}), "timeout Invalid"),
        (approval({"timeout": "1s", "default": "approve"}), "default NotSupported"),
        (approval({"default": "Approve"}), "default Forbidden"),
        (approval({"message": "$(item)"}), "message Invalid"),
        (approval({"message": "$(steps.b.outputs.x)"}), "message Invalid"),
    ],
    ids=str,
)
def test_invalid_approvals_are_refused(step: dict[str, Any], place: str) -> None:
    assert places(step, "b") == [f"spec.flows[0].approval.{place}"]


def test_in_finally_an_approval_needs_a_timeout() -> None:
    assert places("a", **{"finally": [approval({"timeout": "1h"})]}) == []
    assert places("a", **{"finally": [approval()]}) == ["spec.finally[0].approval.timeout Required"]


def test_a_probe_of_an_approval_is_refused() -> None:
    probe = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
    probing = {"name": "b", "dependsOn": {"targets": ["ok"], "probe": probe}}
    assert places(approval(), probing) == ["spec.flows[1].dependsOn.probe Forbidden"]


def test_the_outputs_of_an_approval_may_be_used() -> None:
    reading = {
        "name": "b",
        "dependsOn": {"targets": ["ok"]},
        "when": 'steps["ok"].outputs.percent > 1',
        "patch": {"jobSpec": {"queue": "$(steps.ok.outputs.queue)"}},
    }
    assert faults(flow_of(approval(), reading)) == []
