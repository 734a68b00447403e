"""The status of a flow: Volcano's fields, histories, events, and no needless changes."""

from datetime import datetime, timedelta
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from jobflow.api.flow.status import FlowState, JobFlowStatus, JobRunningHistory
from jobflow.api.volcano.job import JobCondition, JobState, JobStatus, TaskState
from support.plan.plan_world import Planned, World, after, flow
from support.plan.world_state import NOW


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def stored(planned: Planned) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(planned.status))
    return found


def test_the_first_plan_sets_a_condition_for_each_step() -> None:
    planned = flow("a", b="a").plan()
    assert stored(planned) == {
        "state": {"phase": "Pending"},
        "progress": "0/2",
        "startTime": "2026-01-01T12:00:00Z",
        "duration": "0s",
        "observedGeneration": 1,
        "conditions": {
            "f-a": {
                "phase": "Waiting",
                "reason": "Starting",
                "message": "the job f-a is being created",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            },
            "f-b": {
                "phase": "Waiting",
                "message": "waits for a (Waiting)",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            },
        },
        "nextJobs": ["f-b"],
    }


def test_the_duration_changes_with_other_fields_and_is_exact_at_the_end() -> None:
    world = flow("a", b="a").settled().later(1).ended("f-a", "Running").settled()
    assert world.flow.status.duration == "1s"
    world = world.later(3600)
    assert world.plan().nothing
    world = world.ended("f-a", "Completed").settled()
    assert world.flow.status.duration == "1h0m1s"
    world = world.later(62).ended("f-b", "Completed").stored().later(500)
    assert world.flow.status.duration == "1h1m3s"
    assert world.plan().nothing


def test_the_duration_of_a_retried_flow_starts_at_the_retry() -> None:
    world = flow("a").settled().later(30).ended("f-a", "Failed").settled()
    assert world.flow.status.duration == "30s"
    world = world.later(100).with_command("RestartJob").settled().later(5)
    assert world.run().flow.status.duration == "6s"


def test_a_finished_flow_has_a_complete_status() -> None:
    world = flow("a").settled().later(1).ended("f-a", "Running").settled()
    world = world.later(2).ended("f-a", "Completed")
    assert stored(world.plan()) == {
        "state": {"phase": "Succeed"},
        "progress": "1/1",
        "startTime": "2026-01-01T12:00:00Z",
        "completionTime": "2026-01-01T12:00:03Z",
        "duration": "3s",
        "observedGeneration": 1,
        "conditions": {
            "f-a": {
                "phase": "Completed",
                "createTime": "2026-01-01T12:00:00Z",
                "runningDuration": "3s",
                "taskStatusCount": {"t": {"phase": {"Running": 1}}},
                "job": "f-a",
                "fingerprint": ANY,
                "attempts": 1,
                "lastTransitionTime": "2026-01-01T12:00:03Z",
            }
        },
        "podFailureRatio": "0.00",
        "jobStatusList": [
            {
                "name": "f-a",
                "state": "Completed",
                "startTimestamp": "2026-01-01T12:00:00Z",
                "endTimestamp": "2026-01-01T12:00:03Z",
                "runningHistories": [
                    {
                        "state": "Pending",
                        "startTimestamp": "2026-01-01T12:00:00Z",
                        "endTimestamp": "2026-01-01T12:00:01Z",
                    },
                    {
                        "state": "Running",
                        "startTimestamp": "2026-01-01T12:00:01Z",
                        "endTimestamp": "2026-01-01T12:00:03Z",
                    },
                    {"state": "Completed", "startTimestamp": "2026-01-01T12:00:03Z"},
                ],
            }
        ],
        "completedJobs": ["f-a"],
    }


def test_an_unchanged_status_is_the_stored_object() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled()
    assert world.later(100).plan().status is world.flow.status


