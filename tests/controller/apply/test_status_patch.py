"""The merge patch between two statuses."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus, JobRecord, StepCondition
from jobflow.api.resources import ObjectMeta
from jobflow.controller.apply.requests import difference, status_patch


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_patch_turns_objects_into_others(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, difference(before, after)) == after


@given(OBJECTS)
def test_the_patch_between_equal_objects_is_empty(same: dict[str, Any]) -> None:
    assert difference(same, same) == {}


STEPS = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(StepCondition, phase=st.sampled_from(("", "Waiting")), attempts=st.integers(0, 1)),
)
RECORDS = st.lists(st.builds(JobRecord, name=st.sampled_from("abc")), max_size=2)
STATUSES = st.builds(
    JobFlowStatus,
    state=st.builds(FlowState, phase=st.sampled_from(("", "Running"))),
    conditions=st.none() | STEPS,
    job_status_list=st.none() | RECORDS,
)


@given(STATUSES, STATUSES)
def test_a_patch_turns_one_status_into_another(before: JobFlowStatus, after: JobFlowStatus) -> None:
    patch = msgspec.json.decode(status_patch(JobFlow(status=before), after))["status"]
    assert merge(msgspec.to_builtins(before), patch) == msgspec.to_builtins(after)


def test_the_patch_is_for_one_version_of_one_flow() -> None:
    before = JobFlowStatus(
        state=FlowState(phase="Running"),
        conditions={"f-a": StepCondition(phase="Waiting", reason="x"), "f-b": StepCondition()},
    )
    after = JobFlowStatus(
        state=FlowState(phase="Running"), conditions={"f-a": StepCondition(phase="Waiting")}
    )
    flow = JobFlow(metadata=ObjectMeta(name="f", uid="u", resource_version="7"), status=before)
    assert msgspec.json.decode(status_patch(flow, after)) == {
        "metadata": {"resourceVersion": "7", "uid": "u"},
        "status": {"conditions": {"f-a": {"reason": None}, "f-b": None}},
    }
