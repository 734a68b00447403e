"""The end of a run: its failure, outputs, requested hours and pod counts."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api.flow.status import RequestedHours, StepFailure
from jobflow.api.volcano.job import JobCondition, JobState, JobStatus, TaskState
from jobflow.api.volcano.pod import ContainerStatus, Pod
from jobflow.core.limits import MAX_FLOW_OUTPUTS
from jobflow.core.planning.observed.view import PodsRead
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, after, flow
from support.plan.steps import step
from support.plan.world_state import NOW
from support.sandbox.containers import ended, outlined, running, with_containers

TASKS = ("ps=1", "worker=2")


def with_job(
    world: World,
    step: str,
    phase: str,
    *pods: tuple[str, int, str, ContainerStatus],
    watched: bool = True,
    counts: Mapping[str, TaskState] | None = None,
    **requests: object,
) -> World:
    """A step's vcjob in a phase, with pods (task, index, phase, first container)."""
    job = outlined(world.job(step, phase), *TASKS, **requests)
    if counts is not None:
        status = msgspec.structs.replace(job.status, task_status_count=dict(counts))
        job = msgspec.structs.replace(job, status=status)
    pod_list = [with_containers(pod_of(job, t, n, p), c, node="n1") for t, n, p, c in pods]
    found: dict[str, Pod] = {pod.metadata.name: pod for pod in pod_list}
    uid = job.metadata.uid
    world = replace(world.with_job(job), live={**world.live, uid: found})
    return replace(world, pods={**world.pods, uid: found}) if watched else world


def running_flow() -> World:
    """A flow whose step `a` runs, also according to its status."""
    return with_job(flow("a", b="a"), "a", "Running").settled()


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
def test_no_step_starts_while_the_reason_of_a_failure_is_read(phase: str) -> None:
    world = flow("a", "b", c="b", d=after("a", condition="Finished"))
    world = world.with_jobs(a="Running", b="Running").settled()
    world = replace(world, failed_pods_read=False).with_jobs(a=phase, b="Completed")
    planned = world.plan()
    assert (planned.reads, planned.creates) == (["f-a"], [])
    assert planned.waiting["c"] == "waits until it is known how a ended"
    planned = world.apply(planned).plan()
    assert (planned.skipped, planned.creates) == ({"c": "Stopped"}, ["f-d"])


def test_a_watched_pod_shows_why_its_job_failed() -> None:
    world = with_job(running_flow(), "a", "Failed", ("worker", 1, "Failed", ended(3)))
    planned = world.plan()
    assert planned.reads == []
    assert planned.conditions["a"].failure == StepFailure(
        task="worker", pod="f-a-worker-1", container="c", exit_code=3, reason="Error", node="n1"
    )
    message = (
        "the job f-a ended Failed: pod f-a-worker-1 (task worker): exit code 3 (Error) on node n1"
    )
    assert planned.conditions["a"].message == message
    assert planned.message == f"step a failed: {message}"
    assert f"step a: {message}" in [event.message for event in planned.plan.events]


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
def test_unwatched_pods_are_read_once_before_the_end_is_recorded(phase: str) -> None:
    before = running_flow()
    world = with_job(before, "a", phase, ("worker", 0, "Failed", ended(9)), watched=False)
    planned = world.plan()
    assert planned.reads == ["f-a"]
    assert planned.conditions["a"] == before.plan().conditions["a"]
    assert planned.status.job_status_list == before.flow.status.job_status_list
    assert planned.phases["b"] == "Waiting"
    assert not planned.plan.events
    again = world.apply(planned).plan()
    assert again.reads == []
    assert again.failed == {"a": f"Job{phase}"}
    assert again.conditions["a"].failure is not None
    assert again.status.job_status_list is not None
    assert again.status.job_status_list[0].state == phase


def test_a_step_whose_first_known_phase_is_its_end_is_running() -> None:
    world = with_job(flow("a", b="a"), "a", "Failed", watched=False)
    planned = world.plan()
    assert planned.reads == ["f-a"]
    condition = planned.conditions["a"]
    assert (condition.phase, condition.job, condition.attempts) == ("Running", "f-a", 1)
    assert planned.status.running_jobs == ["f-a"]
    assert planned.phase == "Running"
    waiting = world.with_status(planned.status)
    assert waiting.plan().status is waiting.flow.status
    assert waiting.settled().plan().failed == {"a": "JobFailed"}


