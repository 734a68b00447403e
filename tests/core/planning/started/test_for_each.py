"""`forEach`: one vcjob for each item, and one step for its dependants."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import ForEach, Patch
from jobflow.api.flow.status import (
    Decisions,
    JobFlowStatus,
    RequestedHours,
    RunCondition,
    StepCondition,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobCondition, JobState, JobStatus
from support.plan.foreign_jobs import foreign
from support.plan.loop_worlds import end_jobs, finish, for_each, jobs_in, run, runs, two_steps, wait
from support.plan.plan_world import World, world_of
from support.plan.world_state import NOW
from support.sandbox.containers import outlined


def started(count: int = 3, **fields: object) -> World:
    """A flow in which all items that may start have started, also according to its status."""
    return for_each(count, **fields).settled()  # type: ignore[arg-type]


def test_the_job_of_an_item_has_its_index() -> None:
    world = started()
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1", "f-a-2"]
    meta = world.jobs["f-a-1"].metadata
    assert (meta.labels or {})[labels.INDEX] == (meta.annotations or {})[labels.INDEX] == "1"
    assert (meta.labels or {})[labels.ATTEMPT] == "1"
    assert (meta.labels or {})[labels.STEP] == "a"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_at_most_parallelism_items_run_at_once(most: int) -> None:
    world = started(5, parallelism=most)
    for done in range(5):
        assert list(jobs_in(world)) == [f"f-a-{i}" for i in range(min(most + done, 5))]
        world = end_jobs(world, "Completed", f"f-a-{done}")
    assert world.plan().phases["a"] == "Completed"


def test_items_start_in_order_regardless_of_which_ends_first() -> None:
    world = end_jobs(started(4, parallelism=2), "Completed", "f-a-1")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1", "f-a-2"]


def test_patches_get_the_values_of_items() -> None:
    patch = Patch(job_spec={"queue": "$(item.q)", "minAvailable": "$(item.n)", "x": "$(index)"})
    items = [{"q": "low", "n": 1}, {"q": "high", "n": 2}]
    world = two_steps(for_each=ForEach(items=items), patch=patch)
    specs = [action.manifest["spec"] for action in world.plan().plan.actions]  # type: ignore[union-attr]
    assert [(s["queue"], s["minAvailable"], s["x"]) for s in specs] == [
        ("low", 1, 0),
        ("high", 2, 1),
    ]


def test_with_count_the_item_is_the_index() -> None:
    world = for_each(2, patch=Patch(job_spec={"minAvailable": "$(item)"}))
    specs = [action.manifest["spec"] for action in world.plan().plan.actions]  # type: ignore[union-attr]
    assert [spec["minAvailable"] for spec in specs] == [0, 1]


def test_evaluated_items_start_after_they_are_stored() -> None:
    world = two_steps(for_each=ForEach(from_="[1, 2].map(x, x * 10)"))
    planned = world.plan()
    assert planned.creates == []
    assert planned.conditions["a"].decisions == Decisions(items=[10, 20])
    assert planned.plan.urgent
    world = world.stored()
    assert world.plan().creates == ["f-a-0", "f-a-1"]
    world = end_jobs(world.settled(), "Completed", "f-a-0", "f-a-1")
    assert world.plan().conditions["a"].decisions == Decisions(items=[10, 20])
    assert world.plan().phases["a"] == "Completed"


def test_a_step_runs_while_an_item_runs() -> None:
    world = for_each(3)
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Starting")
    assert condition.message == "3 jobs are being created"
    world = world.settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.attempts) == ("Running", "", 3)
    assert condition.message == "0 of 3 items have ended, 3 under way"
    assert runs(world.plan()) == {0: "Pending", 1: "Pending", 2: "Pending"}
    world = end_jobs(world, "Completed", "f-a-1")
    assert world.plan().phases == {"a": "Running", "b": "Waiting"}
    assert world.plan().conditions["a"].message == "1 of 3 items have ended, 2 under way"
    assert runs(world.plan()) == {0: "Pending", 1: "Completed", 2: "Pending"}


def test_jobs_are_listed_by_item_and_attempt() -> None:
    world = started(3)
    world = end_jobs(world, "Completed", "f-a-2")
    names = [record.name for record in world.flow.status.job_status_list or ()]
    assert names == ["f-a-0", "f-a-1", "f-a-2"]
    assert world.flow.status.completed_jobs == ["f-a-2"]
    assert world.flow.status.pending_jobs == ["f-a-0", "f-a-1"]


def test_each_item_has_its_own_outputs() -> None:
    world = started(2)
    for index in (0, 1):
        world = finish(world, f"f-a-{index}", f'{{"acc": 0.{index}}}').settled()
    assert [run(world.plan(), index).outputs for index in (0, 1)] == [{"acc": 0.0}, {"acc": 0.1}]
    assert world.plan().conditions["a"].outputs is None


def test_pod_counts_of_items_are_added_up() -> None:
    world = started(2)
    world = world.with_job(world.ended("f-a-0", "Running").jobs["f-a-0"])
    world = world.with_job(world.ended("f-a-1", "Running").jobs["f-a-1"]).settled()
    counts = world.plan().conditions["a"].task_status_count or {}
    assert {task: state.phase for task, state in counts.items()} == {"t": {"Running": 2}}


def test_after_a_failed_item_no_further_items_start_and_running_ones_end() -> None:
    world = end_jobs(started(5, parallelism=2), "Failed", "f-a-0")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1"]
    assert world.plan().phases["a"] == "Running"
    message = "1 of 5 items have ended, 1 under way, 3 will not start"
    assert world.plan().conditions["a"].message == message
    world = end_jobs(world, "Completed", "f-a-1")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "JobFailed")
    message = "3 of 5 items not started; item 0: the job f-a-0 ended Failed"
    assert condition.message.startswith(message)
    assert runs(world.plan()) == {0: "Failed JobFailed", 1: "Completed"}
    assert world.flow.status.state.reason == "StepFailed"


def test_no_item_starts_while_the_reason_of_a_failed_item_is_read() -> None:
    world = for_each(3).with_spec(parallelism=1).settled()
    failed = finish(world, "f-a-0", "no", phase="Failed", watched=False)
    assert (failed.plan().reads, failed.plan().creates) == (["f-a-0"], [])
    assert failed.settled().plan().failed == {"a": "JobFailed"}


def test_the_message_is_that_of_the_first_item_that_failed_by_itself() -> None:
    """Item 0 is aborted only after another step has failed."""
    steps = [Step(name="a", for_each=ForEach(count=2)), Step(name="x")]
    world = world_of(steps).with_spec(failure_policy="Abort").settled()
    world = end_jobs(world, "Failed", "f-a-1")
    world = end_jobs(world, "Failed", "f-x").settled()
    assert runs(world.plan())[0] == "Pending FailurePolicy"
    world = end_jobs(world, "Aborted", "f-a-0")
    condition = world.plan().conditions["a"]
    assert condition.reason == "JobFailed"
    assert condition.message.startswith("2 of 2 items failed; item 1: the job f-a-1 ended Failed")


def test_several_failures_are_counted_and_the_first_is_named() -> None:
    condition = end_jobs(started(), "Failed", "f-a-0", "f-a-1", "f-a-2").plan().conditions["a"]
    assert condition.message.startswith("3 of 3 items failed; item 0: the job f-a-0 ended")
    assert condition.job == "f-a-0"


def test_only_the_item_whose_job_is_lost_runs_again() -> None:
    world = started(2)
    world = end_jobs(world, "Completed", "f-a-0")
    world = world.with_missing("f-a-1").later(1)
    jobs = {name: job for name, job in world.jobs.items() if name != "f-a-1"}
    world = World(world.flow, world.templates, jobs, missing=world.missing, now=world.now).settled()
    assert world.plan().held_up == {"a": "JobLost"}
    assert runs(world.plan()) == {0: "Completed", 1: "Waiting JobLost"}
    world = wait(world)
    assert sorted(jobs_in(world)) == ["f-a-0", "f-a-1-r1"]
    assert (world.jobs["f-a-1-r1"].metadata.labels or {})[labels.ATTEMPT] == "2"


def test_a_refused_item_fails_the_step_and_lets_others_end() -> None:
    world = for_each(3).stored().with_refusal("a-1", 422, "no such queue")
    planned = world.plan()
    assert planned.creates == []
    assert runs(planned) == {1: "Failed Refused"}
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "Refused")
    assert condition.message == "2 of 3 items not started; item 1: no such queue"


def test_an_item_whose_name_is_in_use_fails_the_step_after_the_others_end() -> None:
    world = started(2, parallelism=1).with_holder("a-1", foreign())
    assert world.plan().phases["a"] == "Running"
    world = end_jobs(world, "Completed", "f-a-0")
    assert world.plan().failed == {"a": "NameConflict"}


def test_a_refused_create_is_shown_if_no_item_runs() -> None:
    world = for_each(1).stored().with_refusal("a-0", 403, "quota", retry_in=3)
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "CreateRefused")
    assert condition.message == "item 0: quota"
    assert world.plan().reason == "CreateRefused"
    assert list(jobs_in(world.later(4).settled())) == ["f-a-0"]


def test_an_item_without_a_value_fails_and_starts_no_others() -> None:
    patch = Patch(job_spec={"queue": "$(item.q)"})
    items = "[{'q': 'x'}, {'p': 'y'}, {'q': 'z'}]"
    world = two_steps(for_each=ForEach(from_=items), patch=patch).stored()
    assert world.plan().creates == ["f-a-0"]
    world = world.settled()
    assert list(jobs_in(world)) == ["f-a-0"]
    assert runs(world.plan()) == {0: "Pending", 1: "Failed ExpressionError"}
    world = end_jobs(world, "Completed", "f-a-0")
    assert world.plan().failed == {"a": "ExpressionError"}
    message = "1 of 3 items not started; item 1: $(item.q) has no value"
    assert world.plan().conditions["a"].message.startswith(message)


def all_start(count: int, parallelism: int | None = None, **fields: object) -> World:
    """A step with continueOnFailure, so that all its items start."""
    return started(count, parallelism=parallelism, continue_on_failure=True, **fields)


def test_items_without_a_value_take_no_room() -> None:
    patch = Patch(job_spec={"queue": "$(item.q)"})
    for_each = ForEach(from_="[{'p': 1}, {'p': 2}, {'p': 3}, {'p': 4}, {'q': 'z'}]", parallelism=1)
    world = two_steps(for_each=for_each, patch=patch, continue_on_failure=True).stored().settled()
    assert list(jobs_in(world)) == ["f-a-4"]
    failed = dict.fromkeys(range(4), "Failed ExpressionError")
    assert runs(world.plan()) == {**failed, 4: "Pending"}


def test_a_cancelled_flow_starts_no_further_items() -> None:
    world = end_jobs(all_start(3, parallelism=1), "Failed", "f-a-0").cancelled()
    world = end_jobs(world, "Aborted", "f-a-1")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "JobFailed")
    message = "2 of 3 items failed; 1 of 3 items not started; item 0: the job f-a-0 ended Failed"
    assert condition.message.startswith(message)


def test_a_flow_that_aborts_because_of_another_step_starts_no_further_items() -> None:
    for_each = Step(name="a", for_each=ForEach(count=3, parallelism=1), continue_on_failure=True)
    world = world_of([for_each, Step(name="x")]).with_spec(failure_policy="Abort").settled()
    world = end_jobs(world, "Failed", "f-x").settled()
    world = end_jobs(world, "Aborted", "f-a-0")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "FailurePolicy")
    assert condition.message.startswith("2 of 3 items not started; item 0: x failed")


@pytest.mark.parametrize("policy", ["Stop", "Continue"])
def test_a_retry_runs_items_that_failed_or_never_started(policy: str) -> None:
    steps = [Step(name="a", for_each=ForEach(count=3, parallelism=1))]
    world = world_of(steps).with_spec(failure_policy=policy).settled()
    world = end_jobs(world, "Completed", "f-a-0")
    world = end_jobs(world, "Failed", "f-a-1")
    if policy == "Continue":
        world = end_jobs(world, "Failed", "f-a-2")
    assert world.plan().phase == "Failed"
    world = world.with_command("RestartJob").settled()
    assert world.plan().phases["a"] != "Failed"
    world = end_jobs(world, "Completed", "f-a-1-r1")
    last = "f-a-2-r1" if policy == "Continue" else "f-a-2"
    world = end_jobs(world, "Completed", last)
    assert runs(world.plan()) == {0: "Completed", 1: "Completed", 2: "Completed"}
    assert world.plan().phase == "Succeed"


def test_next_jobs_are_the_items_that_will_start() -> None:
    stopped = end_jobs(started(4, parallelism=2), "Failed", "f-a-0")
    assert stopped.plan().status.next_jobs is None
    continues = end_jobs(all_start(4, parallelism=2), "Failed", "f-a-0")
    assert continues.plan().status.next_jobs == ["f-a-3"]
    last = end_jobs(continues, "Completed", "f-a-1")
    assert last.plan().status.next_jobs == ["f-b"]


def test_a_step_fails_if_the_flow_is_cancelled_before_its_last_items() -> None:
    world = started(3, parallelism=1)
    world = world.later(1).ended("f-a-0", "Completed").with_command().settled()
    assert world.plan().failed == {"a": "Cancelled"}
    message = world.plan().conditions["a"].message
    assert message == "the flow was cancelled; 1 of 3 items had ended"


def test_a_dependant_with_condition_running_waits_for_the_first_running_item() -> None:
    world = for_each(2, condition="Running").settled()
    assert "f-b" not in jobs_in(world)
    world = end_jobs(world, "Running", "f-a-1")
    assert "f-b" in jobs_in(world)


def test_the_index_of_a_job_identifies_its_item() -> None:
    world = started(2)
    status = JobFlowStatus(conditions={"f-a": StepCondition(phase="Running")})
    planned = World(world.flow, world.templates, world.jobs).with_status(status).plan()
    assert runs(planned) == {0: "Pending", 1: "Pending"}


def test_a_job_without_an_index_belongs_to_no_item() -> None:
    world = for_each(2).settled()
    assert world.with_jobs(a="Failed").plan().nothing


def test_invalid_runs_in_a_status_are_ignored() -> None:
    """Runs without an index, with a negative one, and with a duplicate one."""
    world = started(2)
    known = world.plan().conditions["a"]
    invalid = [RunCondition(index=index, phase="Failed") for index in (None, -1, 0)]
    condition = msgspec.structs.replace(known, runs=[*(known.runs or ()), *invalid])
    changed = world.with_status_fields(conditions={"f-a": condition})
    assert runs(changed.plan()) == {0: "Pending", 1: "Pending"}
    assert changed.plan().creates == []


def test_a_job_that_was_dropped_from_the_status_is_known_by_its_name() -> None:
    world = started(2)
    known = world.plan().conditions["a"]
    nameless = [msgspec.structs.replace(run, job="", attempts=2) for run in known.runs or ()]
    condition = msgspec.structs.replace(known, runs=nameless)
    without_jobs = world.with_status_fields(conditions={"f-a": condition})
    names = ["f-a-0-r1", "f-a-1-r1"]
    assert replace(without_jobs, jobs={}).plan().job_reads == names
    lost = replace(without_jobs, jobs={}).with_missing(*names).plan()
    assert [run(lost, index).job for index in (0, 1)] == names
    assert runs(lost) == {0: "Waiting JobLost", 1: "Waiting JobLost"}


def test_hours_of_items_are_added_up() -> None:
    world = started(2)
    for name, minutes in (("f-a-0", 60), ("f-a-1", 30)):
        job = outlined(world.jobs[name], "t=1", cpu="1")
        ran = [
            JobCondition(status=phase, last_transition_time=NOW + timedelta(minutes=at))
            for phase, at in (("Running", 0), ("Completed", minutes))
        ]
        state = JobState(phase="Completed", last_transition_time=ran[-1].last_transition_time)
        status = JobStatus(state=state, conditions=ran)
        world = world.with_job(msgspec.structs.replace(job, status=status)).settled()
    assert world.plan().conditions["a"].requested_hours == RequestedHours(cpu="1.5")
