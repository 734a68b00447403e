"""The budget of the creates of one plan: the rest follows in the next plans, in order."""

from dataclasses import replace

import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.step import Step
from jobflow.core.planning import decision
from jobflow.core.planning.observed.view import Refusal
from support.plan.plan_world import flow, world_of
from support.plan.steps import mounting, template

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(params=["MAX_CREATE_WORK", "MAX_CREATE_BYTES"])
def small_budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for two or three vcjobs."""
    most = {"MAX_CREATE_WORK": 150, "MAX_CREATE_BYTES": 15_000}
    monkeypatch.setattr(decision, request.param, most[request.param])


@pytest.mark.usefixtures("small_budget")
def test_the_creates_of_a_flow_are_made_by_several_plans_in_order() -> None:
    items = Step(name="a", for_each=ForEach(count=5))
    world = world_of([items, Step(name="b"), Step(name="c")])
    made: list[str] = []
    plans = 0
    while creates := (planned := world.plan()).creates:
        assert len(creates) < 7
        made += creates
        plans += 1
        if len(made) < 7:
            assert planned.plan.requeue_after is not None
        world = world.apply(planned)
    assert made == [*(f"f-a-{i}" for i in range(5)), "f-b", "f-c"]
    assert plans > 2


def test_a_plan_makes_one_create_that_is_larger_than_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision, "MAX_CREATE_WORK", 1)
    assert flow("a", "b").plan().creates == ["f-a"]


def test_steps_that_wait_for_a_claim_leave_others_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision, "MAX_CREATE_WORK", 300)
    waiting = [f"w{i}" for i in range(20)]
    world = flow(*waiting, "b").with_spec(volume_claims={"data": CLAIM})
    mounts = {name: template(name, mounting("data")) for name in waiting}
    world = replace(world, templates={**world.templates, **mounts})
    world = world.with_claim("f-data", Refusal(403, "no", None))
    made: list[str] = []
    for _ in range(30):
        planned = world.plan()
        made += planned.creates
        world = world.apply(planned).later(1)
    assert made == ["f-b"]
