"""A step says which pod of its Pending job cannot start."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api.volcano.job import TaskState
from jobflow.api.volcano.pod import Pod
from jobflow.core.planning.actions import PodWarning
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, flow
from support.sandbox.containers import waiting_container, with_containers

PULL = "ErrImagePull"
MESSAGE = "cannot start pod f-a-main-0: ErrImagePull"


def with_pod(world: World, reason: str, *, node: str = "n1") -> World:
    """The world in which the pod of a waits for this reason, since the first time it does."""
    job = world.jobs["f-a"]
    made: Pod = with_containers(
        pod_of(job, "main", 0, "Pending"), waiting_container(reason), node=node
    )
    known = world.pods.get(job.metadata.uid, {}).get(made.metadata.name)
    since = world.now if known is None else known.status.start_time
    status = msgspec.structs.replace(made.status, start_time=since)
    pod = msgspec.structs.replace(made, status=status)
    return replace(world, pods={job.metadata.uid: {pod.metadata.name: pod}})


def message(world: World) -> str:
    return world.plan().conditions["a"].message


def test_a_pod_that_cannot_start_is_named_after_five_seconds() -> None:
    world = with_pod(flow("a").settled(), PULL)
    assert message(world) == ""
    assert world.plan().plan.requeue_after == timedelta(seconds=5)
    world = world.later(5)
    assert message(world) == MESSAGE
    [event] = world.plan().plan.events
    assert (event.reason, event.message) == ("PodCannotStart", f"step a: {MESSAGE}")
    # Kubernetes tries again and again
    world = with_pod(world.stored(), "ImagePullBackOff")
    assert world.plan().nothing


def test_the_message_goes_once_the_pod_starts() -> None:
    world = with_pod(flow("a").settled(), PULL).later(5).stored()
    assert message(with_pod(world, "ContainerCreating")) == ""


def test_a_pod_that_does_not_say_why_it_cannot_start_is_asked_about() -> None:
    world = with_pod(flow("a").settled(), "ContainerCreating")
    assert world.plan().plan.wants == ()
    assert world.plan().plan.requeue_after == timedelta(seconds=5)
    world = world.later(5)
    [want] = world.plan().plan.wants
    assert want == PodWarning("a", "f-a-main-0", "uid-f-a-main-0")
    assert world.plan().nothing
    world = replace(world, probes={want.key: 'FailedMount: secret "key" not found'})
    named = 'cannot start pod f-a-main-0: FailedMount: secret "key" not found'
    assert message(world) == named
    [event] = world.plan().plan.events
    assert (event.reason, event.message) == ("PodCannotStart", f"step a: {named}")
    # the kubelet tries again and says it in other words
    world = replace(world.stored(), probes={want.key: "FailedMount: timed out"})
    assert world.plan().nothing and world.plan().plan.wants == (want,)
    assert message(replace(world, probes={want.key: ""})) == ""


def test_few_pods_of_a_job_are_asked_about() -> None:
    world = with_pod(flow("a").settled(), "ContainerCreating")
    [(uid, pods)] = world.pods.items()
    [pod] = pods.values()
    names = [f"f-a-main-{index}" for index in range(8)]
    many = {
        name: msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
        )
        for name in names
    }
    world = replace(world, pods={uid: many}).later(5)
    assert [want.pod for want in world.plan().plan.wants] == names[:3]


@pytest.mark.parametrize("pending", [0, 1])
def test_of_a_running_job_a_pod_that_is_missing_is_named(pending: int) -> None:
    world = with_pod(flow("a").settled(), PULL).later(5)
    job = world.jobs["f-a"]
    counts = {"main": TaskState(phase={"Running": 1, "Pending": pending})}
    state = msgspec.structs.replace(job.status.state, phase="Running")
    status = msgspec.structs.replace(job.status, state=state, task_status_count=counts)
    job = msgspec.structs.replace(job, status=status)
    running = replace(world, jobs={"f-a": job}).plan().conditions["a"]
    assert (running.phase, running.message) == ("Running", MESSAGE if pending else "")


@pytest.mark.parametrize(("reason", "node"), [("ContainerCreating", "n1"), (PULL, "")])
def test_a_pod_that_may_start_is_not_named(reason: str, node: str) -> None:
    world = with_pod(flow("a").settled(), reason, node=node).later(60)
    assert message(world) == ""
    assert world.plan().plan.events == ()