def test_timestamps_are_whole_seconds() -> None:
    world = flow("a").later(0.75)
    assert world.plan().status.start_time == NOW
    world = world.with_refusal("a", 403, retry_in=0.5)
    assert world.plan().conditions["a"].next_attempt_time == at(2)


def test_the_duration_from_volcano_is_copied() -> None:
    world = flow("a").with_jobs(a="Completed")
    planned = world.with_job_status("f-a", running_duration="4.023034901s").plan()
    assert planned.conditions["a"].running_duration == "4.023034901s"


def test_task_counts_are_kept_while_volcano_reports_none() -> None:
    world = flow("a").with_jobs(a="Running").settled().with_jobs(a="Completing")
    kept = {"t": TaskState(phase={"Running": 1})}
    assert world.plan().conditions["a"].task_status_count == kept
    again = world.settled().with_job(world.job("a", "Pending", run=1))
    assert again.plan().conditions["a"].task_status_count is None


@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("", "pending_jobs"),
        ("Pending", "pending_jobs"),
        ("Running", "running_jobs"),
        ("Restarting", "running_jobs"),
        ("Completing", "completed_jobs"),
        ("Completed", "completed_jobs"),
        ("Terminating", "terminated_jobs"),
        ("Terminated", "terminated_jobs"),
        ("Aborting", "terminated_jobs"),
        ("Aborted", "terminated_jobs"),
        ("Failed", "failed_jobs"),
        ("Dreaming", "un_know_jobs"),
    ],
)
def test_a_job_is_in_the_list_of_its_phase(phase: str, field: str) -> None:
    status = flow("a").with_jobs(a=phase).plan().status
    fields = [name for name in JobFlowStatus.__struct_fields__ if name.endswith("_jobs")]
    assert {name: getattr(status, name) for name in fields if getattr(status, name)} == {
        field: ["f-a"]
    }


def test_lists_have_the_order_of_the_spec_and_only_jobs_that_existed() -> None:
    world = flow("z", "b", "a", c=after("a", condition="Failed"), d="z")
    planned = world.with_jobs(a="Completed", b="Completed", z="Completed").plan()
    assert planned.status.completed_jobs == ["f-z", "f-b", "f-a"]
    assert [record.name for record in planned.status.job_status_list or []] == ["f-z", "f-b", "f-a"]


def test_earlier_attempts_are_listed_beside_the_current_one() -> None:
    world = flow("a", "b").with_jobs(a="Running", b="Running").settled().without_jobs("a")
    world = world.with_missing("f-a").stored().later(1).settled()
    names = [record.name for record in world.flow.status.job_status_list or []]
    assert names == ["f-a", "f-a-r1", "f-b"]
    world = world.later(1).ended("f-a-r1", "Completed").settled()
    assert world.flow.status.completed_jobs == ["f-a-r1"]
    assert world.flow.status.un_know_jobs == ["f-a"]


def histories(world: World, name: str = "f-a") -> list[tuple[str, float, float | None]]:
    """(state, from, to) of a record, in seconds since NOW."""
    return [
        (
            entry.state,
            (entry.start_timestamp - NOW).total_seconds() if entry.start_timestamp else -1,
            (entry.end_timestamp - NOW).total_seconds() if entry.end_timestamp else None,
        )
        for entry in world.records[name].running_histories or []
    ]


def with_conditions(world: World, *phases: tuple[str, float], retries: int = 0) -> World:
    conditions = [JobCondition(status=p, last_transition_time=at(s)) for p, s in phases]
    job = world.job("a", "Pending")
    status = JobStatus(
        state=JobState(phase=phases[-1][0], last_transition_time=at(phases[-1][1])),
        conditions=conditions,
        retry_count=retries or None,
    )
    return world.with_job(msgspec.structs.replace(job, status=status))


def test_a_new_job_is_pending_since_its_creation() -> None:
    world = flow("a").with_jobs(a="").settled()
    assert histories(world) == [("Pending", 0, None)]
    seen = with_conditions(world, ("Pending", 2))
    assert seen.plan().nothing  # the first phase from Volcano changes nothing


