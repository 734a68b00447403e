"""Commands on single steps and items by hand."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Approval, ForEach, Retry
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.core.planning.observed.child_flow import observe
from support.plan.child_worlds import child_of, parent, running, with_child
from support.plan.loop_worlds import end_jobs, for_each, repeated, two_steps
from support.plan.plan_world import World, flow, template
from support.plan.steps import step


def cancel(world: World, text: str, by: str = "ann") -> World:
    return world.with_command("CancelStep", text=text, annotations={labels.BY: by})


def runs_of(world: World) -> dict[int | None, tuple[str, str]]:
    return {run.index: (run.phase, run.reason) for run in world.plan().conditions["a"].runs or ()}


def end_of(world: World, name: str) -> tuple[str, str]:
    condition = world.plan().conditions[name]
    return condition.phase, condition.reason


GIVEN_UP = ("Failed", "CancelledByUser")
FAILED = ("Failed", "JobFailed")


# ------------------------------------------------------------------ CancelStep


def test_a_job_of_a_cancelled_step_is_aborted_once_the_reason_is_stored() -> None:
    world = cancel(flow("a", b="a").with_jobs(a="Running").settled(), "a it hangs")
    planned = world.plan()
    assert (planned.aborts, planned.events, planned.plan.urgent) == ([], ["StepCancelled"], True)
    world = world.stored()
    planned = world.plan()
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Running", "CancelledByUser")
    assert condition.message == "is being aborted: it was cancelled by ann: it hangs"
    assert planned.aborts == []
    assert world.stored().plan().aborts == ["f-a"]


def test_a_cancelled_step_fails_without_another_attempt_and_the_rest_goes_by_its_own_rules() -> (
    None
):
    world = two_steps(retry=Retry(limit=3)).with_jobs(a="Running").settled()
    world = end_jobs(cancel(world, "a").settled(), "Aborted", "f-a")
    assert end_of(world, "a") == GIVEN_UP
    assert end_of(world, "b") == ("Skipped", "UpstreamFailed")
    assert world.end == ("Failed", "StepFailed")
    handled = two_steps(condition="Failed").with_jobs(a="Running").settled()
    handled = end_jobs(cancel(handled, "a").settled(), "Aborted", "f-a")
    assert handled.plan().phases["b"] == "Pending"


def test_a_step_that_waits_or_is_between_two_attempts_fails_at_once() -> None:
    world = cancel(flow("a", b="a").with_jobs(a="Running").settled(), "b").settled()
    assert (end_of(world, "a")[0], end_of(world, "b")) == ("Running", GIVEN_UP)
    world = two_steps(retry=Retry(limit=3)).with_jobs(a="Running").settled()
    world = world.later(1).ended("f-a", "Failed").settled()
    assert end_of(world, "a") == ("Waiting", "Retrying")
    assert end_of(cancel(world, "a").settled(), "a") == GIVEN_UP


def test_a_job_that_completes_meanwhile_completes_its_step() -> None:
    world = cancel(flow("a", b="a").with_jobs(a="Running").settled(), "a").settled()
    assert end_of(world.ended("f-a", "Completed").settled(), "a") == ("Completed", "")


@pytest.mark.parametrize(
    ("phase", "action", "refused", "end"),
    [
        (
            "Completed",
            "CancelStep",
            ["step a has ended already: it is Completed"],
            ("Completed", ""),
        ),
        ("Completed", "SkipStep", ["step a needs no skip: it is Completed"], ("Completed", "")),
        ("Failed", "CancelStep", ["step a has ended already: it is Failed"], FAILED),
        ("Failed", "SkipStep", [], ("Skipped", "SkippedByUser")),
        ("Failed", "RetrySteps", [], ("Pending", "")),
    ],
)
def test_a_command_on_a_step_that_ended_a_moment_ago_is_about_that_end(
    phase: str, action: str, refused: list[str], end: tuple[str, str]
) -> None:
    """The status does not have the end yet."""
    world = flow("a", "x", b="a").with_jobs(a="Running", x="Running").settled()
    world = world.later(1).ended("f-a", phase).with_command(action, text="a")
    assert world.plan().refused_commands == refused
    assert end_of(world.settled(), "a") == end


def test_one_item_is_given_up_and_the_others_go_on() -> None:
    world = for_each(3, parallelism=1, continue_on_failure=True).settled()
    world = end_jobs(cancel(world, "a/0,a/2").settled(), "Aborted", "f-a-0")
    assert runs_of(world) == {0: GIVEN_UP, 1: ("Pending", ""), 2: GIVEN_UP}
    world = end_jobs(world, "Completed", "f-a-1")
    assert end_of(world, "a") == GIVEN_UP
    assert "f-b" in world.jobs


def test_a_whole_step_with_items_starts_no_more_of_them() -> None:
    world = for_each(4, parallelism=2, continue_on_failure=True).settled()
    world = end_jobs(cancel(world, "a").settled(), "Aborted", "f-a-0", "f-a-1")
    assert runs_of(world) == {0: GIVEN_UP, 1: GIVEN_UP}
    assert end_of(world, "a") == GIVEN_UP


def test_a_repeat_is_given_up_as_a_whole() -> None:
    world = repeated().with_jobs(**{"a-0": "Running"}).settled()
    assert cancel(world, "a/0").plan().refused_commands == [
        "the runs of step a belong together: write a"
    ]
    world = end_jobs(cancel(world, "a").settled(), "Aborted", "f-a-0")
    assert end_of(world, "a") == GIVEN_UP


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its message names no step"),
        ("x", 'the flow has no step "x"'),
        ("b,x", 'the flow has no step "x"'),
        ("a/0", 'step a has no items, so there is no "a/0": write a'),
        ("done", "step done has ended already: it is Completed"),
        ("each/9", "there is no each/9: step each has 2 items, from 0"),
        ("each/x", 'step each has no item "x"'),
        ("later/0", "there is no later/0: step later has no items yet"),
        ("ok", "step ok asks for approval: approve or reject it"),
    ],
)
def test_nothing_is_done_if_anything_that_a_command_names_cannot_be(text: str, why: str) -> None:
    world = flow(
        "a",
        "done",
        b="a",
        each=step("", for_each=ForEach(count=2)),
        later=step("a", for_each=ForEach(from_='steps["a"].outputs.n')),
        ok=step("", approval=Approval()),
    )
    world = world.with_jobs(a="Running", done="Completed").settled()
    planned = cancel(world, text).plan()
    assert why in planned.refused_commands[0]
    assert planned.status.by_hand is None


def test_who_and_when_stay_in_the_status() -> None:
    world = cancel(flow("a").with_jobs(a="Running").settled(), "a it hangs").settled()
    (entry,) = world.flow.status.by_hand or ()
    assert (entry.step, entry.action, entry.by) == ("a", "CancelStep", "ann")
    assert (entry.comment, entry.time) == ("it hangs", world.now)


def test_a_step_of_a_flow_that_ends_or_has_ended_is_refused() -> None:
    world = flow("a").with_jobs(a="Running").settled().cancelled()
    assert "the flow ends already" in cancel(world, "a").plan().refused_commands[0]
    world = flow("a").run()
    assert "the flow has ended (Succeed)" in cancel(world, "a").plan().refused_commands[0]


def test_a_retry_of_the_flow_runs_it_again() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled()
    world = end_jobs(cancel(world, "a").settled(), "Aborted", "f-a")
    world = world.with_command("RestartJob", name="r").settled()
    assert world.flow.status.by_hand is None
    assert end_of(world, "a")[0] == "Pending"


# ------------------------------------------------------------------ steps of child flows


def inside(world: World, **status: Any) -> World:
    """Return the child flow f-a as a world of its own, below `world`."""
    child = child_of(world, "f-a", "Running", **status)
    child = msgspec.structs.replace(child, spec=JobFlowSpec(flows=[Step(name="x")]))
    return replace(World(child, {"x": template("x")}), parent=world.flow, now=world.now)


def test_a_command_on_a_step_of_a_child_flow_is_handed_down_until_that_has_it() -> None:
    world = cancel(running(parent()), "a/x it hangs").settled()
    assert end_of(world, "a")[0] == "Running"
    (entry,) = world.flow.status.handed_down or ()
    assert (entry.number, entry.flow, entry.message, entry.by) == (1, "f-a", "x it hangs", "ann")
    child = inside(world).settled()
    assert end_of(child, "x") == GIVEN_UP
    assert child.flow.status.taken_over == 1
    (order,) = child.flow.status.by_hand or ()
    assert (order.step, order.by, order.comment) == ("x", "ann", "it hangs")
    world = world.with_job(observe(child.flow)).settled()
    assert (world.flow.status.handed_down, world.flow.status.handed_down_count) == (None, 1)


def test_a_child_flow_takes_over_what_cannot_be_as_a_refusal() -> None:
    world = cancel(running(parent()), "a/nothing").settled()
    planned = inside(world).plan()
    assert planned.events == ["CommandRefused"]
    assert (planned.status.taken_over, planned.status.by_hand) == (1, None)


def test_only_the_outermost_flow_takes_commands_on_steps() -> None:
    child = inside(running(parent()))
    assert "it is a child flow" in cancel(child, "x").plan().refused_commands[0]


def test_a_child_flow_that_has_begun_a_moment_ago_is_not_known_yet() -> None:
    world = with_child(parent(for_each=ForEach(count=2)).apply(write=False), "f-a-0", "Running")
    planned = cancel(world, "a/0/x").plan()
    assert planned.refused_commands == ["the flow of step a/0 is gone, or not known yet"]
