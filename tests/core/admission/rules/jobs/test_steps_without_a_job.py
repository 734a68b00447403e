"""Rules of steps that compute values or fail the flow. examples/refused contains the messages."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import faults, flow_of


def computing(**fields: Any) -> dict[str, Any]:
    return {"name": "n", "compute": {"x": "params.p + 1"}, **fields}


def choosing(*cases: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "n", "switch": list(cases), **fields}


def places(*steps: dict[str, Any] | str) -> list[str]:
    spec = flow_of(*steps, params=[{"name": "p", "value": 1}])
    return [
        f"{v.path} {v.reason.removeprefix('FieldValue')}"
        for v in validate_flow(spec, Known()).violations
    ]


@pytest.mark.parametrize(
    "step",
    [
        computing(),
        {"name": "n", "compute": {}},
        {"name": "n", "compute": {"x": "item + index"}, "forEach": {"count": 3, "parallelism": 1}},
        {"name": "n", "fail": "$(item) of $(params.p) in $(HOME)", "forEach": {"items": [1]}},
        computing(when="params.p > 1", continueOnFailure=True, template="", retry=None),
        choosing({"when": "params.p > 1", "compute": {"x": "1"}}, {"fail": "no"}),
        choosing({"when": "params.p > 1", "fail": "no"}, {"template": "t"}, retry={"limit": 1}),
    ],
    ids=str,
)
def test_steps_without_a_job_are_admitted(step: dict[str, Any]) -> None:
    assert places(step, "b: n") == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"template": "t"}, "template Forbidden"),
        ({"container": {"image": "i"}}, "container Forbidden"),
        ({"fail": "no"}, "fail Forbidden"),
        ({"vars": {"v": "1"}}, "vars Forbidden"),
        ({"retry": {"limit": 1}}, "retry Forbidden"),
        ({"repeat": {"until": "true", "max": 2}}, "repeat Forbidden"),
        ({"timeout": "1h"}, "timeout Forbidden"),
        ({"switch": [{}]}, "compute Forbidden"),
        ({"reusePolicy": "Never"}, "reusePolicy Forbidden"),
        ({"compute": {"x": "steps['n'].outputs.x"}}, "compute.x Invalid"),
        ({"compute": {"x": "item"}}, "compute.x Invalid"),
        ({"compute": {"x": "attempt"}}, "compute.x Invalid"),
        ({"compute": {"x": "params.p +"}}, "compute.x Invalid"),
        ({"compute": {"x": "params.p / 0"}}, "compute.x Invalid"),
        ({"compute": {"two words": "1"}}, "compute Invalid"),
        ({"compute": {f"x{i}": "1" for i in range(101)}}, "compute TooMany"),
        ({"compute": None, "fail": "$(item)"}, "fail Invalid"),
    ],
    ids=str,
)
def test_faults_of_steps_without_a_job_are_refused(fields: dict[str, Any], place: str) -> None:
    assert places(computing(**fields)) == [f"spec.flows[0].{place}"]


@pytest.mark.parametrize(
    ("case", "place"),
    [
        ({"fail": "no", "compute": {"x": "1"}}, "fail Forbidden"),
        ({"fail": "no", "template": "t"}, "fail Forbidden"),
        ({"compute": {"x": "1"}, "container": {"image": "i"}}, "compute Forbidden"),
        ({"fail": "no", "patch": {"jobSpec": {"queue": "q"}}}, "patch Forbidden"),
        ({"compute": {"x": "item"}}, "compute.x Invalid"),
        ({"compute": {"": "1"}}, "compute Invalid"),
    ],
    ids=str,
)
def test_faults_of_cases_without_a_job_are_refused(case: dict[str, Any], place: str) -> None:
    assert places(choosing({"when": "params.p > 1"}, case)) == [f"spec.flows[0].switch[1].{place}"]


def test_a_step_all_of_whose_cases_have_no_job_has_no_fields_about_one() -> None:
    cases = ({"when": "params.p > 1", "compute": {"x": "1"}}, {"fail": "no"})
    assert places(choosing(*cases, retry={"limit": 1})) == ["spec.flows[0].retry Forbidden"]


def test_a_probe_of_a_step_without_a_job_is_refused() -> None:
    probe = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
    probing = {"name": "b", "dependsOn": {"targets": ["n"], "probe": probe}}
    assert places(computing(), probing) == ["spec.flows[1].dependsOn.probe Forbidden"]


def test_the_values_may_be_used() -> None:
    reading = {
        "name": "b",
        "dependsOn": {"targets": ["n"]},
        "when": 'steps["n"].outputs.x > 1',
        "patch": {"jobSpec": {"queue": "$(steps.n.outputs.x)"}},
    }
    assert faults(flow_of({"name": "n", "compute": {"x": "'q'"}}, reading)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("steps['n'].outputs.y + 1", "compute it in a step before this one"),
        ("y + 1", "a value cannot use another one of its step: write its expression again, or"),
    ],
)
def test_a_value_that_reads_its_own_step_is_told_where_to_compute_it(text: str, fault: str) -> None:
    [found] = faults(flow_of({"name": "n", "compute": {"y": "1", "x": text}}))
    assert found.startswith("spec.flows[0].compute.x: Invalid value: ")
    assert fault in found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("outputs.sizes", '"n" does not compute "sizes"; did you mean "size"?'),
        ("job", 'a step has no "job"'),
    ],
)
def test_only_what_a_step_computes_can_be_read(text: str, fault: str) -> None:
    reading = {"name": "b", "dependsOn": {"targets": ["n"]}, "env": {"X": f"$(steps.n.{text})"}}
    [found] = faults(flow_of({"name": "n", "compute": {"size": "1"}}, reading))
    assert fault in found


def test_only_what_the_items_of_a_step_compute_can_be_read() -> None:
    computing = {"name": "n", "forEach": {"count": 2}, "compute": {"size": "index"}}
    texts = {"a": "steps['n'].items[0].outputs.size", "b": "steps['n'].items[0].outputs.sizes"}
    reading = {"name": "r", "dependsOn": {"targets": ["n"]}, "compute": texts}
    [found] = faults(flow_of(computing, reading))
    assert found.startswith("spec.flows[1].compute.b: Invalid value: ")
    assert '"n" does not compute "sizes"; did you mean "size"?' in found
