"""Law: plans of parts of a flow do the same as plans of the whole flow."""

from unittest.mock import patch

import pytest
from hypothesis import given

from jobflow.sandbox.virtual_time import flow as virtual_flow
from jobflow.sandbox.virtual_time import window
from support.laws.effort_of_laws import tries
from support.laws.random_manifests import plain_manifests
from support.sandbox.running_controller import flow, template
from support.sandbox.simulated_flows import Manifests, planned


@pytest.mark.law
@given(plain_manifests())
@tries(60)
def test_parts_end_like_the_whole(manifests: Manifests) -> None:
    in_parts = planned(manifests)
    with patch.object(virtual_flow, "can_be_planned_in_parts", lambda flow: False):
        whole = planned(manifests)
    assert in_parts.flows == whole.flows
    assert [(each.step, each.job.start, each.job.end) for each in in_parts.jobs] == [
        (each.step, each.job.start, each.job.end) for each in whole.jobs
    ]


@pytest.mark.parametrize(
    ("when", "plans"),
    [(None, 101), ('flow.name == "f"', 199), ('steps["s{}"].phase == "Completed"', 199)],
)
def test_a_completion_plans_only_the_steps_that_it_can_change(when: str | None, plans: int) -> None:
    names = [f"s{number}" for number in range(100)]
    made = flow("f", {name: " ".join(names[max(0, i - 2) : i]) for i, name in enumerate(names)})
    for step in made["spec"]["flows"]:
        step["template"] = "t"
    for number, step in enumerate(made["spec"]["flows"][1:] if when else ()):
        step["when"] = when.format(number)
    with (
        patch.object(window, "plan", side_effect=window.plan) as of_parts,
        patch.object(virtual_flow, "plan", side_effect=virtual_flow.plan) as of_all,
    ):
        [ended] = planned([template("t"), made]).flows
    assert ended.final
    sizes = [len(call.args[0].steps) for call in of_parts.call_args_list]
    assert (len(sizes), max(sizes)) == (plans, 4)  # with the step that never starts
    assert of_all.call_count == 4  # at the start and at the end
