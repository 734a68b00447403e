"""Pods and flows with the real controller: pod events that cause plans, and pods that are read."""

import json
from typing import Any
from unittest.mock import Mock

from jobflow.api.resources import EVENTS, JOBS, PODS
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.controller.wants import SIMULATED
from jobflow.core.planning.actions import Check
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.job_pods import PodEnds, end_pod, make_pod, move_pod, pod_of
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    Product,
    flow,
    set_phase,
    template,
)
from support.time.alongside import until


def probing(**probe: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]
    return flow("f", {}, flows=steps)


async def running_a(world: Cluster) -> Job:
    await world.until_jobs(f_a="")
    await set_phase(world.client, "f-a", "Running")
    return await world.client.get(JOBS, NAMESPACE, "f-a", Job)


def lists_of_pods(world: Cluster) -> list[str]:
    asked = [seen for seen in world.server.requests if seen.path == PODS.path(NAMESPACE)]
    return [seen.method for seen in asked if seen.method == "GET"]


async def test_an_event_of_a_pod_starts_the_step_that_probes_its_task(world: Cluster) -> None:
    await world.apply(template("a"), template("b"))
    await world.apply(probing(taskStatusList=[{"taskName": "main", "phase": "Succeeded"}]))
    async with world.controller():
        job = await running_a(world)
        name = await make_pod(world.client, job.metadata)
        await move_pod(world.client, NAMESPACE, name, "Running")
        await world.until("f", lambda flow: "0 of 1" in str(flow.status.conditions))
        await end_pod(world.client, NAMESPACE, name)
        await world.until_jobs(f_a="Running", f_b="")
        done = await world.until("f", lambda flow: (flow.status.conditions or {})["f-b"].job != "")
    assert (done.status.conditions or {})["f-b"].attempts == 1


async def test_a_step_starts_when_its_target_answers(world: Cluster) -> None:
    answers, asked = ["answers 503", ""], []

    async def check(pod: Pod, check: Check) -> str:
        asked.append((pod.status.pod_ip, check.port, check.path))
        return answers.pop(0)

    await world.apply(template("a"), template("b"))
    await world.apply(probing(httpGetList=[{"taskName": "main", "port": 80, "path": "/ready"}]))
    async with world.controller(outside=SIMULATED._replace(check_pod=check)):
        job = await running_a(world)
        name = await make_pod(world.client, job.metadata)
        await move_pod(world.client, NAMESPACE, name, "Running", podIP="10.0.0.7")
        await world.until("f", lambda flow: "answers 503" in str(flow.status.conditions))
        assert (await world.jobs()).keys() == {"f-a"}
        await move_pod(world.client, NAMESPACE, name, "Running", podIP="10.0.0.8")
        await world.until_jobs(f_b="")
    assert asked == [("10.0.0.7", 80, "/ready"), ("10.0.0.8", 80, "/ready")]


async def test_pods_of_flows_without_probes_cause_no_plan_and_no_request(world: Cluster) -> None:
    hooks = Mock(spec=Hooks)
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller(hooks=hooks) as product:
        job = await running_a(world)
        await world.until("f", lambda flow: flow.status.state.phase == "Running")
        before = hooks.reconciled.call_count
        name = await make_pod(world.client, job.metadata)
        for number in range(5):
            await move_pod(world.client, NAMESPACE, name, "Running", podIP=f"10.0.0.{number}")
        await until_watched(product, job, name, "10.0.0.4")
        passes = hooks.reconciled.call_count - before
        await end_pod(world.client, NAMESPACE, name, message="done")
        await until_watched(product, job, name, "10.0.0.4", phase="Succeeded")
        await set_phase(world.client, "f-a", "Completed")
        done = await world.ended("f")
    assert passes <= 1, "the status that was held back for a second may be written meanwhile"
    assert lists_of_pods(world) == []
    assert (done.status.conditions or {})["f-a"].outputs == {"text": "done"}