def test_a_step_whose_pods_are_being_read_keeps_its_end_without_the_job() -> None:
    """The ttl of its template may delete the job, but its end stays known until it is stored."""
    world = with_job(running_flow(), "a", "Failed", watched=False)
    world = world.with_status(world.plan().status).with_deleted("a")
    assert world.settled().plan().failed == {"a": "JobFailed"}
    assert world.plan().job_reads == []


def test_an_end_is_stored_without_pods_that_cannot_be_read() -> None:
    world = with_job(running_flow(), "a", "Failed", watched=False)
    uid = world.jobs["f-a"].metadata.uid
    planned = replace(world, read={uid: PodsRead(trouble="forbidden")}).plan()
    assert planned.reads == []
    assert planned.conditions["a"].failure is None
    assert planned.conditions["a"].message == "the job f-a ended Failed"


def test_a_running_pod_that_failed_once_is_read_again() -> None:
    world = with_job(running_flow(), "a", "Failed", ("ps", 0, "Running", ended(1)))
    assert world.plan().reads == ["f-a"]
    found = world.settled().plan().conditions["a"].failure
    assert found is not None
    assert found.pod == "f-a-ps-0"


def test_watched_outputs_of_an_aborted_job_are_kept() -> None:
    """No pods are read, although an expression uses the outputs."""
    pod = ("ps", 0, "Failed", ended(143, message='{"epoch": 7}'))
    world = flow("a", b="a").with_finally(z=step(when='steps["a"].outputs.epoch > 6'))
    world = with_job(world, "a", "Running").settled().cancelled()
    planned = with_job(world, "a", "Aborted", pod).plan()
    assert planned.reads == []
    assert planned.failed == {"a": "Cancelled"}
    assert planned.conditions["a"].outputs == {"epoch": 7}
    gone = with_job(world, "a", "Aborted", pod)
    gone = replace(gone, pods={}, gone_pods=gone.pods)
    assert gone.plan().conditions["a"].outputs == {"epoch": 7}, "deleted with its job's abort"
    unseen = with_job(world, "a", "Aborted", pod, watched=False).plan()
    assert unseen.reads == []
    assert unseen.failed == {"a": "Cancelled"}
    assert unseen.conditions["a"].outputs is None


def test_a_daemon_completes_even_if_its_outputs_are_too_large() -> None:
    world = with_job(flow("b", a=step(daemon=True)), "a", "Running")
    world = with_job(world, "b", "Completed").settled()
    pod = ("ps", 0, "Failed", ended(143, message="x" * 4096))
    condition = with_job(world, "a", "Aborted", pod).plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "DaemonEnded")
    assert condition.outputs is None
    assert "the outputs of a were cut at 4096 bytes" in condition.message


def test_a_stored_end_never_changes() -> None:
    world = with_job(running_flow(), "a", "Failed", ("worker", 0, "Failed", ended(9)), cpu="1")
    world = world.settled()
    kept = world.plan().conditions["a"]
    for pods in ((), (("worker", 0, "Failed", ended(1)),)):
        later = with_job(world.later(60), "a", "Failed", *pods, cpu="7")
        assert later.plan().conditions["a"] == kept


def completed(world: World, message: str, *, step: str = "a", phase: str = "Completed") -> World:
    pod = ("ps", 0, "Succeeded", ended(0, message=message))
    return with_job(world, step, phase, pod)


def test_outputs_are_recorded_with_the_end() -> None:
    planned = completed(running_flow(), '{"acc": 0.9}').plan()
    assert planned.conditions["a"].outputs == {"acc": 0.9}
    assert planned.phases["a"] == "Completed"
    assert planned.creates == ["f-b"]
    assert completed(running_flow(), "").plan().conditions["a"].outputs is None


def test_pods_are_not_read_for_outputs_if_no_pod_is_known() -> None:
    world = with_job(running_flow(), "a", "Completed")
    assert world.plan().reads == []
    assert world.plan().phases["a"] == "Completed"


