"""`plan` after a failure: the kinds of Skipped, and what still starts."""

from __future__ import annotations

import msgspec

from jobflow.api import labels
from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.job import Job
from support.plan.loop_worlds import each, ends
from support.plan.plan_world import World, after, flow


def test_a_failure_is_handed_down_in_one_plan() -> None:
    planned = flow("a", b="a", c="b", d="c").with_jobs(a="Failed").plan()
    assert planned.skipped == dict.fromkeys("bcd", "UpstreamFailed")
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")
    assert planned.conditions["b"].message == "a did not complete"
    assert planned.events == ["JobCreated", "StepFailed", "StepSkipped", "FlowFailed"]


def test_with_all_targets_not_taken_nothing_is_left_to_wait_for() -> None:
    world = flow("a", bad=after("a", condition="Failed"), worse="bad").with_jobs(a="Completed")
    planned = world.plan()
    assert planned.skipped == {"bad": "NotTaken", "worse": "NotTaken"}
    assert planned.conditions["bad"].message == "a did not fail"
    assert planned.conditions["worse"].message == "no target was taken"
    assert world.plan().phase == "Succeed"


def test_after_a_failure_nothing_new_starts() -> None:
    world = flow("a", "b", c="b").with_jobs(a="Failed", b="Running")
    planned = world.plan()
    assert planned.held_up == {"c": "Stopped"}
    assert planned.conditions["c"].message == "will not start, because a has failed"
    assert (planned.phase, planned.reason) == ("Running", "StepFailed")
    planned = world.with_jobs(b="Completed").plan()
    assert planned.skipped == {"c": "Stopped"}
    assert planned.conditions["c"].message == "the flow stopped because a failed"
    assert planned.phase == "Failed"


def test_an_entry_that_has_not_begun_is_stopped() -> None:
    world = flow("a", "b").with_jobs(a="Failed").without_template("b")
    assert world.plan().skipped == {"b": "Stopped"}


def test_who_would_not_have_been_ready_anyway_says_why() -> None:
    world = flow("a", "b", c="b").with_jobs(a="Failed", b="Failed")
    assert world.plan().skipped == {"c": "UpstreamFailed"}


def test_a_handler_and_what_is_behind_it_run_on() -> None:
    world = flow(
        "a", "other", alarm=after("a", condition="Failed"), report="alarm", next="other"
    ).with_jobs(a="Failed", other="Running")
    assert world.plan().creates == ["f-alarm"]
    world = world.settled().with_jobs(alarm="Completed", other="Completed")
    planned = world.plan()
    assert (planned.creates, planned.skipped) == (["f-report"], {"next": "Stopped"})
    end = world.run()
    assert (end.flow.status.state.phase, end.flow.status.progress) == ("Failed", "5/5")


def test_finished_counts_as_handling_though_its_target_completed() -> None:
    world = flow("a", "b", clean=after("b", condition="Finished"), on="clean")
    world = world.with_jobs(a="Failed", b="Running")
    assert world.plan().waiting == {
        "clean": "waits for b (Running) to finish",
        "on": "waits for clean (Waiting)",
    }
    assert world.with_jobs(b="Completed").plan().creates == ["f-clean"]


def test_ready_by_another_target_is_not_behind_the_handler() -> None:
    """`any` met by an ordinary step: the handler has nothing to do with it."""
    world = flow(
        "a", "x", alarm=after("a", condition="Failed"), y=after("x alarm", strategy="any")
    ).with_jobs(a="Failed", x="Completed", alarm="Running")
    assert world.plan().skipped == {"y": "Stopped"}


def test_behind_what_has_started_without_the_handler_nothing_starts() -> None:
    """`any` was met while all was well; the handler that is one of its targets comes later."""
    any_runs = after("a alarm", strategy="any", condition="Running")
    world = flow("a", alarm=after("a", condition="Failed"), early=any_runs, late="early")
    world = world.with_jobs(a="Running").settled()
    assert world.plan().phases["early"] == "Pending"
    planned = world.with_jobs(early="Completed", a="Failed").plan()
    assert (planned.creates, planned.skipped) == (["f-alarm"], {"late": "Stopped"})


