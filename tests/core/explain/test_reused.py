"""What a flow that reuses another says of the results that it has taken."""

import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.core.drawing.flow_graph import flow_graph
from jobflow.core.explain.explain import explain, explain_step
from jobflow.core.timelines.timeline import timeline
from support.plan.plan_world import World, world_of
from support.plan.reusing_worlds import reusing
from support.plan.steps import after


@pytest.fixture
def world() -> World:
    """The second flow has one item more, and so its last step runs."""
    load = Step(name="load")
    sweep = Step(name="sweep", for_each=ForEach(items=["x", "y"]), depends_on=after("load"))
    total = Step(name="total", depends_on=after("sweep"))
    first = world_of([load, sweep, total]).run()
    more = Step(name="sweep", for_each=ForEach(items=["x", "y", "z"]), depends_on=after("load"))
    return reusing(first, flows=[load, more, total])


@pytest.fixture
def flow(world: World) -> JobFlow:
    return world.run().flow


def test_one_event_names_all_that_was_reused(world: World) -> None:
    planned = world.plan()
    [reused] = [event for event in planned.plan.events if event.reason == "StepReused"]
    assert reused.message == "steps load and sweep (2 items): unchanged since f"
    assert {event.reason for event in planned.plan.events} == {"StepReused"}


def test_why_names_the_job_that_made_a_result(flow: JobFlow, world: World) -> None:
    now = world.now
    [first, second, *_] = explain(flow, now=now).sentences
    assert second == "Step load did not run: it is unchanged since f."
    [sentence] = explain_step(flow, "load", now=now).sentences
    assert sentence.startswith("Step load did not run: it has the result of the job f-load, which")
    assert sentence.endswith("because it is unchanged since f.")
    assert "It has 3 items, 2 reused." in explain_step(flow, "sweep", now=now).sentences


def test_the_graph_and_the_timeline_mark_it(flow: JobFlow, world: World) -> None:
    details = {node.step: node.detail for node in flow_graph(flow).nodes}
    assert details == {"load": "reused", "sweep": "3 items", "total": ""}
    found = timeline(flow, now=world.now)
    assert [(row.reason, bool(row.spans)) for row in found.steps][:1] == [("Reused", False)]