def test_a_first_pod_that_has_not_ended_is_read() -> None:
    """The end of the job may be known before that of its pod."""
    world = with_job(running_flow(), "a", "Completed", ("ps", 0, "Running", running()))
    uid = world.jobs["f-a"].metadata.uid
    world = replace(world, live=completed(running_flow(), "done").live)
    planned = world.plan()
    assert planned.reads == ["f-a"]
    assert planned.phases["a"] == "Running"
    assert planned.creates == []
    planned = world.settled().plan()
    assert planned.conditions["a"].outputs == {"text": "done"}
    without_pods = replace(world, live={uid: {}}).settled().plan()
    assert without_pods.phases["a"] == "Completed"
    assert without_pods.conditions["a"].outputs is None


def test_outputs_that_are_too_large_fail_the_step() -> None:
    planned = completed(running_flow(), "x" * 4096).plan()
    assert planned.failed == {"a": "OutputsTooLarge"}
    assert planned.conditions["a"].message == (
        "the outputs of a were cut at 4096 bytes, the most that a termination message can have"
    )
    assert planned.conditions["a"].outputs is None
    assert planned.skipped == {"b": "UpstreamFailed"}
    assert planned.status.completed_jobs == ["f-a"]
    assert completed(running_flow(), "x" * 4096).settled().plan().nothing


def test_a_message_that_is_cut_in_a_pod_of_many_containers_fails_the_step() -> None:
    """The kubelet shares 12 KiB among them, init containers included."""
    world = completed(running_flow(), '{"a": "' + "x" * 3065)
    [(uid, pods)] = world.pods.items()
    [(name, pod)] = pods.items()
    first = (pod.status.container_statuses or [])[0]
    crowded = with_containers(pod, first, running("b"), running("c"), init=(running("i"),))
    planned = replace(world, pods={uid: {name: crowded}}).plan()
    assert planned.failed == {"a": "OutputsTooLarge"}
    assert planned.conditions["a"].message == (
        "the outputs of a were cut at 3072 bytes, the most that a termination message can have in "
        "a pod of 4 containers"
    )


def test_a_failed_job_keeps_its_reason_if_its_outputs_are_too_large() -> None:
    world = completed(running_flow(), "x" * 4096, phase="Failed").settled()
    condition = world.plan().conditions["a"]
    assert condition.reason == "JobFailed"
    assert condition.message == (
        "the job f-a ended Failed; the outputs of a were cut at 4096 bytes, the most that a "
        "termination message can have"
    )


def test_the_outputs_of_a_flow_have_a_common_limit() -> None:
    names = [f"s{n:02}" for n in range(20)]
    world = flow(*names)
    for name in names[:10]:
        world = completed(world, "x" * 3900, step=name)
    world = world.settled()
    for name in names[10:]:
        world = completed(world, "x" * 3900, step=name)
    planned = world.plan()
    fit = MAX_FLOW_OUTPUTS // (3900 + len('{"text":""}') + len('"outputs":,'))
    assert list(planned.failed) == names[fit:]
    assert set(planned.failed.values()) == {"OutputsTooLarge"}
    assert "left of the 65536" in planned.conditions["s19"].message
    assert world.apply(planned).plan().nothing


def with_phases(
    world: World, *phases: tuple[str, float], run: int = 0, **requests: object
) -> World:
    """The vcjob of `a` with these phases, in seconds since NOW."""
    conditions = [
        JobCondition(status=phase, last_transition_time=NOW + timedelta(seconds=at))
        for phase, at in phases
    ]
    last = conditions[-1]
    state = JobState(phase=last.status, last_transition_time=last.last_transition_time)
    job = outlined(world.job("a", "Pending", run=run), *TASKS, **requests)
    return world.with_job(
        msgspec.structs.replace(job, status=JobStatus(state=state, conditions=conditions))
    )


def hours(world: World) -> RequestedHours | None:
    return world.plan().conditions["a"].requested_hours


def test_requested_hours_count_the_time_in_running_at_the_end() -> None:
    started = with_phases(
        flow("a"), ("Pending", 0), ("Running", 100), cpu="2", memory="1Gi"
    ).settled()
    assert hours(started.later(5000)) is None
    world = with_phases(
        started.later(3700), ("Pending", 0), ("Running", 100), ("Completed", 3700), cpu="2"
    )
    assert hours(world) == RequestedHours(cpu="6")
    assert hours(world.settled().later(99)) == RequestedHours(cpu="6")