@pytest.mark.parametrize(
    ("observed", "restarts", "expected"),
    [
        # A plan misses phases, and Volcano's conditions still have them.
        (["Pending 1 Running 2 Failed 5"], 0, "Pending 0 Running 2 Failed 5"),
        # Recorded times do not change.
        (
            ["Pending 1 Running 2", "Pending 3 Running 4 Completing 6"],
            0,
            "Pending 0 Running 2 Completing 6",
        ),
        # Volcano's conditions have each phase once, with its last time.
        (
            [
                "Pending 1 Running 2",
                "Running 2 Restarting 5 Pending 6",
                "Restarting 5 Pending 6 Running 7",
            ],
            0,
            "Pending 0 Running 2 Restarting 5 Pending 6 Running 7",
        ),
        # A plan misses a whole restart: the phases are those of the restart before it.
        (
            [
                "Pending 1 Running 2",
                "Running 2 Restarting 5 Pending 6",
                "Running 8 Restarting 9 Pending 10",
            ],
            2,
            "Pending 0 Running 2 Restarting 5 Pending 6 Running 8 Restarting 9 Pending 10",
        ),
        (
            ["Pending 0 Running 1", "Pending 0 Running 1 Restarting 2 Pending 3 Running 4"],
            1,
            "Pending 0 Running 1 Restarting 2 Pending 3 Running 4",
        ),
    ],
)
def test_a_job_has_these_histories(observed: list[str], restarts: int, expected: str) -> None:
    world = flow("a")
    for number, text in enumerate(observed):
        retries = max(0, restarts - (len(observed) - 1 - number))
        world = with_conditions(world, *timed_phases(text), retries=retries).settled()
    phases = timed_phases(expected)
    ends = [*(start for _, start in phases[1:]), None]
    assert histories(world) == [
        (phase, start, end) for (phase, start), end in zip(phases, ends, strict=True)
    ]
    assert world.records["f-a"].restart_count == restarts


def timed_phases(text: str) -> list[tuple[str, float]]:
    """Phases and seconds: `Pending 0 Running 2`."""
    words = text.split()
    return [(phase, float(at)) for phase, at in zip(words[::2], words[1::2], strict=True)]


def test_a_job_that_another_step_names_keeps_its_own_phase() -> None:
    """Another client wrote the status: b names the job of a, which runs."""
    world = flow("a", "b").with_jobs(a="Running", b="Failed").settled()
    failed = msgspec.structs.replace(world.plan().conditions["b"], job="f-a")
    conditions = {**(world.flow.status.conditions or {}), "f-b": failed}
    world = world.without_jobs("b")
    world = world.with_status_fields(conditions=conditions)
    assert world.stored().plan().status == world.plan().status
    assert world.settled().records["f-a"].state == "Running"


def test_without_conditions_the_observed_phases_are_recorded() -> None:
    world = flow("a").with_jobs(a="Pending").settled()
    job = world.jobs["f-a"]
    for seconds, phase in ((2, "Running"), (5, "Completed")):
        status = JobStatus(state=JobState(phase=phase, last_transition_time=at(seconds)))
        world = world.with_job(msgspec.structs.replace(job, status=status)).settled()
    assert histories(world) == [("Pending", 0, 2), ("Running", 2, 5), ("Completed", 5, None)]


def test_a_phase_without_a_time_starts_now() -> None:
    world = flow("a").with_jobs(a="Pending").settled().later(3)
    status = JobStatus(state=JobState(phase="Completed"))
    world = world.with_job(msgspec.structs.replace(world.jobs["f-a"], status=status)).settled()
    assert histories(world) == [("Pending", 0, 3), ("Completed", 3, None)]
    assert world.records["f-a"].end_timestamp == at(3)
    assert world.later(9).plan().nothing


