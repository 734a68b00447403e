"""`failurePolicy` and `continueOnFailure`: what a failure skips, stops and aborts."""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Approval, Backoff, ForEach, Patch, Retry
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.flow.step import Condition
from jobflow.core.planning.status.status import name_failed
from support.plan.loop_worlds import end_jobs, for_each
from support.plan.plan_world import World, flow
from support.plan.steps import after, step


def two_branches(policy: str | None) -> World:
    """a -> b and x -> y; a runs, x runs."""
    world = flow("a", "x", b="a", y="x").with_spec(failure_policy=policy)
    return world.with_jobs(a="Running", x="Running").settled()


@pytest.mark.parametrize("policy", [None, "Stop", "stop"])
def test_stop_lets_running_steps_complete(policy: str | None) -> None:
    world = two_branches(policy).ended("f-a", "Failed").settled()
    planned = world.plan()
    assert planned.phases == {"a": "Failed", "x": "Running", "b": "Skipped", "y": "Waiting"}
    assert (planned.aborts, planned.phase, planned.reason) == ([], "Running", "StepFailed")
    planned = world.ended("f-x", "Completed").plan()
    assert planned.skipped == {"b": "UpstreamFailed", "y": "Stopped"}
    assert planned.phase == "Failed"


def test_continue_runs_independent_branches() -> None:
    world = two_branches("Continue").ended("f-a", "Failed").settled()
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    world = world.ended("f-x", "Completed").settled()
    assert world.plan().phases["y"] == "Pending"
    planned = world.ended("f-y", "Completed").plan()
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")


def test_continue_starts_entry_steps_that_have_not_started() -> None:
    world = flow("a", "x").with_spec(failure_policy="Continue").without_template("x")
    world = world.with_jobs(a="Failed").settled()
    assert world.plan().held_up == {"x": "WaitingForTemplate"}
    assert world.with_template("x").plan().creates == ["f-x"]


def test_an_expression_error_stops_no_other_step_under_continue() -> None:
    world = flow("p", a="p", b=step("p", when="1 / 0 == 1"))
    world = world.with_spec(failure_policy="Continue").with_jobs(p="Completed")
    assert world.plan().failed == {"b": "ExpressionError"}
    assert world.plan().creates == ["f-a"]


def test_abort_aborts_running_steps() -> None:
    world = two_branches("Abort").ended("f-a", "Failed")
    planned = world.plan()
    assert (planned.aborts, planned.plan.urgent) == ([], True)
    assert planned.conditions["x"].reason == "FailurePolicy"
    assert planned.conditions["x"].message == "is being aborted: a failed"
    world = world.stored()
    assert (world.plan().aborts, world.plan().reason) == (["f-x"], "StepFailed")
    planned = world.settled().ended("f-x", "Aborted").plan()
    assert planned.failed == {"a": "JobFailed", "x": "FailurePolicy"}
    assert planned.conditions["x"].message == "a failed; the job f-x ended Aborted"
    assert planned.skipped == dict.fromkeys("by", "UpstreamFailed")
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")


@pytest.mark.parametrize("condition", ["Finished", "Always"])
def test_handlers_and_their_dependants_start_and_are_not_aborted(condition: str) -> None:
    world = flow(
        "a",
        "x",
        mend=after("a", condition="Failed"),
        report="mend",
        tidy=after("x", condition=condition),
    ).with_spec(failure_policy="Abort")
    world = world.with_jobs(a="Running", x="Running").settled().ended("f-a", "Failed").settled()
    assert world.plan().phases["mend"] == "Pending"
    world = world.with_jobs(mend="Running").ended("f-x", "Aborted").settled()
    assert world.plan().phases["tidy"] == "Pending"
    world = world.with_jobs(mend="Completed", tidy="Running").settled()
    assert world.plan().phases["report"] == "Pending"
    world = world.with_jobs(report="Running").settled()
    reasons = {condition.reason for condition in world.plan().conditions.values()}
    assert reasons == {"", "JobFailed", "FailurePolicy"}
    assert world.plan().aborts == []


def test_a_step_with_an_ordinary_target_and_a_handler_is_aborted() -> None:
    world = flow(
        "a", "x", "h", late=after("h", condition="Failed"), y=after("x late", strategy="any")
    ).with_spec(failure_policy="Abort")
    world = world.with_jobs(a="Running", x="Completed", h="Running", y="Running").settled()
    planned = world.ended("f-a", "Failed").plan()
    assert planned.conditions["y"].reason == "FailurePolicy"