def test_requested_hours_include_every_restart() -> None:
    world = with_phases(flow("a"), ("Pending", 0), ("Running", 100), cpu="1").settled()
    world = with_phases(
        world, ("Running", 100), ("Restarting", 1900), ("Pending", 1901), cpu="1"
    ).settled()
    world = with_phases(
        world, ("Restarting", 1900), ("Pending", 1901), ("Running", 2000), ("Failed", 3800), cpu="1"
    )
    assert hours(world) == RequestedHours(cpu="3")


def test_requested_hours_count_a_lost_attempt_once() -> None:
    world = with_phases(flow("a"), ("Pending", 0), ("Running", 100), cpu="1").settled()
    lost = world.later(3700).with_deleted("a")
    lost = lost.with_missing("f-a").stored()
    assert lost.plan().held_up == {"a": "JobLost"}
    assert hours(lost) == RequestedHours(cpu="3")
    lost = lost.later(2).settled()
    assert lost.plan().conditions["a"].job == "f-a-r1"
    assert hours(lost) == RequestedHours(cpu="3")
    again = with_phases(
        lost, ("Pending", 3702), ("Running", 3800), ("Completed", 5600), run=1, cpu="1"
    )
    assert hours(again) == RequestedHours(cpu="4.5")
    assert hours(again.settled()) == RequestedHours(cpu="4.5")


def test_a_job_that_has_no_requests_or_never_ran_has_no_hours() -> None:
    world = with_phases(flow("a"), ("Pending", 0), ("Running", 1), ("Completed", 4000))
    assert hours(world) is None
    world = with_phases(flow("a"), ("Pending", 0), ("Aborted", 4000), cpu="4")
    assert hours(world) is None


def count(**phases: int) -> TaskState:
    return TaskState(phase=phases)


def test_pods_that_end_last_update_the_counts() -> None:
    """Volcano drops the counts when it completes the job; the parameter server was deleted."""
    seen = {"ps": count(Running=1), "worker": count(Running=1, Succeeded=1)}
    world = with_job(flow("a"), "a", "Running", counts=seen).settled()
    pods = [("worker", n, "Succeeded", ended(0)) for n in range(2)]
    world = with_job(world, "a", "Completed", *pods).settled()
    assert world.plan().conditions["a"].task_status_count == {
        "ps": count(Running=1),
        "worker": count(Succeeded=2),
    }


def test_outdated_pods_do_not_reduce_the_counts() -> None:
    seen = {"worker": count(Succeeded=2)}
    pods = [("worker", 0, "Running", running()), ("worker", 1, "Succeeded", ended(0))]
    world = with_job(flow("a"), "a", "Completed", *pods, counts=seen).settled()
    assert world.plan().conditions["a"].task_status_count == seen
    some = with_job(flow("a"), "a", "Completed", pods[1], counts=seen).settled()
    assert some.plan().conditions["a"].task_status_count == seen


def test_pods_are_counted_if_the_job_has_no_counts() -> None:
    pods = [("worker", 0, "Failed", ended(1)), ("worker", 1, "Succeeded", ended(0))]
    world = with_job(flow("a"), "a", "Failed", *pods)
    planned = world.plan()
    assert planned.conditions["a"].task_status_count == {"worker": count(Failed=1, Succeeded=1)}
    assert planned.status.pod_failure_ratio == "0.50"


def test_a_list_that_is_too_long_for_outputs_gets_advice() -> None:
    text = '"SRR0000007", ' * 400 + '"SRR0000008"]\n'
    pod = ("ps", 0, "Succeeded", ended(0, message=text[-4096:]))
    condition = with_job(flow("a", b="a"), "a", "Completed", pod).plan().conditions["a"]
    assert condition.reason == "OutputsTooLarge"
    assert "range(n) then gives each job an index" in condition.message


def test_a_job_that_completed_although_pods_failed_says_so() -> None:
    pods = [
        (task, i, "Succeeded", ended(0)) for task, i in (("ps", 0), ("worker", 0), ("worker", 2))
    ]
    world = with_job(flow("a", b="a"), "a", "Completed", *pods, ("worker", 1, "Failed", ended(3)))
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.message) == ("Completed", "1 of 4 pods failed")
