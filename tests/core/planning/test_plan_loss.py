"""`plan` when a vcjob is gone and nobody saw its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow_status import JobRecord
from jobflow.api.jobflow import Step
from support.plan.foreign_jobs import stranger
from support.plan.plan_world import NOW, World, after, flow, world_of
from support.plan.steps import step


def lost() -> World:
    """a ran and is gone; nobody has seen how it ended."""
    return flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")


def test_a_lost_job_is_confirmed_before_anything_else() -> None:
    planned = lost().plan()
    assert (planned.job_reads, planned.creates, planned.events) == (["f-a"], [], [])
    assert planned.status == planned.world.flow.status


def test_a_lost_job_that_is_there_after_all_runs_on() -> None:
    assert lost().with_jobs(a="Running").with_missing("f-a").plan().nothing


def test_a_lost_job_is_tried_again_after_a_backoff() -> None:
    world = lost().with_missing("f-a")
    planned = world.plan()
    assert planned.held_up == {"a": "JobLost"}
    assert planned.conditions["a"].next_attempt_time == NOW + timedelta(seconds=1)
    assert planned.plan.requeue_after == timedelta(seconds=1)
    assert (planned.events, planned.plan.urgent, planned.creates) == (["JobLost"], True, [])
    assert (planned.phase, planned.reason) == ("Running", "JobLost")

    world = world.carried_out(planned)
    assert world.plan().nothing
    planned = world.later(0.5).plan()
    assert (planned.creates, planned.plan.requeue_after) == ([], timedelta(seconds=0.5))

    world = world.later(1)
    planned = world.plan()
    assert (planned.creates, planned.events) == (["f-a-r1"], [])
    world = world.carried_out(planned)
    planned = world.plan()
    assert (planned.conditions["a"].attempts, planned.conditions["a"].job) == (2, "f-a-r1")
    assert (planned.phases["a"], planned.events) == ("Pending", ["JobCreated"])
    assert world.run().flow.status.state.phase == "Succeed"


def test_the_new_attempt_is_created_only_if_the_lost_job_is_gone() -> None:
    """Another process may have planned it: what was read then is not known to this one."""
    world = lost().with_missing("f-a").stored().later(1)
    planned = replace(world, missing=frozenset()).plan()
    assert (planned.creates, planned.must_be_gone) == (["f-a-r1"], ["f-a"])


def test_the_end_of_a_lost_job_may_still_be_told() -> None:
    world = lost().with_missing("f-a").stored()
    world = world.with_jobs(a="Completed").last_seen("a")
    assert world.plan().creates == ["f-b"]


def test_a_lost_job_whose_beginning_was_not_written_either() -> None:
    world = flow("a").stored().with_jobs(a="Running").last_seen("a")
    planned = world.plan()
    assert (planned.job_reads, planned.held_up) == ([], {"a": "JobLost"})
    world = world.stored().later(1)
    assert world.plan().creates == ["f-a-r1"]


def test_a_job_lost_twice_waits_longer() -> None:
    world = lost().with_missing("f-a").stored().later(1).carried_out().settled()
    world = replace(world, jobs={}).with_missing("f-a-r1")
    planned = world.plan()
    assert planned.plan.requeue_after == timedelta(seconds=2)
    assert world.stored().later(2).plan().creates == ["f-a-r2"]


def test_an_earlier_attempt_that_is_still_known_is_not_the_current_one() -> None:
    world = lost().with_missing("f-a").stored().later(1).carried_out().settled()
    world = replace(
        world.with_jobs(a="Running").last_seen("a"), jobs={"f-a": world.job("a", "Running")}
    )
    assert world.plan().job_reads == ["f-a-r1"]


def test_a_new_attempt_takes_no_name_that_anything_has_or_had() -> None:
    world = world_of([Step(name="a"), Step(name="a-r1")]).with_jobs(a="Running")
    world = world.with_jobs(**{"a-r1": "Running"}).settled().without_jobs("a")
    remembered = [
        *(world.flow.status.job_status_list or []),
        JobRecord(name="f-a-r2", state="Failed"),
    ]
    status = msgspec.structs.replace(world.flow.status, job_status_list=remembered)
    world = world.with_status(status).with_missing("f-a").stored().later(1)
    world = replace(world, holders={"f-a-r3": stranger()})
    assert world.plan().creates == ["f-a-r4"]


def test_a_long_name_is_shortened_for_a_new_attempt_alone() -> None:
    long = "a" * 50
    world = world_of([Step(name=long)], name="flow-name").with_jobs(**{long: "Running"}).settled()
    world = world.without_jobs(long).with_missing(f"flow-name-{long}").stored().later(1)
    (name,) = world.plan().creates
    assert len(name + "-t-0") <= 63
    assert name.endswith("-r1")


def test_a_lost_step_without_its_template_waits_for_it() -> None:
    world = lost().with_missing("f-a").stored().later(1).without_template("a")
    planned = world.plan()
    assert planned.held_up == {"a": "WaitingForTemplate"}
    assert (planned.conditions["a"].attempts, planned.conditions["a"].job) == (1, "f-a")
    assert world.stored().with_template("a").plan().creates == ["f-a-r1"]


def test_a_lost_step_carries_on_although_the_flow_has_stopped() -> None:
    world = flow("a", "b").with_jobs(a="Running", b="Failed").settled()
    world = world.without_jobs("a").with_missing("f-a").stored().later(1)
    assert world.plan().creates == ["f-a-r1"]


def test_a_flow_being_deleted_makes_no_new_attempt() -> None:
    planned = lost().being_deleted().plan()
    assert (planned.job_reads, planned.creates, planned.phase) == ([], [], "Terminating")


def test_a_lost_job_is_in_the_list_of_those_nobody_knows_about() -> None:
    status = lost().with_missing("f-a").plan().status
    assert (status.un_know_jobs, status.running_jobs) == (["f-a"], None)
    (record,) = status.job_status_list or []
    assert (record.state, record.end_timestamp) == ("Running", NOW)


def test_a_refused_new_attempt_keeps_what_is_remembered() -> None:
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
def test_a_dependants_job_tells_the_end_of_a_lost_one(
    condition: str, phase: str, reason: str
) -> None:
    """The create was sent, the status that held its reason was not."""
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
def test_what_a_dependants_job_does_not_tell(depends_on: Any) -> None:
    world = flow("a", "x", b=depends_on).with_jobs(a="Running", x="Completed").stored()
    world = world.with_jobs(b="Running").without_jobs("a")
    assert world.plan().job_reads == ["f-a"]


def test_the_end_of_a_step_that_may_fail_is_not_told_by_what_starts_after_either() -> None:
    world = flow(a=step(continue_on_failure=True), b="a").with_jobs(a="Running").stored()
    world = world.with_jobs(b="Running").without_jobs("a")
    assert world.plan().job_reads == ["f-a"]


def test_a_dependant_of_any_with_one_target_tells_it_too() -> None:
    world = flow("a", b=after("a", strategy="any")).with_jobs(a="Running").settled()
    assert world.with_jobs(b="Running").without_jobs("a").plan().phases["a"] == "Completed"


def test_a_dependant_that_the_status_knows_tells_nothing() -> None:
    """Its own status would have told the end as well."""
    world = flow("a", b="a").with_jobs(a="Running", b="Running").settled().without_jobs("a")
    assert world.plan().job_reads == ["f-a"]