def test_a_step_that_fails_before_it_starts_aborts_the_others_too() -> None:
    world = flow("x", "a", b=step("a", when="1 / 0 == 1")).with_spec(failure_policy="Abort")
    world = world.with_jobs(x="Running", a="Running").settled().ended("f-a", "Completed")
    assert world.plan().conditions["x"].reason == "FailurePolicy"
    assert world.plan().conditions["x"].message == "is being aborted: b failed"


def test_abort_starts_nothing_beside_a_failure_that_is_being_stored() -> None:
    """No item and no attempt, which the next plan would abort."""
    world = flow(
        ok=step(approval=Approval(timeout="5s")),
        items=step(for_each=ForEach(count=2, parallelism=1)),
        again=step(retry=Retry(limit=1, backoff=Backoff(duration="5s"))),
    ).with_spec(failure_policy="Abort")
    world = world.settled().ended("f-again", "Failed").settled().ended("f-items-0", "Completed")
    planned = world.later(5).plan()
    assert (planned.phases["ok"], planned.creates) == ("Failed", [])


@pytest.mark.parametrize("policy", ["Stop", "Abort", "Continue"])
def test_a_failure_that_is_being_read_holds_back_items_only_with_abort(policy: str) -> None:
    world = flow(a=step(), items=step(for_each=ForEach(count=2, parallelism=1)))
    world = world.with_spec(failure_policy=policy).settled()
    world = replace(world, failed_pods_read=False).ended("f-a", "Failed")
    planned = world.ended("f-items-0", "Completed").plan()
    assert planned.creates == ([] if policy == "Abort" else ["f-items-1"])


@pytest.mark.parametrize("condition", [None, *Condition])
@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_a_step_after_a_failure_that_may_continue_starts(condition: str | None, end: str) -> None:
    world = flow(a=step(continue_on_failure=True), b=after("a", condition=condition))
    world = world.with_jobs(a=end)
    assert world.plan().creates == ["f-b"]
    finished = world.run()
    assert finished.flow.status.state.phase == "Succeed"
    assert finished.flow.status.state.reason == ""
    assert finished.plan().phases["a"] == "Failed"


def test_continue_on_failure_concerns_only_its_own_step() -> None:
    world = flow(a=step(continue_on_failure=True), b="a", x=step(), y="x").with_jobs(
        a="Failed", x="Failed"
    )
    planned = world.plan()
    assert planned.failed == {"a": "JobFailed", "x": "JobFailed"}
    assert planned.skipped == {"b": "Stopped", "y": "UpstreamFailed"}
    assert planned.message.startswith("step x failed")


@pytest.mark.parametrize("policy", [None, "Abort", "Continue"])
def test_an_error_of_the_flow_itself_is_not_tolerated(policy: str | None) -> None:
    a = step("x", continue_on_failure=True, when='steps["x"].outputs.n > 1')
    world = flow("x", a=a, b="a", h=step("a", condition="Failed"))
    finished = world.with_spec(failure_policy=policy).run()
    assert finished.end == ("Failed", "StepFailed")
    assert finished.plan().skipped == {"b": "UpstreamFailed"}
    assert finished.plan().phases["h"] == "Completed"


def test_an_error_of_the_flow_in_one_item_is_not_tolerated_and_the_others_run() -> None:
    """Item 0 fails by itself, item 1 has no value for its reference, item 2 completes."""
    vars_ = {"n": 'index == 1 ? steps["x"].outputs.n : 0'}
    each, patch = ForEach(count=3), Patch(job_spec={"queue": "q-$(vars.n)"})
    a = step("x", for_each=each, continue_on_failure=True, vars=vars_, patch=patch)
    world = flow("x", a=a, b="a").with_jobs(x="Completed").settled()
    world = world.ended("f-a-0", "Failed").ended("f-a-2", "Completed").settled()
    assert world.plan().failed == {"a": "JobFailed"}, "the first item's"
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    assert world.end == ("Failed", "StepFailed")


def test_continue_on_failure_does_not_concern_a_skipped_step() -> None:
    """It has not failed itself, so its dependants do not start."""
    world = flow("a", b=step("a", continue_on_failure=True), c="b").with_jobs(a="Failed")
    assert world.plan().skipped == dict.fromkeys("bc", "UpstreamFailed")


