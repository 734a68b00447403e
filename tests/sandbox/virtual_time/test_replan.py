"""Law: plans of what changes concern do the same as plans of the whole flow."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.planning.virtual_time import flow as virtual_flow
from jobflow.core.planning.virtual_time import replan
from support.laws.effort_of_laws import tries
from support.laws.random_manifests import plain_manifests, random_manifests
from support.sandbox.running_controller import flow, template
from support.sandbox.simulated_flows import Manifests, planned


@pytest.mark.law
@given(st.one_of(plain_manifests(), random_manifests()))
@tries(60)
def test_plans_of_changes_end_like_those_of_the_whole(manifests: Manifests) -> None:
    of_changes = planned(manifests)
    with patch.object(virtual_flow, "can_replan", lambda flow: False):
        whole = planned(manifests)
    assert of_changes.flows == whole.flows
    assert [(each.step, each.start, each.end) for each in of_changes.jobs] == [
        (each.step, each.start, each.end) for each in whole.jobs
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"timeout": "1h"},
        {"when": 'flow.name == "f"'},
        {"forEach": {"count": 2}},
    ],
    ids=lambda fields: next(iter(fields), "none"),
)
def test_a_change_observes_only_the_steps_that_it_concerns(fields: dict[str, Any]) -> None:
    names = [f"s{number}" for number in range(30)]
    made = flow("f", {name: " ".join(names[max(0, i - 2) : i]) for i, name in enumerate(names)})
    for step in made["spec"]["flows"]:
        step.update(fields, template="t")
    with (
        patch.object(replan, "gather", side_effect=replan.gather) as observed,
        patch.object(virtual_flow, "plan", side_effect=virtual_flow.plan) as whole,
    ):
        [ended] = planned([template("t"), made]).flows
    assert ended.status.state.phase == "Succeed"
    sizes = [len(call.args[-1]) for call in observed.call_args_list]
    assert sum(size > 4 for size in sizes) <= 1  # the first looks at all
    assert whole.call_count <= 5  # at the start and at the end