def test_behind_a_handler_that_was_not_taken_nothing_starts() -> None:
    world = flow("a", "ok", "x", bad=after("ok", condition="Failed"), y="bad x")
    planned = world.with_jobs(a="Failed", ok="Completed", x="Running").plan()
    assert planned.skipped == {"bad": "NotTaken"}
    assert planned.conditions["y"].message == "will not start, because a has failed"


def test_a_failed_flow_ends_when_its_last_job_has() -> None:
    world = flow("a", "b").with_jobs(a="Failed", b="Running")
    planned = world.plan()
    assert (planned.phase, planned.reason) == ("Running", "StepFailed")
    assert planned.message == "step a failed: the job f-a ended Failed"
    planned = world.settled().with_jobs(b="Completed").plan()
    assert (planned.phase, planned.events) == ("Failed", ["StepCompleted", "FlowFailed"])


def test_a_resumed_job_holds_up_the_end_but_not_its_step() -> None:
    world = flow("a", "b").with_jobs(a="Aborted", b="Running").settled()
    planned = world.with_jobs(a="Running", b="Completed").plan()
    assert (planned.failed, planned.phase) == ({"a": "JobAborted"}, "Running")
    assert planned.status.running_jobs == ["f-a"]


def test_a_failure_says_what_volcano_said() -> None:
    world = flow("a")
    job = world.job("a", "Failed")
    state = msgspec.structs.replace(job.status.state, message="too many restarts")
    world = world.with_job(
        msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, state=state))
    )
    assert world.plan().message == "step a failed: the job f-a ended Failed: too many restarts"


def test_several_failures_are_named() -> None:
    names = ["a", "b", "c", "d", "e"]
    planned = flow(*names).with_jobs(**dict.fromkeys(names, "Failed")).plan()
    assert planned.message == "steps a, b, c and 2 more failed"


def late(step: str = "a") -> World:
    """b has failed the flow; the create of another step got no answer, and landed later."""
    world = flow("a", "b").stored().with_jobs(b="Failed").settled()
    assert world.plan().skipped == {"a": "Stopped"}
    return world.with_jobs(**{step: "Running"})


def without_annotation(job: Job) -> Job:
    annotations = {
        key: value
        for key, value in (job.metadata.annotations or {}).items()
        if key != labels.TARGET_ENDS
    }
    metadata = msgspec.structs.replace(job.metadata, annotations=annotations)
    return msgspec.structs.replace(job, metadata=metadata)


def test_a_job_whose_create_lands_after_the_end_of_its_flow_is_deleted() -> None:
    world = late()
    assert world.flow.final
    planned = world.plan()
    assert (planned.deletes, planned.status) == (["f-a"], world.flow.status)
    assert world.carried_out().plan().nothing


def test_after_the_end_a_job_that_has_ended_is_left_for_its_logs() -> None:
    assert late().ended("f-a", "Completed").plan().nothing


def test_after_the_end_a_job_that_no_jobflow_of_today_made_is_left_alone() -> None:
    world = late()
    assert world.with_job(without_annotation(world.jobs["f-a"])).plan().nothing


def test_after_the_end_a_job_that_the_status_knows_is_left_alone() -> None:
    """Somebody has resumed it."""
    assert late().with_jobs(b="Running", a="Completed").plan().nothing


def test_an_item_whose_create_lands_after_the_end_of_the_flow_is_deleted() -> None:
    world = ends(each(3, parallelism=1).settled(), "Failed", "f-a-0")
    assert world.flow.final
    made = each(3).carried_out().jobs["f-a-2"]
    assert world.with_job(made).plan().deletes == ["f-a-2"]


def test_a_job_whose_create_lands_after_its_step_was_stopped_is_deleted_at_once() -> None:
    world = flow("a", "b", "c").stored().with_jobs(b="Failed", c="Running").settled()
    world = world.with_jobs(a="Running")
    planned = world.plan()
    assert (planned.phase, planned.deletes) == ("Running", ["f-a"])
    assert world.carried_out().plan().nothing
    written_only = world.stored()
    assert written_only.plan().deletes == ["f-a"]


def test_a_job_whose_status_is_lost_is_not_taken_for_late() -> None:
    world = late().with_status(JobFlowStatus())
    assert world.plan().deletes == []