def test_a_cancelled_step_with_continue_on_failure_starts_no_dependants() -> None:
    world = flow(a=step(continue_on_failure=True), b="a").with_jobs(a="Running").cancelled()
    world = world.ended("f-a", "Aborted")
    assert (world.plan().skipped, world.plan().phase) == ({"b": "Stopped"}, "Failed")


@pytest.mark.parametrize("policy", ["Stop", "Abort", "Continue"])
def test_a_failure_does_not_stop_a_target_of_the_failed_step(policy: str) -> None:
    """a has no items, so b starts in the same plan, and fails because of its expression."""
    nothing = step(for_each=ForEach(count=0), when="true")
    bad = step("a", when='steps["a"].items[0].phase == "Completed"')
    world = flow(a=nothing, b=bad, c=step(for_each=ForEach(count=0), when="true"))
    world = world.with_spec(failure_policy=policy).settled()
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().failed == {"b": "ExpressionError"}


@pytest.mark.parametrize(("tolerated", "creates"), [(True, ["f-b"]), (False, [])])
def test_others_wait_for_the_reason_of_a_failure_unless_it_may_continue(
    tolerated: bool, creates: list[str]
) -> None:
    a = step(continue_on_failure=tolerated, retry=Retry(limit=0))
    world = flow("x", a=a, b="x").with_jobs(x="Running", a="Running").settled()
    world = replace(world, failed_pods_read=False).with_jobs(x="Completed", a="Failed")
    assert (world.plan().phases["x"], world.plan().creates) == ("Completed", creates)


def test_one_plan_skips_all_steps_after_a_failure() -> None:
    planned = flow("a", b="a", c="b", d="c").with_jobs(a="Failed").plan()
    assert planned.skipped == dict.fromkeys("bcd", "UpstreamFailed")
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")
    assert planned.conditions["b"].message == "a did not complete"
    assert planned.events == ["JobCreated", "StepFailed", "StepSkipped", "FlowFailed"]


def test_a_step_is_not_taken_if_none_of_its_targets_is() -> None:
    world = flow("a", bad=after("a", condition="Failed"), worse="bad").with_jobs(a="Completed")
    planned = world.plan()
    assert planned.skipped == {"bad": "NotTaken", "worse": "NotTaken"}
    assert planned.conditions["bad"].message == "a did not fail"
    assert planned.conditions["worse"].message == "no target was taken"
    assert world.plan().phase == "Succeed"


def test_no_further_step_starts_after_a_failure() -> None:
    world = flow("a", "b", c="b").with_jobs(a="Failed", b="Running")
    planned = world.plan()
    assert planned.held_up == {"c": "Stopped"}
    assert planned.conditions["c"].message == "will not start, because a has failed"
    assert (planned.phase, planned.reason) == ("Running", "StepFailed")
    planned = world.with_jobs(b="Completed").plan()
    assert planned.skipped == {"c": "Stopped"}
    assert planned.conditions["c"].message == "the flow stopped because a failed"
    assert planned.phase == "Failed"


def test_a_handler_and_its_dependants_run_after_a_failure() -> None:
    world = flow(
        "a", "other", alarm=after("a", condition="Failed"), report="alarm", next="other"
    ).with_jobs(a="Failed", other="Running")
    assert world.plan().creates == ["f-alarm"]
    world = world.settled().with_jobs(alarm="Completed", other="Completed")
    planned = world.plan()
    assert (planned.creates, planned.skipped) == (["f-report"], {"next": "Stopped"})
    end = world.run()
    assert (end.flow.status.state.phase, end.flow.status.progress) == ("Failed", "5/5")


def test_a_step_with_condition_finished_is_a_handler_even_if_its_target_completed() -> None:
    world = flow("a", "b", clean=after("b", condition="Finished"), on="clean")
    world = world.with_jobs(a="Failed", b="Running")
    assert world.plan().waiting == {
        "clean": "waits for b (Running) to finish",
        "on": "waits for clean (Waiting)",
    }
    assert world.with_jobs(b="Completed").plan().creates == ["f-clean"]


def test_a_step_met_by_an_ordinary_target_is_not_behind_the_handler() -> None:
    """An ordinary step meets `any`, so the handler is irrelevant."""
    world = flow(
        "a", "x", alarm=after("a", condition="Failed"), y=after("x alarm", strategy="any")
    ).with_jobs(a="Failed", x="Completed", alarm="Running")
    assert world.plan().skipped == {"y": "Stopped"}


