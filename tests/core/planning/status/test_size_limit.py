"""The size limit of a status: what is dropped, and in which order."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.job import Job, TaskState
from jobflow.api.jobflow import Step
from jobflow.api.pod import Pod
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import least_status
from jobflow.core.admission.validate import Known
from jobflow.core.planning.status.size_limit import DROPS, LIMIT, fitted
from support.plan.plan_pods import pod_of
from support.plan.plan_world import NOW, World, after, job_status, world_of
from support.sandbox.containers import ended, outlined, with_containers


def large(steps: int, phase: str, *, name: str = "f", width: int = 1) -> World:
    """A flow whose steps all are in one phase, with task counts and full histories."""
    names = [f"s{n:04}".ljust(width, "s") for n in range(steps)]
    world = world_of([Step(name=step) for step in names], name=name)
    tasks = {f"task-{n}": TaskState(phase={"Succeeded": 10, "Failed": 3}) for n in range(4)}
    status = msgspec.structs.replace(
        job_status(phase, NOW + timedelta(hours=1)), task_status_count=tasks, running_duration="3s"
    )
    jobs: dict[str, Job] = {}
    pods: dict[str, dict[str, Pod]] = {}
    for step in names:
        job = outlined(world.job(step, phase), "task-0", cpu="1", memory="1Gi")
        job = msgspec.structs.replace(job, status=status)
        jobs[job.metadata.name] = job
        if phase in ("Failed", "Completed") and len(pods) < 2000:
            pod = pod_of(job, "task-0", 0, "Failed" if phase == "Failed" else "Succeeded")
            how = ended(3 if phase == "Failed" else 0, message='{"n":1}')
            pods[job.metadata.uid] = {pod.metadata.name: with_containers(pod, how, node="n1")}
    return World(world.flow, world.templates, jobs, pods=pods)


def size(status: JobFlowStatus) -> int:
    return len(msgspec.json.encode(status))


def mixed() -> World:
    """Twenty failed steps, twenty running ones and one that waits, with all there is to tell."""
    world = large(40, "Running")
    names = [step.name for step in world.flow.steps]
    last = Step(name="last", depends_on=after(" ".join(names), condition="Finished"))
    world = replace(world, flow=world_of([*world.flow.steps, last]).flow)
    failed = large(40, "Failed")
    names = sorted(world.jobs)[:20]
    jobs = {**world.jobs, **{name: failed.jobs[name] for name in names}}
    return replace(world, jobs=jobs, pods=failed.pods)


def what_is_left(status: JobFlowStatus) -> dict[str, int]:
    """How many conditions and records still have what may be dropped."""
    conditions = list((status.conditions or {}).values())
    records = status.job_status_list or []
    return {
        "histories": sum(len(r.running_histories or ()) for r in records),
        "counts": sum(c.task_status_count is not None for c in conditions),
        "messages": sum(bool(c.message) for c in conditions),
        "times": sum((c.create_time is not None) + bool(c.running_duration) for c in conditions),
        "records": len(records),
        "since": sum(c.last_transition_time is not None for c in conditions),
        "hours": sum(c.requested_hours is not None for c in conditions),
        "failures": sum(c.failure is not None for c in conditions),
        "ratios": int(bool(status.pod_failure_ratio)),
        "next": len(status.next_jobs or ()),
    }


FULL = {
    "histories": 20 * 3 + 20 * 2,
    "counts": 40,
    "messages": 21,
    "times": 80,
    "records": 40,
    "since": 41,
    "hours": 20,
    "failures": 20,
    "ratios": 1,
    "next": 1,
}
LEFT: list[dict[str, int]] = [
    {"histories": 40},
    {"since": 1},
    {"counts": 0, "ratios": 0},
    {"messages": 0},
    {"times": 40, "hours": 0, "failures": 0},
    {"histories": 20, "records": 20},
    {"since": 0},
]
"""The counts that each drop changes, in order."""


def test_a_status_below_the_limit_keeps_everything() -> None:
    status = mixed().plan().status
    assert size(status) < LIMIT
    assert what_is_left(status) == FULL


@pytest.mark.parametrize("exact", [False, True], ids=["a-byte-too-many", "exact"])
@pytest.mark.parametrize("dropped", range(1, len(LEFT) + 1))
def test_fields_are_dropped_in_order(
    monkeypatch: pytest.MonkeyPatch, dropped: int, exact: bool
) -> None:
    left: dict[str, int] = {}
    for less in LEFT[:dropped]:
        left |= less
    status = mixed().plan().status
    for drop in DROPS[:dropped]:
        limit, status = size(status) - 1, drop(status)
    limit = size(status) if exact else limit
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", limit)
    world = mixed()
    planned = world.plan()
    assert what_is_left(planned.status) == {**FULL, **left}
    assert planned.status.failed_jobs == sorted(world.jobs)[:20]
    assert {
        (c.phase, c.reason, c.attempts, str(c.outputs)) for c in planned.conditions.values()
    } == {
        ("Failed", "JobFailed", 1, "{'n': 1}"),
        ("Running", "", 1, "None"),
        ("Waiting", "", 0, "None"),
    }
    assert world.carried_out(planned).plan().nothing


@pytest.mark.no_cover
@pytest.mark.parametrize(("phase", "end"), [("Completed", "Succeed"), ("Aborted", "Failed")])
def test_five_thousand_steps_fit(phase: str, end: str) -> None:
    """With names of at most 20 characters they always stay under 1 MiB."""
    world = large(5000, phase, name="f" * 20, width=20)
    planned = world.plan()
    assert size(planned.status) < 1024 * 1024
    assert planned.phase == end
    conditions = (planned.status.conditions or {}).values()
    assert sum(c.outputs == {"n": 1} for c in conditions) == (2000 if end == "Succeed" else 0)
    assert all(c.phase and c.attempts == 1 and c.job for c in conditions)
    assert planned.status.job_status_list is None
    lists = planned.status.completed_jobs or planned.status.terminated_jobs
    assert len(lists or ()) == 5000


@pytest.mark.no_cover
def test_what_was_dropped_neither_comes_back_nor_is_needed() -> None:
    world = large(1400, "Completed")
    names = [step.name for step in world.flow.steps]
    steps = [*world.flow.steps, Step(name="last", depends_on=after(" ".join(names)))]
    world = World(world_of(steps).flow, world_of(steps).templates, world.jobs)
    planned = world.plan()
    assert planned.creates == ["f-last"]
    world = world.settled()
    assert world.later(50).plan().nothing
    world = world.without_jobs(*names)
    assert world.plan().nothing
    assert len(world.flow.status.completed_jobs or ()) == 1400
    assert world.run().flow.status.state.phase == "Succeed"


def test_a_status_that_cannot_be_made_small_is_as_small_as_it_gets() -> None:
    status = JobFlowStatus(running_jobs=["x" * 100] * 4000, job_status_list=None)
    assert fitted(status, JobFlowStatus()).running_jobs == status.running_jobs


def test_what_is_told_again_of_running_jobs_does_not_come_and_go() -> None:
    """Dropped once, it may fit beside what is left, now that much is gone for good."""
    world = large(1000, "Running")
    planned = world.plan()
    assert what_is_left(planned.status)["counts"] == 0
    ended = large(1000, "Completed").jobs
    names = sorted(world.jobs)[:-1]
    world = replace(world, jobs={**world.jobs, **{name: ended[name] for name in names}})
    planned = world.plan()
    assert what_is_left(planned.status)["counts"] == 0
    world = world.carried_out(planned)
    assert world.plan().nothing
    assert world.plan().status is world.flow.status


@pytest.mark.no_cover
def test_five_thousand_jobs_at_once_fit_and_stand_still() -> None:
    """Data that the jobs still have may be dropped too, because the next plan reads it again."""
    world = large(5000, "Running", name="f" * 20, width=20)
    planned = world.plan()
    assert size(planned.status) < 1024 * 1024
    assert planned.status.job_status_list is None
    world = world.carried_out(planned)
    assert world.plan().nothing
    ended = large(5000, "Completed", name="f" * 20, width=20).jobs
    assert replace(world, jobs=ended).plan().phase == "Succeed"
    lost = sorted(world.jobs)[0]
    left = {name: job for name, job in world.jobs.items() if name != lost}
    assert replace(world, jobs=left).plan().job_reads == [lost]


def test_steps_that_all_run_again_fit_and_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow was retried: each has a job from before and one that runs."""
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.MOST", 0)
    world = large(100, "Failed").stored()
    room = least_status(FlowFacts(world.flow, Known()))
    assert world.flow.final
    world = world.with_command("RestartJob").stored()
    assert size(world.plan().status) < room
    first = list(world.jobs)
    again = [f"{name}-r1" for name in first]
    world = world.with_missing(*again).carried_out()
    assert sorted(world.jobs) == sorted([*first, *again])
    for name in again:
        world = world.ended(name, "Running")
    world = world.carried_out()
    planned = world.plan()
    assert size(planned.status) < room
    assert planned.nothing
    assert (planned.status.running_jobs, planned.status.failed_jobs) == (again, None)
    left = {name: world.jobs[name] for name in world.jobs if name != again[0]}
    assert replace(world, jobs=left, missing=frozenset()).plan().job_reads == [again[0]]
