"""Each invariant finds what violates it."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from chaos.invariants import (
    flows_succeed,
    no_completed_step_again,
    no_run_twice,
    one_leader_writes,
    statuses_agree,
)
from chaos.records import Attempt, Records, Run
from chaos.run import LANES
from chaos.schedule import draw
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus, JobRecord
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job, JobState, JobStatus
from support.cluster.audit import Asked

FIRST = Attempt("f-a", Run("u", "a", ""), "f", seen_at=1.0, completed_at=3.0, gone_at=3.0)
FLOW = JobFlow(
    metadata=ObjectMeta(name="f", uid="u"),
    status=JobFlowStatus(
        state=FlowState(phase="Succeed"),
        job_status_list=[JobRecord(name="f-a", state="Completed")],
    ),
)


def records(second: Attempt) -> Records:
    return Records({"1": FIRST, "2": second})


def test_an_attempt_beside_another_one_is_a_violation() -> None:
    beside = replace(FIRST, name="f-a-r1", seen_at=2.0)
    assert len(list(no_run_twice(records(beside)))) == 1
    assert not list(no_run_twice(records(replace(beside, seen_at=3.1))))
    assert not list(no_run_twice(records(replace(beside, run=Run("u", "b", "")))))


def test_an_attempt_after_a_completed_one_is_a_violation_unless_the_flow_is_retried() -> None:
    found = records(replace(FIRST, name="f-a-r1", seen_at=4.0))
    assert len(list(no_completed_step_again(found))) == 1
    found.retried_at["f"].append(3.5)
    assert not list(no_completed_step_again(found))


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_job_that_ended_otherwise_than_its_flow_says_is_a_violation(phase: str) -> None:
    job = Job(metadata=ObjectMeta(name="f-a"), status=JobStatus(state=JobState(phase=phase)))
    assert list(statuses_agree([FLOW], {"f-a": job}))


def test_only_a_cancelled_flow_may_fail() -> None:
    failed = JobFlow(metadata=FLOW.metadata)
    assert list(flows_succeed([failed], [], Records()))
    assert not list(flows_succeed([failed], [], Records(cancelled={"f"})))


def test_a_write_after_the_claim_of_the_other_replica_is_a_violation() -> None:
    def call(user: str, resource: str, second: int) -> Asked:
        came = datetime(2026, 1, 1) + timedelta(seconds=second)
        answered = came + timedelta(seconds=0.5)
        return Asked(user, "update", resource, "", "ns", "x", 200, "/", came, answered)

    turns = [call("one", "leases", 1), call("one", "jobs", 2), call("other", "leases", 3)]
    assert not list(one_leader_writes([*turns, call("other", "jobs", 4)]))
    assert len(list(one_leader_writes([*turns, call("one", "jobs", 4)]))) == 1


def test_a_seed_gives_the_same_schedule_again_with_every_kind() -> None:
    schedule = [str(event) for event in draw(7, 600.0, LANES)]
    assert schedule == [str(event) for event in draw(7, 600.0, LANES)]
    for name, lane in LANES.items():
        for kind in lane.kinds:
            assert any(f"{name}: {kind.name}" in line for line in schedule)
