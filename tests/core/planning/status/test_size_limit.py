"""The size limit of a status: what is dropped, and in which order."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import Job, TaskState
from jobflow.api.volcano.pod import Pod
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import least_status
from jobflow.core.admission.validate import Known
from jobflow.core.planning.status.size_limit import DROPS, LIMIT, fitted
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, after, world_of
from support.plan.world_state import NOW, job_status
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
            container = ended(3 if phase == "Failed" else 0, message='{"n":1}')
            pods[job.metadata.uid] = {pod.metadata.name: with_containers(pod, container, node="n1")}
    return World(world.flow, world.templates, jobs, pods=pods)


def size(status: JobFlowStatus) -> int:
    return len(msgspec.json.encode(status))


def mixed() -> World:
    """Ten failed and ten completed steps, twenty running ones and one that waits, with all optional
    fields."""
    world = large(40, "Running")
    names = [step.name for step in world.flow.steps]
    last = Step(name="last", depends_on=after(" ".join(names), condition="Finished"))
    world = replace(world, flow=world_of([*world.flow.steps, last]).flow)
    failed, completed, names = large(10, "Failed"), large(20, "Completed"), sorted(world.jobs)
    ended = {**completed.jobs, **failed.jobs}
    jobs = {**world.jobs, **{name: ended[name] for name in names[:20]}}
    return replace(world, jobs=jobs, pods={**completed.pods, **failed.pods})


def remaining_fields(status: JobFlowStatus) -> dict[str, int]:
    """How many conditions and records still have each field that may be dropped."""
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
    "failures": 10,
    "ratios": 1,
    "next": 1,
}
REMAINING: list[dict[str, int]] = [
    {"histories": 40},
    {"since": 1},
    {"counts": 0, "ratios": 0},
    {"messages": 10},
    {"times": 60, "hours": 10},
    {"times": 40, "hours": 0},
    {"histories": 20, "records": 20},
    {"since": 0},
]
"""The counts that each drop but the last changes, in order."""


def test_a_status_below_the_limit_keeps_everything() -> None:
    status = mixed().plan().status
    assert size(status) < LIMIT
    assert remaining_fields(status) == FULL


@pytest.mark.parametrize("exact", [False, True], ids=["a-byte-too-many", "exact"])
@pytest.mark.parametrize("dropped", range(1, len(REMAINING) + 1))
def test_fields_are_dropped_in_order(
    monkeypatch: pytest.MonkeyPatch, dropped: int, exact: bool
) -> None:
    changes: dict[str, int] = {}
    for change in REMAINING[:dropped]:
        changes |= change
    status = mixed().plan().status
    for drop in DROPS[:dropped]:
        limit, status = size(status) - 1, drop(status, {})
    limit = size(status) if exact else limit
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", limit)
    world = mixed()
    planned = world.plan()
    assert remaining_fields(planned.status) == {**FULL, **changes}
    assert planned.status.failed_jobs == sorted(world.jobs)[:10]
    assert {
        (c.phase, c.reason, c.attempts, str(c.outputs)) for c in planned.conditions.values()
    } == {
        ("Failed", "JobFailed", 1, "{'n': 1}"),
        ("Completed", "", 1, "{'n': 1}"),
        ("Running", "", 1, "None"),
        ("Waiting", "", 0, "None"),
    }
    assert world.apply(planned).plan().nothing


def with_items(items: int, *failed: int) -> World:
    """A step whose items have completed but those that failed, after which `last` runs."""
    each = Step(name="a", for_each=ForEach(count=items))
    last = Step(name="last", depends_on=after("a", condition="Finished"))
    world = world_of([each, last]).with_spec(failure_policy="Continue").settled()
    for index in range(items):
        world = world.ended(f"f-a-{index}", "Failed" if index in failed else "Completed")
    return world.settled()


def causes(status: JobFlowStatus) -> list[int | None]:
    """Return the indexes of the items that still say why they failed."""
    runs = (status.conditions or {})["f-a"].runs or []
    return [run.index for run in runs if run.message]


@pytest.mark.parametrize("limit", [LIMIT, 60_000, 0], ids=["fits", "dropped", "far too large"])
def test_the_causes_of_a_few_failures_among_many_items_stay(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", limit)
    world = with_items(300, 3, 141, 159)
    status = world.flow.status
    assert causes(status) == [3, 141, 159]
    records = len(status.job_status_list or ())
    assert records == (301 if limit == LIMIT else 1), "less important parts go first"
    assert world.plan().nothing


def test_as_many_causes_stay_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    base = with_items(200, *range(100)).flow.status
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.ROOM_FOR_CAUSES", 2_000)
    status = fitted(base, JobFlowStatus())
    kept = causes(status)
    assert 0 < len(kept) < 100
    assert kept == [*range(len(kept))], "the first ones"
    assert (status.conditions or {})["f-a"].message, "flow.failures reads it"


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize(("phase", "end"), [("Completed", "Succeed"), ("Aborted", "Failed")])
def test_five_thousand_steps_fit(phase: str, end: str) -> None:
    """With names of at most 20 characters, the status always stays under 1 MiB."""
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


@pytest.mark.long
@pytest.mark.no_cover
def test_dropped_fields_do_not_return_and_are_not_needed() -> None:
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


def test_lists_that_cannot_be_dropped_are_kept_above_the_limit() -> None:
    status = JobFlowStatus(running_jobs=["x" * 100] * 4000, job_status_list=None)
    assert fitted(status, JobFlowStatus()).running_jobs == status.running_jobs


def test_fields_of_running_jobs_do_not_reappear_after_a_drop() -> None:
    """The counts would fit again after other fields were dropped for good."""
    world = large(1000, "Running")
    planned = world.plan()
    assert remaining_fields(planned.status)["counts"] == 0
    ended = large(1000, "Completed").jobs
    names = sorted(world.jobs)[:-1]
    world = replace(world, jobs={**world.jobs, **{name: ended[name] for name in names}})
    planned = world.plan()
    assert remaining_fields(planned.status)["counts"] == 0
    world = world.apply(planned)
    assert world.plan().nothing
    assert world.plan().status is world.flow.status


@pytest.mark.long
@pytest.mark.no_cover
def test_a_status_with_five_thousand_running_jobs_fits_and_settles() -> None:
    """Data that the jobs still have may be dropped too, because the next plan reads it again."""
    world = large(5000, "Running", name="f" * 20, width=20)
    planned = world.plan()
    assert size(planned.status) < 1024 * 1024
    assert planned.status.job_status_list is None
    world = world.apply(planned)
    assert world.plan().nothing
    ended = large(5000, "Completed", name="f" * 20, width=20).jobs
    assert replace(world, jobs=ended).plan().phase == "Succeed"
    lost = sorted(world.jobs)[0]
    remaining = {name: job for name, job in world.jobs.items() if name != lost}
    assert replace(world, jobs=remaining).plan().job_reads == [lost]


def test_a_status_with_all_steps_retried_fits_and_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow was retried: each step has an earlier job and one that runs."""
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.MOST", 0)
    world = large(100, "Failed").stored()
    room = least_status(FlowFacts(world.flow, Known()))
    assert world.flow.final
    world = world.with_command("RestartJob").stored()
    assert size(world.plan().status) < room
    first = list(world.jobs)
    again = [f"{name}-r1" for name in first]
    world = world.with_missing(*again).apply()
    assert sorted(world.jobs) == sorted([*first, *again])
    for name in again:
        world = world.ended(name, "Running")
    world = world.apply()
    planned = world.plan()
    assert size(planned.status) < room
    assert planned.nothing
    assert (planned.status.running_jobs, planned.status.failed_jobs) == (again, None)
    remaining = {name: world.jobs[name] for name in world.jobs if name != again[0]}
    assert replace(world, jobs=remaining, missing=frozenset()).plan().job_reads == [again[0]]