def test_a_dependant_of_a_step_that_started_without_the_handler_is_stopped() -> None:
    """`any` was met before the failure; the handler among its targets starts later."""
    any_runs = after("a alarm", strategy="any", condition="Running")
    world = flow("a", alarm=after("a", condition="Failed"), early=any_runs, late="early")
    world = world.with_jobs(a="Running").settled()
    assert world.plan().phases["early"] == "Pending"
    planned = world.with_jobs(early="Completed", a="Failed").plan()
    assert (planned.creates, planned.skipped) == (["f-alarm"], {"late": "Stopped"})


def test_a_dependant_of_a_handler_that_was_not_taken_does_not_start() -> None:
    world = flow("a", "ok", "x", bad=after("ok", condition="Failed"), y="bad x")
    planned = world.with_jobs(a="Failed", ok="Completed", x="Running").plan()
    assert planned.skipped == {"bad": "NotTaken"}
    assert planned.conditions["y"].message == "will not start, because a has failed"


def test_a_resumed_job_delays_the_end_of_the_flow_but_its_step_stays_failed() -> None:
    world = flow("a", "b").with_jobs(a="Aborted", b="Running").settled()
    planned = world.with_jobs(a="Running", b="Completed").plan()
    assert (planned.failed, planned.phase) == ({"a": "JobAborted"}, "Running")
    assert planned.status.running_jobs == ["f-a"]


def test_a_failure_message_contains_that_of_volcano() -> None:
    world = flow("a").with_jobs(a="Failed")
    state = msgspec.structs.replace(world.jobs["f-a"].status.state, message="too many restarts")
    world = world.with_job_status("f-a", state=state)
    assert world.plan().message == "step a failed: the job f-a ended Failed: too many restarts"


def test_the_message_names_several_failed_steps() -> None:
    names = ["a", "b", "c", "d", "e"]
    planned = flow(*names).with_jobs(**dict.fromkeys(names, "Failed")).plan()
    assert planned.message == "steps a, b, c and 2 more failed"
    assert name_failed(planned.status.state) == "a, b, c and 2 more"


def test_the_failed_step_is_read_from_the_message() -> None:
    planned = flow("failed", "b").with_jobs(failed="Failed", b="Completed").plan()
    assert name_failed(planned.status.state) == "failed"
    assert name_failed(flow("a").plan().status.state) == ""


def late_create(step: str = "a") -> World:
    """b has failed the flow; the create of another step got no answer, and arrives later."""
    world = flow("a", "b").stored().with_jobs(b="Failed").settled()
    assert world.plan().skipped == {"a": "Stopped"}
    return world.with_jobs(**{step: "Running"})


def test_a_job_that_is_created_after_the_end_of_its_flow_is_deleted() -> None:
    world = late_create()
    assert world.flow.final
    planned = world.plan()
    assert (planned.deletes, planned.status) == (["f-a"], world.flow.status)
    assert world.apply().plan().nothing


def test_a_late_job_that_has_ended_is_kept_for_its_logs() -> None:
    assert late_create().ended("f-a", "Completed").plan().nothing


def test_a_late_job_without_the_annotation_of_jobflow_is_kept() -> None:
    world = late_create()
    known = world.jobs["f-a"].metadata.annotations or {}
    foreign = {key: value for key, value in known.items() if key != labels.TARGET_ENDS}
    assert world.with_metadata("f-a", annotations=foreign).plan().nothing


def test_a_job_in_the_status_is_kept_after_the_end() -> None:
    """A user has resumed it."""
    assert late_create().with_jobs(b="Running", a="Completed").plan().nothing


def test_an_item_that_is_created_after_the_end_of_the_flow_is_deleted() -> None:
    world = end_jobs(for_each(3, parallelism=1).settled(), "Failed", "f-a-0")
    assert world.flow.final
    job = for_each(3).apply().jobs["f-a-2"]
    assert world.with_job(job).plan().deletes == ["f-a-2"]


def test_a_job_that_is_created_after_its_step_was_stopped_is_deleted_at_once() -> None:
    world = flow("a", "b", "c").stored().with_jobs(b="Failed", c="Running").settled()
    world = world.with_jobs(a="Running")
    planned = world.plan()
    assert (planned.phase, planned.deletes) == ("Running", ["f-a"])
    assert world.apply().plan().nothing
    written_only = world.stored()
    assert written_only.plan().deletes == ["f-a"]


def test_a_job_is_not_late_if_the_status_of_its_flow_is_lost() -> None:
    world = late_create().with_status(JobFlowStatus())
    assert world.plan().deletes == []