async def test_a_pod_that_cannot_start_is_named_in_the_status(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller():
        await world.until_jobs(f_a="")
        await set_phase(world.client, "f-a", "Pending")
        job = await world.client.get(JOBS, NAMESPACE, "f-a", Job)
        pod = pod_of(job.metadata, "main")
        pod["spec"]["nodeName"] = "n1"
        await world.client.create(PODS, NAMESPACE, json.dumps(pod).encode())
        state = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
        container = {"name": "main", "image": "busybox", "imageID": "", "ready": False}
        statuses = [{**container, "restartCount": 0, "state": state}]
        await move_pod(world.client, NAMESPACE, "f-a-main-0", "Pending", containerStatuses=statuses)
        named = "cannot start pod f-a-main-0: ErrImagePull: no such image"
        await world.until("f", lambda flow: named in str(flow.status.conditions))


async def test_a_pod_that_does_not_say_why_it_cannot_start_is_asked_about(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller():
        await world.until_jobs(f_a="")
        job = await world.client.get(JOBS, NAMESPACE, "f-a", Job)
        pod = pod_of(job.metadata, "main")
        pod["spec"]["nodeName"] = "n1"
        created = json.loads(await world.client.create(PODS, NAMESPACE, json.dumps(pod).encode()))
        about = {"kind": "Pod", "name": "f-a-main-0", "namespace": NAMESPACE}
        event = {
            **EVENTS.type_meta,
            "metadata": {"generateName": "f-a-main-0."},
            "involvedObject": {**about, "uid": created["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'secret "key" not found',
        }
        await world.client.create(EVENTS, NAMESPACE, json.dumps(event).encode())
        taken = "2026-01-01T00:00:00Z"
        await move_pod(world.client, NAMESPACE, "f-a-main-0", "Pending", startTime=taken)
        await set_phase(world.client, "f-a", "Pending")
        named = 'cannot start pod f-a-main-0: FailedMount: secret "key" not found'
        await world.until("f", lambda flow: named in str(flow.status.conditions))


async def until_watched(
    product: Product, job: Job, name: str, ip: str, *, phase: str = "Running"
) -> None:
    def is_watched() -> bool:
        pod = product.store.pods.of(job.metadata.uid).get(name)
        return pod is not None and (pod.status.pod_ip, pod.phase) == (ip, phase)

    await until(is_watched)


async def test_the_reason_of_a_failed_job_is_read_once(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller(), world.ends({"f-a": "Failed"}):
        done = await world.ended("f")
    assert done.status.state.phase == "Failed"
    assert lists_of_pods(world) == ["GET"], "no pod was known"


async def test_pods_of_an_ended_flow_are_dropped(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller() as product, world.ends(driver=PodEnds):
        await world.ended("f")
        await until(lambda: not len(product.store.pods.cache))
    assert len(await world.raw(PODS)) == 1


async def test_outputs_wait_while_the_server_cannot_list_pods(world: Cluster) -> None:
    steps = flow("f", {"a": "", "b": "a"})
    steps["spec"]["flows"][1]["when"] = 'has(steps["a"].outputs.n)'
    await world.apply(template("a"), template("b"), steps)
    stopping = failure(503, "ServiceUnavailable", "shutting down")
    busy = world.fails("GET", PODS.path(NAMESPACE), stopping, times=None)
    async with world.controller():
        await world.until_jobs(f_a="")
        await set_phase(world.client, "f-a", "Completed")
        waiting = await world.until("f", lambda flow: "PodsUnread" in str(flow.status.conditions))
        assert "shutting down" in (waiting.status.conditions or {})["f-a"].message
        world.server.faults.remove(busy)
        done = await world.ended("f")
    condition = (done.status.conditions or {})["f-a"]
    assert (condition.phase, condition.reason) == ("Completed", "OutputsMissing")
    assert condition.message == "its outputs could not be read: its pod is gone"