def test_restarts_are_counted_and_the_last_ten_phases_are_kept() -> None:
    phases = [("Pending", 0.0)]
    for n in range(4):
        phases += [("Running", 3.0 * n + 1), ("Restarting", 3.0 * n + 2), ("Pending", 3.0 * n + 3)]
    world = with_conditions(flow("a"), *phases, retries=4).settled()
    assert world.records["f-a"].restart_count == 4
    assert len(histories(world)) == 10
    assert histories(world)[-1] == ("Pending", 12, None)
    world = with_conditions(world, *phases, ("Running", 20), retries=4).settled()
    assert histories(world)[-2:] == [("Pending", 12, 20), ("Running", 20, None)]
    assert len(histories(world)) == 10


def test_the_last_history_continues_after_the_others_were_dropped() -> None:
    """The others were dropped because of the size of the status."""
    world = with_conditions(flow("a"), ("Pending", 1), ("Running", 2)).settled()
    record = world.records["f-a"]
    last = msgspec.structs.replace(record, running_histories=record.running_histories[-1:])
    status = msgspec.structs.replace(world.flow.status, job_status_list=[last])
    seen = (("Pending", 1), ("Running", 2), ("Completing", 4))
    world = with_conditions(world.with_status(status), *seen).settled()
    assert histories(world) == [("Running", 2, 4), ("Completing", 4, None)]


@pytest.mark.parametrize("recorded", [None, [JobRunningHistory(state="Pending")]])
def test_the_current_phase_is_added_to_a_record_without_it(
    recorded: list[JobRunningHistory] | None,
) -> None:
    world = flow("a").with_jobs(a="Running").settled()
    record = msgspec.structs.replace(world.records["f-a"], running_histories=recorded)
    world = world.with_status_fields(job_status_list=[record]).settled()
    assert [state for state, _, _ in histories(world)] == ["Pending", "Running"]


def test_a_resumed_job_has_no_end() -> None:
    world = flow("a", "b").with_jobs(a="Aborted", b="Running").settled()
    assert world.records["f-a"].end_timestamp is not None
    assert world.with_jobs(a="Running").settled().records["f-a"].end_timestamp is None


def test_a_lost_job_that_exists_after_all_has_no_end() -> None:
    world = flow("a").with_jobs(a="Running").settled()
    lost = world.without_jobs("a").with_missing("f-a").stored()
    assert lost.records["f-a"].end_timestamp is not None
    back = lost.with_job(world.jobs["f-a"]).settled()
    assert back.records["f-a"].end_timestamp is None
    assert back.flow.status.running_jobs == ["f-a"]


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("", "Pending"), ("Pending", "Pending"), ("Running", "Running"), ("Restarting", "Running")],
)
def test_a_flow_is_pending_until_a_job_runs(phase: str, expected: str) -> None:
    assert flow("a", b="a").with_jobs(a=phase).plan().phase == expected


def test_a_flow_that_volcano_started_has_its_creation_as_start_time() -> None:
    world = flow("a").with_status(JobFlowStatus(state=FlowState(phase="Running"))).later(60)
    assert world.plan().status.start_time == NOW


def test_each_step_has_at_most_three_different_events() -> None:
    world = flow("a", b="a", c=after("a", condition="Failed"))
    events: list[str] = []
    while not world.flow.final:
        planned = world.plan()
        events += planned.events
        world = world.apply(planned)
        if planned.nothing:
            world = world.later(1)
            for name, job in world.jobs.items():
                world = world.ended(name, "Completed") if not job.ended else world
    assert sorted(events) == sorted(
        ["JobCreated", "StepCompleted"] * 2 + ["StepSkipped", "FlowSucceeded"]
    )


def test_one_event_names_all_skipped_steps() -> None:
    world = flow("a", **{f"s{n}": "a" for n in range(1000)}).with_jobs(a="Failed")
    events = world.plan().plan.events
    assert [e.message for e in events if e.reason == "StepSkipped"] == [
        "steps s0, s1, s2 and 997 more: UpstreamFailed"
    ]
