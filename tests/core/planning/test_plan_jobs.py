"""`plan` and the vcjobs it finds, or no longer finds: adoption, loss, names in use, refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.job import Job
from jobflow.api.meta import ObjectMeta
from jobflow.core.planning.view import Holder
from support.plan.foreign_jobs import owner, stranger
from support.plan.plan_world import FLOW_UID, NOW, flow, job_status


def test_a_job_that_is_there_is_taken_over() -> None:
    planned = flow("a", b="a").with_jobs(a="Running").plan()
    assert (planned.creates, planned.phases["a"]) == ([], "Running")
    assert (planned.conditions["a"].job, planned.conditions["a"].attempts) == ("f-a", 1)


def test_a_job_without_our_labels_is_known_by_its_name() -> None:
    world = flow("a", b="a")
    metadata = ObjectMeta(name="f-a", owner_references=[owner("f", FLOW_UID)])
    job = Job(metadata=metadata, status=job_status("Completed", NOW))
    assert world.with_job(job).plan().creates == ["f-b"]


def test_a_job_is_known_by_its_label_where_the_annotation_is_lost() -> None:
    world = flow("a", b="a")
    metadata = ObjectMeta(name="f-a-r1", labels={labels.STEP: "a", labels.ATTEMPT: "2"})
    job = Job(metadata=metadata, status=job_status("Completed", NOW))
    planned = world.with_job(job).plan()
    assert (planned.creates, planned.conditions["a"].attempts) == (["f-b"], 2)


@pytest.mark.parametrize(
    "metadata",
    [
        ObjectMeta(name="f-zzz"),
        ObjectMeta(name="f-a", annotations={labels.STEP: "zzz"}),
        ObjectMeta(name="f-a", labels={labels.STEP: "zzz"}),
    ],
)
def test_a_job_of_no_step_is_left_alone(metadata: ObjectMeta) -> None:
    world = flow("a")
    job = Job(metadata=metadata, status=job_status("Running", NOW))
    planned = replace(world, jobs={job.metadata.name: job}).plan()
    assert planned.creates == ["f-a"]
    assert planned.status.job_status_list is None


def test_an_attempt_that_is_no_number_is_the_first() -> None:
    world = flow("a")
    job = world.job("a", "Running")
    meta = msgspec.structs.replace(job.metadata, labels={labels.ATTEMPT: "²"})
    planned = world.with_job(msgspec.structs.replace(job, metadata=meta)).plan()
    assert planned.conditions["a"].attempts == 1


def test_the_highest_attempt_is_the_current_one() -> None:
    world = flow("a", b="a")
    world = world.with_job(world.job("a", "Completed", run=1)).with_jobs(a="Failed")
    planned = world.plan()
    assert (planned.creates, planned.conditions["a"].job) == (["f-b"], "f-a-r1")


def test_a_finished_job_that_is_deleted_is_not_run_again() -> None:
    world = flow("a", b="a").with_jobs(a="Completed").settled()
    planned = world.without_jobs("a").plan()
    assert (planned.creates, planned.job_reads, planned.phases["a"]) == ([], [], "Completed")


@pytest.mark.parametrize(("end", "then"), [("Completed", "Completed"), ("Aborted", "Failed")])
def test_a_deleted_job_counts_as_it_was_last_seen(end: str, then: str) -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled().with_jobs(a=end).last_seen("a")
    planned = world.plan()
    assert (planned.phases["a"], planned.job_reads) == (then, [])


def test_what_the_status_remembers_is_not_changed_by_a_job() -> None:
    world = flow("a", b="a").with_jobs(a="Completed", b="Running").settled()
    planned = world.with_jobs(a="Failed").plan()
    assert (planned.phases["a"], planned.failed) == ("Completed", {})


def test_a_name_that_is_somebody_elses_fails_the_step() -> None:
    planned = flow("a", b="a").stored().with_holder("a", stranger()).plan()
    assert (planned.failed, planned.skipped) == ({"a": "NameConflict"}, {"b": "UpstreamFailed"})
    assert (planned.phase, planned.reason) == ("Failed", "NameConflict")
    assert "JobFlow other" in planned.conditions["a"].message


def test_a_name_of_a_job_without_an_owner_fails_the_step() -> None:
    planned = flow("a").stored().with_holder("a", stranger(owned=False)).plan()
    assert planned.failed == {"a": "NameConflict"}


@pytest.mark.parametrize("holder", [stranger(deleting=True), stranger(owner_alive=False)])
def test_a_name_that_becomes_free_is_waited_for(holder: Holder) -> None:
    world = flow("a").stored().with_holder("a", holder)
    planned = world.plan()
    assert (planned.held_up, planned.creates) == ({"a": "NameInUse"}, [])
    assert planned.plan.requeue_after == timedelta(seconds=5)
    assert (planned.reason, planned.events) == ("NameInUse", ["NameInUse"])
    assert world.stored().plan().nothing
    assert replace(world.stored(), holders={}).plan().creates == ["f-a"]


def test_a_name_is_tried_again_when_the_answer_says_so() -> None:
    holder = replace(stranger(deleting=True), retry_at=NOW + timedelta(seconds=3))
    world = flow("a").stored().with_holder("a", holder).stored()
    assert world.plan().plan.requeue_after == timedelta(seconds=3)
    planned = world.later(3).plan()
    assert (planned.creates, planned.held_up) == (["f-a"], {"a": "NameInUse"})


def test_a_422_fails_the_step_with_the_servers_words() -> None:
    planned = flow("a", b="a").stored().with_refusal("a", 422, "spec.tasks: Required value").plan()
    assert planned.failed == {"a": "Refused"}
    assert planned.conditions["a"].message == "spec.tasks: Required value"
    assert (planned.phase, planned.events) == (
        "Failed",
        ["StepFailed", "StepSkipped", "FlowFailed"],
    )
    assert planned.status.failed_jobs is None


@pytest.mark.parametrize("code", [400, 403])
def test_other_refusals_are_waited_out(code: int) -> None:
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


def test_a_create_refused_again_is_not_told_again() -> None:
    world = flow("a").stored().with_refusal("a", 403, retry_in=1).stored().later(1)
    planned = world.with_refusal("a", 403, "still", retry_in=2).plan()
    assert (planned.events, planned.message) == ([], "step a: still")


def test_a_refusal_for_ever_is_waited_out_without_asking() -> None:
    planned = flow("a").stored().with_refusal("a", 403, "namespace ns is being terminated").plan()
    assert (planned.creates, planned.plan.requeue_after) == ([], None)
    assert planned.held_up == {"a": "CreateRefused"}


def test_a_refused_step_that_has_not_begun_is_stopped_with_the_flow() -> None:
    world = flow("a", "b").with_jobs(a="Failed").with_refusal("b", 403, retry_in=1)
    assert world.plan().skipped == {"b": "Stopped"}
