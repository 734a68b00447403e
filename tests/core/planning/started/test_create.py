"""Vcjobs that are adopted, lost or refused, and names that are in use."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Patch, Retry
from jobflow.api.flow.status import JobRecord
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.observed.view import Holder
from support.plan.foreign_jobs import foreign, owner
from support.plan.plan_world import World, after, flow, world_of
from support.plan.steps import step
from support.plan.world_state import FLOW_UID, NOW, job_status


def test_an_existing_job_is_adopted() -> None:
    planned = flow("a", b="a").with_jobs(a="Running").plan()
    assert (planned.creates, planned.phases["a"]) == ([], "Running")
    assert (planned.conditions["a"].job, planned.conditions["a"].attempts) == ("f-a", 1)


def test_a_step_with_a_container_waits_for_no_template() -> None:
    world = replace(flow(a=step(container={"image": "busybox"}), b="a"), templates={})
    planned = world.plan()
    assert (planned.creates, planned.conditions["a"].reason) == (["f-a"], "Starting")


def test_a_job_without_labels_is_known_by_its_name() -> None:
    world = flow("a", b="a")
    metadata = ObjectMeta(name="f-a", owner_references=[owner("f", FLOW_UID)])
    job = Job(metadata=metadata, status=job_status("Completed", NOW))
    assert world.with_job(job).plan().creates == ["f-b"]


def test_a_job_without_the_annotation_is_known_by_its_label() -> None:
    world = flow("a", b="a")
    metadata = ObjectMeta(name="f-a-r1", labels={labels.STEP: "a", labels.ATTEMPT: "2"})
    job = Job(metadata=metadata, status=job_status("Completed", NOW))
    planned = world.with_job(job).plan()
    assert (planned.creates, planned.conditions["a"].attempts) == (["f-b"], 2)


def test_a_job_without_a_step_is_ignored() -> None:
    job = Job(metadata=ObjectMeta(name="f-zzz"), status=job_status("Running", NOW))
    planned = replace(flow("a"), jobs={"f-zzz": job}).plan()
    assert planned.creates == ["f-a"]
    assert planned.status.job_status_list is None


def test_an_attempt_label_without_a_number_counts_as_the_first_attempt() -> None:
    world = flow("a").with_jobs(a="Running")
    planned = world.with_metadata("f-a", labels={labels.ATTEMPT: "²"}).plan()
    assert planned.conditions["a"].attempts == 1


@pytest.mark.parametrize(("end", "then"), [("Completed", "Completed"), ("Aborted", "Failed")])
def test_a_deleted_job_counts_with_its_last_phase(end: str, then: str) -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled().with_jobs(a=end).with_deleted("a")
    planned = world.plan()
    assert (planned.phases["a"], planned.job_reads) == (then, [])


def test_a_job_does_not_change_an_end_that_the_status_has() -> None:
    world = flow("a", b="a").with_jobs(a="Completed", b="Running").settled()
    planned = world.with_jobs(a="Failed").plan()
    assert (planned.phases["a"], planned.failed) == ("Completed", {})


def test_a_reference_to_a_job_is_that_of_the_last_attempt() -> None:
    patch = Patch(spec={"queue": "$(steps.server.job).$(steps.server.phase)"})
    client = step("server", patch=patch)
    world = flow(server=step(retry=Retry(limit=1)), client=client).with_jobs(server="Failed")
    planned = world.settled().later(10).settled().ended("f-server-r1", "Completed").plan()
    [create] = [action for action in planned.plan.actions if isinstance(action, CreateJob)]
    assert create.manifest["spec"]["queue"] == "f-server-r1.Completed"


@pytest.mark.parametrize("owned", [True, False])
def test_a_name_that_a_foreign_job_has_fails_the_step(owned: bool) -> None:
    planned = flow("a", b="a").stored().with_holder("a", foreign(owned=owned)).plan()
    assert (planned.failed, planned.skipped) == ({"a": "NameConflict"}, {"b": "UpstreamFailed"})
    assert (planned.phase, planned.reason) == ("Failed", "NameConflict")
    assert ("JobFlow other" in planned.conditions["a"].message) is owned


@pytest.mark.parametrize("holder", [foreign(deleting=True), foreign(owner_alive=False)])
def test_a_step_waits_for_a_name_that_becomes_free(holder: Holder) -> None:
    world = flow("a").stored().with_holder("a", holder)
    planned = world.plan()
    assert (planned.held_up, planned.creates) == ({"a": "NameInUse"}, [])
    assert planned.plan.requeue_after == timedelta(seconds=5)
    assert (planned.reason, planned.events) == ("NameInUse", ["NameInUse"])
    assert world.stored().plan().nothing
    assert replace(world.stored(), holders={}).plan().creates == ["f-a"]


def test_a_name_is_tried_again_at_the_time_of_the_answer() -> None:
    holder = replace(foreign(deleting=True), retry_at=NOW + timedelta(seconds=3))
    world = flow("a").stored().with_holder("a", holder).stored()
    assert world.plan().plan.requeue_after == timedelta(seconds=3)
    planned = world.later(3).plan()
    assert (planned.creates, planned.held_up) == (["f-a"], {"a": "NameInUse"})


def test_a_422_fails_the_step_with_the_message_of_the_server() -> None:
    planned = flow("a", b="a").stored().with_refusal("a", 422, "spec.tasks: Required value").plan()
    assert planned.failed == {"a": "Refused"}
    assert planned.conditions["a"].message == "spec.tasks: Required value"
    assert (planned.phase, planned.events) == (
        "Failed",
        ["StepFailed", "StepSkipped", "FlowFailed"],
    )
    assert planned.status.failed_jobs is None


@pytest.mark.parametrize("code", [400, 403])
def test_other_refusals_are_retried(code: int) -> None:
    world = flow("a").stored().with_refusal("a", code, "exceeded quota", retry_in=2.5)
    planned = world.plan()
    assert (planned.held_up, planned.creates) == ({"a": "CreateRefused"}, [])
    assert planned.message == "step a: exceeded quota"
    assert planned.conditions["a"].next_attempt_time == NOW + timedelta(seconds=3)
    assert planned.plan.requeue_after == timedelta(seconds=2.5)
    assert planned.events == ["CreateRefused"]
    world = world.stored()
    assert world.plan().nothing
    planned = world.later(2.5).plan()
    assert (planned.creates, planned.events) == (["f-a"], [])
    assert planned.status == world.flow.status


def test_a_repeated_refusal_writes_no_further_event() -> None:
    world = flow("a").stored().with_refusal("a", 403, retry_in=1).stored().later(1)
    planned = world.with_refusal("a", 403, "still", retry_in=2).plan()
    assert (planned.events, planned.message) == ([], "step a: still")


def test_a_create_in_a_terminating_namespace_is_not_retried() -> None:
    planned = flow("a").stored().with_refusal("a", 403, "namespace ns is being terminated").plan()
    assert (planned.creates, planned.plan.requeue_after) == ([], None)
    assert planned.held_up == {"a": "CreateRefused"}


def test_a_refused_step_that_has_not_started_is_stopped_with_the_flow() -> None:
    world = flow("a", "b").with_jobs(a="Failed").with_refusal("b", 403, retry_in=1)
    assert world.plan().skipped == {"b": "Stopped"}


def lost() -> World:
    """The job of a ran and no longer exists, and its end is unknown."""
    return flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")


def test_a_lost_job_is_confirmed_before_anything_else() -> None:
    planned = lost().plan()
    assert (planned.job_reads, planned.creates, planned.events) == (["f-a"], [], [])
    assert planned.status == planned.world.flow.status


def test_a_lost_job_that_exists_after_all_keeps_running() -> None:
    assert lost().with_jobs(a="Running").with_missing("f-a").plan().nothing


def test_a_lost_job_is_tried_again_after_a_backoff() -> None:
    world = lost().with_missing("f-a")
    planned = world.plan()
    assert planned.held_up == {"a": "JobLost"}
    assert planned.conditions["a"].next_attempt_time == NOW + timedelta(seconds=1)
    assert planned.plan.requeue_after == timedelta(seconds=1)
    assert (planned.events, planned.plan.urgent, planned.creates) == (["JobLost"], True, [])
    assert (planned.phase, planned.reason) == ("Running", "JobLost")

    world = world.apply(planned)
    assert world.plan().nothing
    planned = world.later(0.5).plan()
    assert (planned.creates, planned.plan.requeue_after) == ([], timedelta(seconds=0.5))

    world = world.later(1)
    planned = world.plan()
    assert (planned.creates, planned.events) == (["f-a-r1"], [])
    world = world.apply(planned)
    planned = world.plan()
    assert (planned.conditions["a"].attempts, planned.conditions["a"].job) == (2, "f-a-r1")
    assert (planned.phases["a"], planned.events) == ("Pending", ["JobCreated"])
    assert world.run().flow.status.state.phase == "Succeed"


def test_the_new_attempt_is_created_only_if_the_lost_job_does_not_exist() -> None:
    """Another process may have planned it, and this one does not know the result of its read."""
    world = lost().with_missing("f-a").stored().later(1)
    planned = replace(world, missing=frozenset()).plan()
    assert (planned.creates, planned.must_not_exist) == (["f-a-r1"], ["f-a"])


def test_the_end_of_a_lost_job_may_become_known_later() -> None:
    world = lost().with_missing("f-a").stored()
    world = world.with_jobs(a="Completed").with_deleted("a")
    assert world.plan().creates == ["f-b"]


def test_a_lost_job_whose_start_was_not_stored_is_tried_again() -> None:
    world = flow("a").stored().with_jobs(a="Running").with_deleted("a")
    planned = world.plan()
    assert (planned.job_reads, planned.held_up) == ([], {"a": "JobLost"})
    world = world.stored().later(1)
    assert world.plan().creates == ["f-a-r1"]


def test_a_job_lost_twice_waits_longer() -> None:
    world = lost().with_missing("f-a").stored().later(1).apply().settled()
    world = replace(world, jobs={}).with_missing("f-a-r1")
    planned = world.plan()
    assert planned.plan.requeue_after == timedelta(seconds=2)
    assert world.stored().later(2).plan().creates == ["f-a-r2"]


def test_an_earlier_attempt_in_the_cache_is_not_the_current_one() -> None:
    world = lost().with_missing("f-a").stored().later(1).apply().settled()
    world = replace(
        world.with_jobs(a="Running").with_deleted("a"), jobs={"f-a": world.job("a", "Running")}
    )
    assert world.plan().job_reads == ["f-a-r1"]


def test_a_new_attempt_skips_names_that_are_or_were_in_use() -> None:
    world = world_of([Step(name="a"), Step(name="a-r1")]).with_jobs(a="Running")
    world = world.with_jobs(**{"a-r1": "Running"}).settled().without_jobs("a")
    remembered = [
        *(world.flow.status.job_status_list or []),
        JobRecord(name="f-a-r2", state="Failed"),
    ]
    status = msgspec.structs.replace(world.flow.status, job_status_list=remembered)
    world = world.with_status(status).with_missing("f-a").stored().later(1)
    world = replace(world, holders={"f-a-r3": foreign()})
    assert world.plan().creates == ["f-a-r4"]


def test_a_lost_step_without_its_template_waits_for_it() -> None:
    world = lost().with_missing("f-a").stored().later(1).without_template("a")
    planned = world.plan()
    assert planned.held_up == {"a": "WaitingForTemplate"}
    assert (planned.conditions["a"].attempts, planned.conditions["a"].job) == (1, "f-a")
    assert world.stored().with_template("a").plan().creates == ["f-a-r1"]


def test_a_lost_step_is_tried_again_in_a_stopped_flow() -> None:
    world = flow("a", "b").with_jobs(a="Running", b="Failed").settled()
    world = world.without_jobs("a").with_missing("f-a").stored().later(1)
    assert world.plan().creates == ["f-a-r1"]


def test_a_flow_that_is_being_deleted_starts_no_new_attempt() -> None:
    planned = lost().being_deleted().plan()
    assert (planned.job_reads, planned.creates, planned.phase) == ([], [], "Terminating")


def test_a_lost_job_is_in_the_list_of_unknown_jobs() -> None:
    status = lost().with_missing("f-a").plan().status
    assert (status.un_know_jobs, status.running_jobs) == (["f-a"], None)
    (record,) = status.job_status_list or []
    assert (record.state, record.end_timestamp) == ("Running", NOW)


def test_a_refused_new_attempt_keeps_the_previous_one() -> None:
    world = lost().with_missing("f-a").stored().later(1)
    refused = world.with_refusal("a", 403, "exceeded quota", retry_in=4, run=1)
    planned = refused.plan()
    assert planned.held_up == {"a": "CreateRefused"}
    assert (planned.conditions["a"].attempts, planned.conditions["a"].job) == (1, "f-a")
    assert refused.stored().later(4).plan().creates == ["f-a-r1"]
    failed = world.with_refusal("a", 422, run=1).plan()
    assert failed.failed == {"a": "Refused"}
    assert failed.conditions["a"].attempts == 1


@pytest.mark.parametrize(
    ("condition", "phase", "reason"),
    [("Completed", "Completed", "JobLost"), ("Failed", "Failed", "JobFailed")],
)
def test_the_job_of_a_dependant_implies_the_end_of_a_lost_job(
    condition: str, phase: str, reason: str
) -> None:
    """The create was sent, but the status with its reason was not."""
    world = flow("a", b=after("a", condition=condition)).with_jobs(a="Running").settled()
    world = world.with_jobs(b="Running").without_jobs("a")
    planned = world.plan()
    assert (planned.job_reads, planned.phases) == ([], {"a": phase, "b": "Running"})
    assert planned.conditions["a"].reason == reason
    assert world.settled().plan().nothing
    assert world.settled().records["f-a"].state == phase


@pytest.mark.parametrize(
    "depends_on",
    [
        after("a", condition="Finished"),
        after("a", condition="Running"),
        after("a x", strategy="any"),
    ],
)
def test_the_job_of_a_dependant_with_another_condition_implies_no_end(depends_on: Any) -> None:
    world = flow("a", "x", b=depends_on).with_jobs(a="Running", x="Completed").stored()
    world = world.with_jobs(b="Running").without_jobs("a")
    assert world.plan().job_reads == ["f-a"]


def test_the_job_of_a_dependant_implies_no_end_of_a_step_that_may_fail() -> None:
    world = flow(a=step(continue_on_failure=True), b="a").with_jobs(a="Running").stored()
    world = world.with_jobs(b="Running").without_jobs("a")
    assert world.plan().job_reads == ["f-a"]


def test_the_job_of_a_dependant_of_any_with_one_target_implies_its_end() -> None:
    world = flow("a", b=after("a", strategy="any")).with_jobs(a="Running").settled()
    assert world.with_jobs(b="Running").without_jobs("a").plan().phases["a"] == "Completed"


def test_a_dependant_that_the_status_knows_implies_nothing() -> None:
    """The status that has the dependant would also have the end of its target."""
    world = flow("a", b="a").with_jobs(a="Running", b="Running").settled().without_jobs("a")
    assert world.plan().job_reads == ["f-a"]
