"""UPDATE and DELETE of flows and templates in use, and the commands that a refusal names."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate
from jobflow.api.flow.status import Decisions, FlowState, JobFlowStatus, StepCondition
from jobflow.api.labels import FORCE_DELETE
from jobflow.core.admission.changes import need_of
from jobflow.core.admission.validate import (
    validate_flow_delete,
    validate_flow_update,
    validate_template_delete,
)
from jobflow.core.json_values import find_differences, is_same_json
from jobflow.core.violations import Verdict
from support.admission.reviewed import flow_of, reported, template_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORCED = {"annotations": {FORCE_DELETE: "true"}}
BEING_DELETED = {"deletion_timestamp": NOW}


def in_phase(flow: JobFlow, phase: str, **steps: str) -> JobFlow:
    conditions = {f"{flow.metadata.name}-{k}": StepCondition(phase=v) for k, v in steps.items()}
    status = JobFlowStatus(state=FlowState(phase=phase), conditions=conditions or None)
    return msgspec.structs.replace(flow, status=status)


def deleting(template: JobTemplate, *flows: JobFlow) -> Verdict:
    needs = [need for flow in flows if (need := need_of(flow, "train")) is not None]
    return validate_template_delete(template, needs)


def with_metadata(obj: Any, **fields: Any) -> Any:
    metadata = msgspec.structs.replace(obj.metadata, **fields)
    return msgspec.structs.replace(obj, metadata=metadata)


RUNNING_ADVICE = (
    "but a flow cannot be changed once it is created; to run another spec, cancel it (`jobflow "
    "cancel f -n team`), then `kubectl delete jf f -n team` and apply it again"
)
FINAL_ADVICE = (
    "but a flow cannot be changed once it is created; to run another spec, `kubectl "
    "delete jf f -n team` and apply it again"
)
FAILED_ADVICE = f"{FINAL_ADVICE}; to retry the failed steps unchanged, `jobflow retry f -n team`"


def test_a_changed_target_of_a_running_flow_is_refused():
    old, new = in_phase(flow_of("a", "b: a"), "Running"), flow_of("a", "b: c")
    assert reported(validate_flow_update(old, new)) == [
        f"spec.flows[1].dependsOn.targets[0]: Forbidden: this was changed, {RUNNING_ADVICE}"
    ]


@pytest.mark.parametrize(
    ("phase", "advice"), [("Succeed", FINAL_ADVICE), ("Failed", FAILED_ADVICE)]
)
def test_a_new_step_of_a_finished_flow_is_refused(phase, advice):
    old = in_phase(flow_of("a", "b: a"), phase)
    assert reported(
        validate_flow_update(old, flow_of("a", "b: a", "c", jobRetainPolicy="delete"))
    ) == [
        f'spec.flows: Forbidden: step "c" is new, {advice}',
        f"spec.jobRetainPolicy: Forbidden: this was changed, {advice}",
    ]


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        (flow_of("a", "b", "c"), {"spec.flows[1].dependsOn": "this was changed"}),
        (flow_of("a", "b: a c", "c"), {"spec.flows[1].dependsOn.targets": ("this was changed")}),
        (flow_of("a", "b: a", "c", **{"finally": [{"name": "z"}]}),
         {"spec.finally": 'step "z" is new'}),
        (flow_of("b: a", "a", "c"), {"spec.flows": "the order of the steps was changed"}),
        (flow_of("a", "b: a", "c", "d", "e", "g", "h"),
         {"spec.flows": 'steps "d", "e", "g" and 1 more are new'}),
        (flow_of("a", "x: a"), {"spec.flows": 'step "x" is new and steps "b" and "c" are gone'}),
        (flow_of(flows=None), {"spec.flows": 'steps "a", "b" and "c" are gone'}),
        (
            flow_of({"name": "a", "template": "t"}, "b: a",
                    {"name": "c", "patch": {"jobSpec": {"queue": "q"}}}, jobRetainPolicy="retain"),
            {
                "spec.flows[0].template": "this was changed",
                "spec.flows[2].patch": "this was changed",
                "spec.jobRetainPolicy": "this was changed",
            },
        ),
    ],
)  # fmt: skip
def test_each_changed_field_is_named(new, changes):
    verdict = validate_flow_update(flow_of("a", "b: a", "c"), new)
    assert {v.path: v.detail.partition(", but")[0] for v in verdict.violations} == changes


FIELDS = {
    "params": ([{"name": "n", "value": 1}], [{"name": "n", "value": True}], "params[0].value"),
    "jobDefaults": ({"labels": {"a": "x"}}, {"labels": {"a": "y"}}, "jobDefaults.labels.a"),
    "volumeClaims": ({"data": {"a": 1}}, {"data": {"a": 2}}, "volumeClaims.data.a"),
    "targets": (["a"], ["b"], "targets[0]"),
    "reuse": ({"flow": "e"}, {"flow": "d"}, "reuse.flow"),
    "concurrency": ({"group": "g"}, {"group": "h"}, "concurrency.group"),
    "parallelism": (2, None, "parallelism"),
    "timeout": ("1h", "2h", "timeout"),
    "failurePolicy": ("Abort", "Stop", "failurePolicy"),
    "finally": ([{"name": "z"}], [{"name": "z", "timeout": "1h"}], "finally[0].timeout"),
    "outputs": ({"x": "1"}, {"x": "2"}, "outputs.x"),
    "ttlSecondsAfterFinished": (60, 0, "ttlSecondsAfterFinished"),
    "ttlSecondsAfterSucceeded": (60, 0, "ttlSecondsAfterSucceeded"),
    "ttlSecondsAfterFailed": (60, 0, "ttlSecondsAfterFailed"),
}
"""Field -> value, another value, and the path of the difference."""


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_a_spec_may_change(field):
    old = {name: value for name, (value, _, _) in FIELDS.items()}
    _, other, path = FIELDS[field]
    verdict = validate_flow_update(flow_of("a", **old), flow_of("a", **old | {field: other}))
    assert [(v.path, v.detail.partition(", but")[0]) for v in verdict.violations] == [
        (f"spec.{path}", "this was changed")
    ]


def test_every_field_of_a_spec_is_tested():
    tested = {*FIELDS, "flows", "jobRetainPolicy", "suspend"}
    assert tested == {*JobFlowSpec.__struct_encode_fields__}


@pytest.mark.parametrize(("suspend", "verb"), [(True, "suspend"), (False, "resume")])
def test_a_changed_suspend_names_the_command(suspend, verb):
    old, new = flow_of("a", suspend=not suspend), flow_of("a", suspend=suspend)
    assert reported(validate_flow_update(old, new)) == [
        "spec.suspend: Forbidden: it is read only when a flow is created; "
        f"`jobflow {verb} f -n team` does it now"
    ]


def test_a_changed_suspend_of_a_finished_flow_names_no_command():
    old = in_phase(flow_of("a"), "Succeed")
    [text] = reported(validate_flow_update(old, flow_of("a", suspend=True)))
    assert text == f"spec.suspend: Forbidden: this was changed, {FINAL_ADVICE}"


@pytest.mark.parametrize(
    ("phase", "name"), [("", "Pending"), ("Pending", "Pending"), ("Running", "Running")]
)
def test_a_refused_delete_names_the_commands(phase, name):
    flow = in_phase(flow_of("a"), phase)
    assert reported(validate_flow_delete(flow)) == [
        f"status.state.phase: Forbidden: flow f is {name}: cancel it (`jobflow cancel f -n "
        "team`) or, to delete it and its jobs anyway, `kubectl annotate jf f "
        "flow.volcano.sh/force-delete=true -n team` and delete it again"
    ]


def test_a_refused_delete_of_a_cancelled_flow_advises_to_wait():
    flow = with_metadata(flow_of("a"), namespace="default")
    state = FlowState(phase="Running", reason="Cancelled")
    flow = msgspec.structs.replace(flow, status=JobFlowStatus(state=state))
    (text,) = reported(validate_flow_delete(flow))
    assert (
        "flow f is Running: it was cancelled, so wait until its jobs have finished or, to"
    ) in text


def test_commands_omit_the_default_namespace():
    flow = with_metadata(flow_of("a"), namespace="default")
    (text,) = reported(validate_flow_delete(flow))
    assert "`jobflow cancel f`" in text
    assert "`kubectl annotate jf f flow.volcano.sh/force-delete=true`" in text


@pytest.mark.parametrize("fields", [FORCED, BEING_DELETED])
def test_a_running_flow_may_be_deleted_by_force_or_again(fields):
    flow = with_metadata(in_phase(flow_of("a"), "Running"), **fields)
    assert validate_flow_delete(flow) == Verdict()


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_only_true_forces_a_delete(value):
    flow = with_metadata(flow_of("a"), annotations={FORCE_DELETE: value})
    assert validate_flow_delete(flow).violations


TRAIN = with_metadata(template_of("train"), namespace="team")
TWICE = flow_of({"name": "b", "template": "train"}, "train: b")


@pytest.mark.parametrize(
    ("flow", "step"),
    [
        (TWICE, "b"),
        (in_phase(TWICE, "Pending", b="Waiting"), "b"),
        (in_phase(TWICE, "Running", b="Running"), "b"),
        (in_phase(TWICE, "Running", b="Completed"), "train"),
        (in_phase(TWICE, "Running", b="Aborted", train="Restarting"), "train"),
    ],
)
def test_a_template_that_a_step_still_needs_cannot_be_deleted(flow, step):
    verdict = deleting(TRAIN, flow)
    assert reported(verdict) == [
        f"metadata.name: Forbidden: template train is still needed by flow f (step {step}): wait "
        "until they have finished or, to delete it anyway, `kubectl annotate jt train "
        "flow.volcano.sh/force-delete=true -n team` and delete it again"
    ]


LOOP = {"name": "a", "template": "train", "forEach": {"count": 3}, "retry": {"limit": 2}}
SWITCH = {"name": "a", "switch": [{"when": "true", "template": "train"}, {"template": "other"}]}
LAST = {"finally": [{"name": "train"}]}


def decided(case: int, phase: str = "Waiting") -> JobFlow:
    condition = StepCondition(phase=phase, decisions=Decisions(case=case))
    status = JobFlowStatus(state=FlowState(phase="Running"), conditions={"f-a": condition})
    return msgspec.structs.replace(flow_of(SWITCH), status=status)


@pytest.mark.parametrize(
    ("flow", "step"),
    [
        (flow_of("other"), None),
        (in_phase(TWICE, "Succeed"), None),
        (in_phase(TWICE, "Failed", b="Waiting"), None),
        (in_phase(TWICE, "Running", b="Completed", train="Skipped"), None),
        (in_phase(TWICE, "Running", b="Terminated", train="Failed"), None),
        (with_metadata(TWICE, **BEING_DELETED), None),
        (flow_of(SWITCH), "a"),
        (in_phase(flow_of(SWITCH), "Running", a="Waiting"), "a"),
        (decided(0), "a"),
        (decided(0, "Running"), "a"),
        (decided(1), None),
        (decided(0, "Completed"), None),
        (decided(7), "a"),
        (in_phase(flow_of(LOOP), "Running", a="Running"), "a"),
        (in_phase(flow_of(LOOP), "Running", a="Waiting"), "a"),
        (in_phase(flow_of(LOOP), "Running", a="Failed"), None),
        (in_phase(flow_of("b", **LAST), "Running", b="Running"), "train"),
        (in_phase(flow_of("b", **LAST), "Running", b="Completed", train="Running"), "train"),
        (in_phase(flow_of("b", **LAST), "Running", b="Failed", train="Completed"), None),
        (in_phase(flow_of("b", **LAST), "Failed"), None),
    ],
)
def test_the_first_step_that_needs_a_template_is_found(flow, step):
    need = need_of(flow, "train")
    assert (need and need.step) == step


@pytest.mark.parametrize(
    "template", [with_metadata(TRAIN, **FORCED), with_metadata(TRAIN, **BEING_DELETED)]
)
def test_a_needed_template_may_be_deleted_by_force(template):
    assert deleting(template, TWICE) == Verdict()


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": True}, ["x.a"]),
        ({"a": None}, {}, ["x.a"]),
        ({"a": {}}, {"a": {"b": None}}, ["x.a.b"]),
        ({"a": {"x.io/b": [1]}}, {"a": {"x.io/b": [1, 2]}}, ["x.a[x.io/b]"]),
        ({"a": [1, {"b": 1}, 3], "c": []}, {"a": [0, {"b": 2}, 3], "c": {}},
         ["x.a[0]", "x.a[1].b", "x.c"]),
    ],
)  # fmt: skip
def test_differences_of_values_have_paths(old, new, places):
    assert list(find_differences("x", old, new)) == places
    assert is_same_json(old, new) is (not places)


def test_specs_of_any_readable_depth_are_compared():
    def nested(leaf: str, depth: int) -> JobFlow:
        deep = '{"a":' * depth + leaf + "}" * depth
        text = f'{{"spec":{{"flows":[{{"name":"a","patch":{{"jobSpec":{deep}}}}}]}}}}'
        return msgspec.json.decode(text, type=JobFlow)

    depth = 1_000
    while True:
        try:
            old, new = nested("1", depth), nested("2", depth)
            break
        except RecursionError:
            depth -= 1
    assert validate_flow_update(old, nested("1", depth)) == Verdict()
    (violation,) = validate_flow_update(old, new).violations
    assert violation.path == "spec.flows[0].patch.jobSpec" + ".a" * depth
