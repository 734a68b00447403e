"""SkipStep, RetrySteps and ScaleFlow: what users settle, run again and throttle by hand."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Approval, ForEach, Param, Repeat, Retry
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import FlowState, JobFlowStatus, RequestedHours, StepCondition
from jobflow.api.flow.step import Step
from jobflow.core.planning.observed.child_flow import observe
from support.plan.child_worlds import (
    INNER,
    child_of,
    commands,
    failed,
    parent,
    running,
    with_child,
)
from support.plan.loop_worlds import end_jobs, for_each, repeated, two_steps
from support.plan.plan_world import World, flow, template
from support.plan.steps import after, step

SKIPPED = ("Skipped", "SkippedByUser")


def skip(world: World, text: str, **outputs: object) -> World:
    annotations = {labels.BY: "ann"}
    if outputs:
        annotations[labels.OUTPUTS] = json.dumps(outputs)
    return world.with_command("SkipStep", name="skip", text=text, annotations=annotations)


def retry(world: World, text: str) -> World:
    return world.with_command("RetrySteps", name="retry", text=text, annotations={labels.BY: "ann"})


def runs_of(world: World, name: str = "a") -> dict[int | None, tuple[str, str]]:
    return {run.index: (run.phase, run.reason) for run in world.plan().conditions[name].runs or ()}


def end_of(world: World, name: str) -> tuple[str, str]:
    condition = world.plan().conditions[name]
    return condition.phase, condition.reason


def outputs_of(world: World, name: str) -> dict[str, Any] | None:
    return world.plan().conditions[name].outputs


# ------------------------------------------------------------------ SkipStep


def test_the_job_of_a_skipped_step_that_is_gone_has_an_end() -> None:
    world = skip(flow("a").with_jobs(a="Running").settled(), "a").settled()
    world = world.with_deleted("a").later(1).settled()
    assert end_of(world, "a") == SKIPPED
    record = world.records["f-a"]
    assert (record.state, record.end_timestamp) == ("Aborted", world.now)


def test_a_failed_step_is_skipped_and_the_ended_flow_goes_on() -> None:
    world = flow("a", b="a", c="b").run(lambda name: "Failed" if name == "b" else "Completed")
    assert world.end == ("Failed", "StepFailed")
    world = skip(world, "b a false positive", n=3).settled()
    condition = world.plan().conditions["b"]
    assert (condition.phase, condition.reason) == SKIPPED
    assert condition.message == "it was skipped by ann: a false positive"
    assert (condition.outputs, condition.attempts) == ({"n": 3}, 1)
    assert end_of(world, "c")[0] == "Pending"
    assert world.end[0] == "Running"
    assert end_of(world.run(), "c") == ("Completed", "")
    assert world.run().end == ("Succeed", "")
    assert sorted(world.jobs) == ["f-a", "f-b", "f-c"]  # nothing ran again


def test_an_item_of_an_ended_flow_is_known_if_the_count_is_a_param() -> None:
    each = step("", for_each=ForEach(count="$(params.parts)"))
    world = flow(each=each, b="each").with_spec(params=[Param(name="parts", value=1)])
    world = world.run(lambda name: "Failed" if name == "each" else "Completed")
    assert world.end == ("Failed", "StepFailed")
    for done in (skip(world, "each/0").settled(), retry(world, "each/0").settled()):
        assert done.end[0] == "Running"


def test_a_running_step_is_ended_first() -> None:
    world = skip(flow("a", b="a").with_jobs(a="Running").settled(), "a", n=1).settled()
    assert end_of(world, "a") == ("Running", "SkippedByUser")
    assert end_of(world, "b") == ("Waiting", "")
    world = end_jobs(world, "Aborted", "f-a")
    assert (end_of(world, "a"), outputs_of(world, "a")) == (SKIPPED, {"n": 1})
    assert "f-b" in world.jobs
    (entry,) = world.flow.status.by_hand or ()
    assert (entry.action, entry.outputs) == ("SkipStep", None)


@pytest.mark.parametrize("fields", [{}, {"retry": Retry(limit=3)}])
def test_a_job_that_fails_meanwhile_is_skipped_too(fields: dict[str, Any]) -> None:
    world = skip(two_steps(**fields).with_jobs(a="Running").settled(), "a").settled()
    assert end_of(end_jobs(world, "Failed", "f-a"), "a") == SKIPPED


def test_a_step_that_waits_is_skipped_at_once() -> None:
    world = skip(flow("a", b="a", c="b").with_jobs(a="Running").settled(), "b").settled()
    assert (end_of(world, "b"), "f-c" in world.jobs) == (SKIPPED, True)


def test_other_failures_stay() -> None:
    world = flow("a", "x", b="a", y="x").with_spec(failure_policy="Continue")
    world = world.run(lambda name: "Failed" if name in "ax" else "Completed")
    world = skip(world, "a").settled().run()
    assert (end_of(world, "a"), end_of(world, "b")) == (SKIPPED, ("Completed", ""))
    assert (end_of(world, "x")[0], end_of(world, "y")) == ("Failed", ("Skipped", "UpstreamFailed"))
    assert world.end == ("Failed", "StepFailed")


def test_an_item_is_skipped_and_the_step_is_judged_again() -> None:
    world = for_each(3, continue_on_failure=False).settled()
    world = end_jobs(world, "Completed", "f-a-0", "f-a-1")
    world = end_jobs(world, "Failed", "f-a-2")
    assert (end_of(world, "a")[0], end_of(world, "b")[1]) == ("Failed", "UpstreamFailed")
    world = skip(world, "a/2", n=7).settled()
    assert runs_of(world) == {0: ("Completed", ""), 1: ("Completed", ""), 2: SKIPPED}
    assert (world.plan().conditions["a"].runs or ())[2].outputs == {"n": 7}
    assert end_of(world, "a") == ("Completed", "")
    assert "f-b" in world.jobs


def test_the_skip_of_an_item_does_not_settle_a_step_of_which_none_has_begun() -> None:
    failing = step(for_each=ForEach(count=2), when="params.rates[9] > 0")
    world = flow("b", a=failing)
    rates = [Param(name="rates", value=[1])]
    world = world.with_spec(params=rates, failure_policy="Continue").settled()
    assert end_of(world, "a") == end_of(skip(world, "a/0").settled(), "a")
    assert end_of(world, "a") == ("Failed", "ExpressionError")
    assert end_of(skip(world, "a").settled(), "a") == SKIPPED


def test_all_items_are_skipped_that_have_not_completed() -> None:
    world = for_each(4, parallelism=2).settled()
    world = end_jobs(world, "Completed", "f-a-0")
    world = skip(world, "a").settled()
    world = end_jobs(world, "Aborted", "f-a-1", "f-a-2")
    assert runs_of(world) == {0: ("Completed", ""), 1: SKIPPED, 2: SKIPPED, 3: SKIPPED}
    assert end_of(world, "a") == ("Completed", "")
    whole = end_jobs(skip(for_each(2).settled(), "a").settled(), "Aborted", "f-a-0", "f-a-1")
    assert (end_of(whole, "a"), "f-b" in whole.jobs) == (SKIPPED, True)


def test_a_repeat_is_skipped_as_a_whole() -> None:
    world = skip(repeated().with_jobs(**{"a-0": "Running"}).settled(), "a", done=True).settled()
    world = end_jobs(world, "Aborted", "f-a-0")
    assert (end_of(world, "a"), outputs_of(world, "a")) == (SKIPPED, {"done": True})
    assert "f-b" in world.jobs


@pytest.mark.parametrize(
    ("text", "outputs", "why"),
    [
        ("done", {}, "step done needs no skip: it is Completed"),
        ("ok", {}, "step ok asks for approval: approve or reject it"),
        ("each", {"n": 1}, "step each has items: outputs are for one of them, such as each/0"),
        ("a,b", {"n": 1}, "only a single step that is skipped has outputs"),
        ("off/0", {}, "step off/0 needs no skip: it is Skipped (NotTaken)"),
    ],
)
def test_a_skip_that_cannot_be_is_refused(text: str, outputs: dict[str, int], why: str) -> None:
    world = flow(
        "a",
        "done",
        b="a",
        each=step("", for_each=ForEach(count=2)),
        off=step("", for_each=ForEach(count=2), when="false"),
        ok=step("", approval=Approval()),
    )
    world = world.with_jobs(a="Running", done="Completed").settled()
    assert why in skip(world, text, **outputs).plan().refused_commands[0]


def test_a_retry_of_the_flow_keeps_what_was_skipped() -> None:
    world = flow("a", b="a", c="b").run(lambda name: "Failed" if name == "a" else "Completed")
    world = skip(world, "a").settled().run(lambda name: "Failed")
    assert world.end == ("Failed", "StepFailed")
    world = world.with_command("RestartJob", name="again").settled()
    assert (end_of(world, "a"), end_of(world, "b")[0]) == (SKIPPED, "Pending")


# ------------------------------------------------------------------ RetrySteps


def test_a_completed_step_of_an_ended_flow_runs_again_with_what_was_made_of_it() -> None:
    world = flow("a", b="a", c="b", other="a").with_finally("z").run()
    assert world.end == ("Succeed", "")
    planned = retry(world, "b wrong template").plan()
    assert planned.events == ["StepRetried"]
    world = retry(world, "b wrong template").settled()
    assert world.end[0] == "Running"
    assert {name for name in "abc" if end_of(world, name)[0] == "Completed"} == {"a"}
    assert end_of(world, "other") == ("Completed", "")
    assert end_of(world, "z")[0] == "Waiting"
    world = world.run()
    assert world.end == ("Succeed", "")
    again = {name for name in world.jobs if name.endswith("-r1")}
    assert again == {"f-b-r1", "f-c-r1", "f-z-r1"}


def test_a_failed_flow_runs_a_step_before_the_failure_again() -> None:
    """prepare has completed with a wrong file, of which train has failed."""
    world = flow("download", prepare="download", train="prepare")
    world = world.run(lambda name: "Failed" if name == "train" else "Completed")
    world = retry(world, "prepare").settled().run()
    assert world.end == ("Succeed", "")
    assert sorted(name for name in world.jobs if name.endswith("-r1")) == [
        *("f-prepare-r1", "f-train-r1"),
    ]


def test_what_runs_is_ended_first_at_no_cost_of_retries() -> None:
    world = flow("a", b=step("a", retry=Retry(limit=1))).with_jobs(a="Running").settled()
    world = end_jobs(world, "Completed", "f-a")
    world = end_jobs(world, "Running", "f-b")
    world = retry(world, "a").stored()
    assert (world.plan().conditions["a"].phase, world.plan().aborts) == ("Waiting", [])
    world = world.settled()
    assert end_of(world, "b") == ("Running", "Retrying")
    assert "f-a-r1" in world.jobs
    assert world.plan().conditions["b"].message == "is being aborted: it was retried by ann"
    world = end_jobs(world, "Aborted", "f-b")
    assert end_of(world, "b") == ("Waiting", "")
    condition = world.plan().conditions["b"]
    assert (condition.failures, condition.failed_attempts) == (0, None)
    world = world.run()
    assert (world.end, "f-b-r1" in world.jobs) == (("Succeed", ""), True)


def test_an_item_runs_again_while_others_run() -> None:
    world = end_jobs(for_each(3).settled(), "Completed", "f-a-0")
    world = retry(world, "a/0").settled()
    assert "f-a-0-r1" in world.jobs
    assert sorted(name for name in world.jobs if name.endswith("-r1")) == ["f-a-0-r1"]
    world = world.run()
    assert world.end == ("Succeed", "")


def test_an_item_runs_again_although_others_have_failed() -> None:
    world = for_each(3).settled()
    world = end_jobs(world, "Failed", "f-a-0", "f-a-1", "f-a-2")
    assert world.end[0] == "Failed"
    world = retry(world, "a/1").settled()
    assert sorted(name for name in world.jobs if name.endswith("-r1")) == ["f-a-1-r1"]
    world = end_jobs(world, "Completed", "f-a-1-r1")
    assert runs_of(world)[1] == ("Completed", "")
    assert (world.end[0], end_of(world, "a")[0]) == ("Failed", "Failed")


def test_a_step_that_runs_again_as_a_whole_starts_no_item_behind_one_that_fails() -> None:
    world = end_jobs(for_each(2, parallelism=1).settled(), "Completed", "f-a-0")
    world = retry(end_jobs(world, "Failed", "f-a-1").settled(), "a").settled()
    world = end_jobs(world, "Failed", "f-a-0-r1").settled()
    assert sorted(world.jobs) == ["f-a-0", "f-a-0-r1", "f-a-1"]
    assert world.end == ("Failed", "StepFailed")


def test_an_item_that_runs_again_beside_a_failed_one_decides_again() -> None:
    world = flow("runs", a=step(for_each=ForEach(from_="[1, 2]"))).settled().settled()
    world = end_jobs(world, "Completed", "f-a-0")
    world = end_jobs(world, "Failed", "f-a-1")
    world = retry(world, "a/0").settled().settled()
    assert "f-a-0-r1" in world.jobs


def test_an_item_that_runs_again_waits_for_a_suspended_flow() -> None:
    world = end_jobs(for_each(2).settled(), "Failed", "f-a-0")
    world = world.with_command("SuspendFlow", name="suspend").settled()
    world = end_jobs(retry(world, "a/0").settled(), "Completed", "f-a-1")
    assert end_of(world, "a")[0] != "Failed"
    world = world.with_command("ResumeJob", name="resume").settled()
    assert "f-a-0-r1" in world.jobs


def test_a_running_step_with_items_behind_it_starts_over() -> None:
    steps = flow("a", b=step("a", for_each=ForEach(count=3, parallelism=2)), c="b")
    world = end_jobs(steps.settled(), "Completed", "f-a")
    world = end_jobs(world, "Completed", "f-b-0")
    world = retry(world, "a").settled()
    assert runs_of(world, "b")[1][1] == "Retrying"
    world = end_jobs(world, "Aborted", *(name for name in world.jobs if name.startswith("f-b-")))
    assert end_of(world, "b")[0] == "Waiting"
    world = world.run()
    assert world.end == ("Succeed", "")
    assert {name for name in world.jobs if name.endswith("-r1")} == {
        *("f-a-r1", "f-b-0-r1", "f-b-1-r1", "f-b-2-r1"),
    }


def test_an_approval_behind_it_asks_again() -> None:
    world = flow("a", ok=step("a", approval=Approval()), b="ok").with_jobs(a="Running").settled()
    world = end_jobs(world, "Completed", "f-a")
    world = world.with_command("ApproveStep", text="ok").settled().run()
    assert world.end == ("Succeed", "")
    world = retry(world, "a").settled()
    world = end_jobs(world, "Completed", "f-a-r1")
    assert end_of(world, "ok") == ("Waiting", "WaitingForApproval")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "a",
            "step a has not ended: it is Running; `jobflow cancel FLOW --step` or `jobflow skip` ",
        ),
        ("b", "step b has not ended: it is Waiting"),
        ("loop/0", "the runs of step loop belong together: write loop"),
    ],
)
def test_what_has_not_ended_is_no_subject_of_a_retry(text: str, why: str) -> None:
    world = repeated()
    loop = msgspec.structs.replace(world.flow.steps[0], name="loop", template="a")
    world = world.with_spec(flows=[Step(name="a"), Step(name="b", depends_on=after("a")), loop])
    world = world.with_jobs(a="Running").settled()
    assert why in retry(world, text).plan().refused_commands[0]


def test_a_retry_is_refused_while_the_flow_or_the_step_is_being_ended() -> None:
    world = flow("a", "b").with_jobs(a="Completed", b="Running").settled()
    assert "the flow ends already" in retry(world.cancelled(), "a").plan().refused_commands[0]
    ending = world.with_command("CancelStep", text="b").settled()
    why = "step b is being ended (CancelledByUser): retry it once it has ended"
    assert why in retry(ending, "b").plan().refused_commands[0]


def test_a_reused_result_runs_again_when_it_is_named() -> None:
    world = flow("a", b="a").run()
    world = world.with_condition("a", reason="Reused", job="earlier-a", uid="")
    world = retry(world, "a").settled()
    assert end_of(world, "a")[0] == "Pending"
    assert "f-a-r1" in world.jobs


def test_a_step_that_is_not_targeted_does_not_run_again() -> None:
    world = flow("a", "b").with_spec(targets=["a"]).run()
    assert "step b is not needed: spec.targets" in retry(world, "b").plan().refused_commands[0]


@pytest.mark.parametrize("order", [skip, retry])
def test_a_flow_that_has_never_begun_does_not_go_on(order: Any) -> None:
    state = FlowState(phase="Failed", reason="ReuseNotFound")
    world = flow("a").with_status(JobFlowStatus(state=state))
    assert "step a has never begun" in order(world, "a").plan().refused_commands[0]


def test_a_step_that_was_given_up_runs_again() -> None:
    world = flow("a", "b").with_jobs(a="Running", b="Running").settled()
    world = world.with_command("CancelStep", text="a").settled()
    world = retry(end_jobs(world, "Aborted", "f-a"), "a").settled()
    assert end_of(world, "a")[0] == "Pending"


# ------------------------------------------------------------------ steps of child flows


def child(world: World, phase: str, *names: str, **status: Any) -> World:
    """Return the child flow f-a, with these steps in a row, as a world of its own."""
    steps = [
        Step(name=n, depends_on=after(*names[i - 1 : i]) if i else None)
        for i, n in enumerate(names)
    ]
    made = child_of(world, "f-a", phase, **status)
    made = msgspec.structs.replace(made, spec=JobFlowSpec(flows=steps))
    templates = {name: template(name) for name in names}
    return replace(World(made, templates), parent=world.flow, now=world.now)


def test_a_step_of_a_failed_child_flow_is_skipped_and_all_flows_above_go_on() -> None:
    inner = flow("x", y="x").run(lambda name: "Failed" if name == "x" else "Completed")
    world = failed()
    world = skip(world, "a/x fine", n=1).settled()
    assert world.end[0] in ("Running", "Pending")
    (entry,) = world.flow.status.handed_down or ()
    assert (entry.flow, entry.message, entry.outputs) == ("f-a", "x fine", {"n": 1})
    assert commands(skip(failed(), "a/x fine").stored()) == [("f-a", "RestartJob")]
    meta = world.jobs["f-a"].metadata
    conditions = {
        key.replace("f-", "f-a-"): msgspec.structs.replace(each, job=each.job.replace("f-", "f-a-"))
        for key, each in (inner.flow.status.conditions or {}).items()
    }
    status = msgspec.structs.replace(inner.flow.status, conditions=conditions, job_status_list=None)
    below = World(JobFlow(metadata=meta, spec=inner.flow.spec, status=status), inner.templates)
    below = replace(below, parent=world.flow, now=world.now)
    assert below.plan().nothing  # its parent has not found room for it
    below = below.with_command("RestartJob", name="again").settled()
    assert (end_of(below, "x"), below.flow.status.taken_over) == (SKIPPED, 1)
    assert end_of(below, "y")[0] == "Pending"
    assert below.flow.status.retries == world.flow.status.retries
    world = world.with_job(observe(below.flow)).settled()
    assert world.flow.status.handed_down is None
    assert end_of(world, "a")[0] in ("Pending", "Running")


def test_a_step_of_a_running_child_flow_is_retried_there_alone() -> None:
    world = retry(running(parent()), "a/x").settled()
    assert end_of(world, "a")[0] == "Running"
    (entry,) = world.flow.status.handed_down or ()
    assert (entry.action, entry.message) == ("RetrySteps", "x ")


def test_a_step_of_a_child_flow_that_is_being_deleted_is_refused() -> None:
    planned = skip(replace(failed(), deleted=frozenset({"f-a"})), "a/x").plan()
    assert "the flow of step a is gone" in planned.plan.events[0].message
    assert not planned.status.handed_down


@pytest.mark.parametrize(
    "loop", [{}, {"for_each": ForEach(count=2)}, {"repeat": Repeat(until="true", max=2)}]
)
def test_child_flows_that_are_ended_first_are_made_anew(loop: dict[str, Any]) -> None:
    world = flow("a", b=step("a", template=None, flow=INNER, **loop)).settled()
    world = end_jobs(world, "Completed", "f-a")
    names = [name for name in world.jobs if name.startswith("f-b")]
    for name in names:
        world = with_child(world, name, "Running").settled()
    world = retry(world, "a").settled()
    took = {"f-b-x": StepCondition(phase="Completed", requested_hours=RequestedHours(cpu="1.5"))}
    for name in names:
        world = with_child(world, name, "Failed", "Cancelled", conditions=took).settled()
    hours = world.plan().conditions["b"].requested_hours
    assert (end_of(world, "b"), hours) == (
        ("Waiting", ""),
        RequestedHours(cpu="3" if len(names) == 2 else "1.5"),
    )
    world = end_jobs(world, "Completed", "f-a-r1")
    assert {*names, *(f"{name}-r1" for name in names)} <= set(world.jobs)


def test_a_child_flow_that_stays_keeps_its_end_when_another_item_runs_again() -> None:
    world = flow("runs", a=Step(flow=INNER, for_each=ForEach(count=2), timeout="5s")).settled()
    world = with_child(with_child(world, "f-a-0", "Running"), "f-a-1", "Succeed").settled()
    world = with_child(world.later(9).settled(), "f-a-0", "Failed", "Cancelled").settled()
    world = retry(world, "a/1").settled()
    assert "f-a-1-r1" in world.jobs
    assert runs_of(world)[0] == ("Failed", "Timeout")


# ------------------------------------------------------------------ ScaleFlow


def scale(world: World, text: str) -> World:
    return world.with_command("ScaleFlow", name="scale", text=text, annotations={labels.BY: "ann"})


def test_a_step_with_items_is_scaled_while_it_runs() -> None:
    world = for_each(5, parallelism=2).settled()
    assert len(world.jobs) == 2
    world = scale(world, "a=4 at night").settled()
    assert len(world.jobs) == 4
    assert world.flow.spec.flows == for_each(5, parallelism=2).flow.spec.flows
    (entry,) = world.flow.status.by_hand or ()
    assert (entry.step, entry.parallelism, entry.by) == ("a", 4, "ann")
    world = end_jobs(scale(world, "a=1").settled(), "Completed", "f-a-0")
    assert len(world.jobs) == 4  # what runs goes on, and nothing starts
    assert world.run().end == ("Succeed", "")


def test_a_flow_is_scaled_and_stays_so_after_a_retry() -> None:
    world = flow("a", "b", "c").with_spec(parallelism=1).settled()
    assert sorted(world.jobs) == ["f-a"]
    world = scale(world, "2").settled()
    assert sorted(world.jobs) == ["f-a", "f-b"]
    world = world.run(lambda name: "Failed")
    world = world.with_command("RestartJob", name="again").settled()
    assert [each.parallelism for each in world.flow.status.by_hand or ()] == [2]


def test_a_scaled_step_can_be_given_up_too() -> None:
    world = scale(for_each(3, parallelism=1).settled(), "a=2").settled()
    world = world.with_command("CancelStep", text="a").settled()
    assert {each.action for each in world.flow.status.by_hand or ()} == {"ScaleFlow", "CancelStep"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its message has no number"),
        ("0", "its message has no number"),
        ("a=x", "its message has no number"),
        ("b=2", "step b has no forEach, so it has no parallelism"),
        ("a/1=2", "a/1 is one item, and runs no flow, so it has no parallelism: write a"),
        ("x=2", 'the flow has no step "x"'),
    ],
)
def test_what_cannot_be_scaled_is_refused(text: str, why: str) -> None:
    assert why in scale(for_each(3).settled(), text).plan().refused_commands[0]


def test_a_flow_is_not_scaled_down_to_its_daemons() -> None:
    world = flow(d=step("", daemon=True), b="d").settled()
    why = "the flow has daemons (d), which need room beside them: set more than that"
    assert scale(world, "1").plan().refused_commands == [why]
    assert scale(world, "2").plan().refused_commands == []


def test_the_flow_of_a_step_is_scaled_there() -> None:
    world = scale(running(parent()), "a=3 now").settled()
    (entry,) = world.flow.status.handed_down or ()
    assert (entry.flow, entry.message) == ("f-a", ".=3 now")
    below = child(world, "Running", "x").settled()
    assert [(e.step, e.parallelism) for e in below.flow.status.by_hand or ()] == [("", 3)]


# ------------------------------------------------------------------ only because of it


def test_a_skip_or_retry_in_finally_leaves_what_runs_beside_it() -> None:
    world = flow("a").with_finally("y", "z").settled()
    world = end_jobs(end_jobs(world, "Completed", "f-a"), "Failed", "f-y")
    for again in (skip(world, "y"), retry(world, "y")):
        settled = again.settled()
        assert end_of(settled, "z") == ("Pending", "")
        assert settled.plan().aborts == []


def test_a_skip_runs_nothing_again_that_was_not_made_of_it() -> None:
    world = flow("x", "a", b="a", h=step("b", condition="Finished"))
    world = world.with_spec(failure_policy="Continue").settled()
    world = end_jobs(end_jobs(world, "Failed", "f-a"), "Completed", "f-h")
    world = end_jobs(skip(world, "x").settled(), "Aborted", "f-x")
    assert (end_of(world, "x"), end_of(world, "h")) == (SKIPPED, ("Completed", ""))
    assert world.end == ("Failed", "StepFailed")


def test_what_runs_of_what_was_made_of_a_skipped_step_runs_again() -> None:
    world = flow("x", "a", b="a", h=step("b", condition="Finished"))
    world = world.with_spec(failure_policy="Continue").settled()
    world = skip(end_jobs(world, "Failed", "f-a"), "a").settled()
    assert end_of(world, "h") == ("Pending", "Retrying")
    world = end_jobs(end_jobs(world, "Aborted", "f-h"), "Completed", "f-b")
    assert "f-h-r1" in world.jobs


def test_a_repeat_that_has_failed_is_skipped() -> None:
    world = repeated().with_spec(failure_policy="Continue").settled()
    while not end_of(world, "a")[0] == "Failed":
        names = [name for name, job in world.jobs.items() if not job.ended]
        world = end_jobs(world, "Completed", *names)
    assert end_of(skip(world, "a", done=True).settled(), "a") == SKIPPED


def test_an_item_that_spec_targets_leaves_out_is_refused() -> None:
    world = flow("a", b=step("", for_each=ForEach(count=2))).with_spec(targets=["a"]).settled()
    assert "step b/0 is not needed" in skip(world, "b/0").plan().refused_commands[0]
