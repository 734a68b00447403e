"""`jobflow why` about jobs that wait for Volcano: what it reads, and what it may not read."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.api.resources import CRDS, EVENTS, JOBFLOWS, JOBS, POD_GROUPS, PODS, QUEUES
from jobflow.api.volcano.job import Job
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.show.why import print_explanations
from jobflow.client.flows.find_flow import NO_SELECTION
from jobflow.display.formats import Output
from support.paths import ROOT
from support.sandbox.flow_commands import forbid, run_process
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    flow,
    set_phase,
    template,
    write_status,
)

DEFINITION = ROOT / "tests/cluster/crds/scheduling.volcano.sh_podgroups.yaml"
USED = "6 of 8 GPUs are in use, this job asks for 4"

Why = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def why(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Why:
    """Return a function that runs the command on the test's own loop and returns its JSON."""

    async def explain(*arguments: str) -> dict[str, Any]:
        name, step = (*arguments, None)[:2]
        assert name is not None
        capsys.readouterr()  # a controller's log
        options = ClusterOptions(kubeconfig=str(kubeconfig), output=Output.JSON)
        assert await print_explanations(name, step, NO_SELECTION, options) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return explain


async def queue_jobs(world: Cluster, *steps: str, **spec: Any) -> None:
    """Run a flow until each step has a Pending vcjob, and serve PodGroups."""
    await world.client.create(CRDS, "", json.dumps(yaml.safe_load(DEFINITION.read_text())).encode())
    manifest = flow("train", dict.fromkeys(steps, ""), **spec)
    async with world.ends(otherwise="Pending"), world.controller():
        await world.apply(*(template(step) for step in steps), manifest)
        await world.until(
            "train",
            lambda flow: len(flow.status.pending_jobs or ()) == len(steps),
        )


async def create_pod_group(world: Cluster, name: str, phase: str, **more: Any) -> None:
    """Create the PodGroup of a vcjob as Volcano does: with its labels and a name with its UID."""
    job = await world.client.get(JOBS, NAMESPACE, name, Job)
    meta = job.metadata
    asked = {"nvidia.com/gpu": "4"}
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": f"{name}-{meta.uid}",
            "labels": meta.labels,
            "ownerReferences": [owner(job)],
        },
        "spec": {"minMember": 4, "queue": "research", "minResources": asked},
        "status": {"phase": phase, **more},
    }
    await world.client.create(POD_GROUPS, NAMESPACE, json.dumps(group).encode())


def owner(job: Job) -> dict[str, Any]:
    name, uid = job.metadata.name, job.metadata.uid
    kind = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "controller": True}
    return {**kind, "name": name, "uid": uid}


async def create_pod(
    world: Cluster, job: str, index: int, message: str = "", node: str = ""
) -> None:
    """Create a pod of a vcjob that the scheduler cannot place, or that has a node."""
    labels = {"volcano.sh/job-name": job, "volcano.sh/queue-name": "research"}
    owners = [owner(await world.client.get(JOBS, NAMESPACE, job, Job))]
    name = f"{job}-main-{index}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "nodeName": node},
    }
    await world.client.create(PODS, NAMESPACE, json.dumps(pod).encode())
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    status = {"phase": "Pending"} if node else {"conditions": [condition]}
    await write_status(world.client, PODS, name, status)


async def warn(world: Cluster, pod: str, reason: str, message: str, time: str) -> None:
    """Create an Event about a pod."""
    event = {
        **EVENTS.type_meta,
        "metadata": {"generateName": f"{pod}."},
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": NAMESPACE},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T12:00:0{time}Z",
    }
    await world.client.create(EVENTS, NAMESPACE, json.dumps(event).encode())


async def create_queue(world: Cluster) -> None:
    """Create a queue of eight GPUs, six of which are in use."""
    spec = {"weight": 1, "capability": {"nvidia.com/gpu": "8"}}
    queue = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": "research"},
        "spec": spec,
    }
    await world.client.create(QUEUES, "", json.dumps(queue).encode())
    status = {"state": "Open", "allocated": {"nvidia.com/gpu": "6"}}
    body = json.dumps({"status": status}).encode()
    await world.client.patch(QUEUES, "", "research", body, subresource="status")


async def test_a_job_that_is_not_admitted_names_what_its_queue_has(
    world: Cluster, why: Why
) -> None:
    await queue_jobs(world, "fit")
    await create_queue(world)
    await create_pod_group(world, "train-fit", "Pending")
    waits = f"Job train-fit waits in queue research: {USED}."
    answer = await why("train", "fit")
    assert answer["scheduling"] == {"fit": [waits]}
    first, *others = answer["sentences"]
    assert first.endswith("as the job train-fit: Volcano has not started it yet.")
    assert others == [waits]
    assert waits in (await why("train"))["sentences"]


@pytest.mark.long
async def test_each_selected_flow_has_the_sentences_of_one(
    world: Cluster, why: Why, kubeconfig: Path
) -> None:
    await queue_jobs(world, "fit")
    await create_queue(world)
    await create_pod_group(world, "train-fit", "Pending")
    [selected] = (await run_process(kubeconfig, "why", "-A", "-o", "json")).json
    assert selected["scheduling"] == (await why("train"))["scheduling"]
    assert selected["sentences"][0].startswith("JobFlow default/train is Pending")
    assert f"Job train-fit waits in queue research: {USED}." in selected["sentences"]


async def test_a_gang_that_does_not_fit_is_explained_by_its_pods(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit", "load")
    await create_pod_group(world, "train-load", "Pending")
    await create_pod_group(world, "train-fit", "Inqueue")
    for index in range(4):
        full = "0/2 nodes are unavailable: 2 Insufficient cpu."
        ready = "Pod a can possibly be assigned to n1, once minAvailable is satisfied"
        await create_pod(world, "train-fit", index, full if index % 2 else ready)
    told = (await why("train", "fit"))["scheduling"]["fit"]
    assert told[1:] == [
        "In job train-fit, 2 of 4 pods cannot be scheduled: 0/2 nodes are unavailable: 2 "
        "Insufficient cpu.",
        "In job train-fit, 2 of 4 pods wait for the gang: 4 must start together.",
    ]


async def test_a_pod_that_cannot_start_has_the_last_warning_of_its_node(
    world: Cluster, why: Why
) -> None:
    await queue_jobs(world, "fit")
    await create_pod_group(world, "train-fit", "Inqueue")
    await create_pod(world, "train-fit", 0, node="n1")
    assert (await why("train", "fit"))["scheduling"]["fit"] == [
        "In job train-fit, 1 of 1 pod has a node and will start."
    ]
    pod = "train-fit-main-0"
    await warn(world, pod, "FailedMount", 'secret "key" not found', "3")
    await warn(world, pod, "FailedCreatePodSandBox", "no address", "2")
    await warn(world, pod, "FailedScheduling", "0/1 nodes are available", "4")
    assert (await why("train", "fit"))["scheduling"]["fit"] == [
        f'In job train-fit, pod {pod} cannot start: FailedMount: secret "key" not found.'
    ]
    forbid(world, "GET", "/events")
    answer = await why("train", "fit")
    refused = "Events are left out: reading them needs the right to list events."
    assert answer["sentences"][-1] == refused


async def test_only_the_first_jobs_are_read_and_the_others_counted(
    world: Cluster, why: Why
) -> None:
    await queue_jobs(world, "a", "b", "c", "d", "e")
    before = len(world.server.requests)
    answer = await why("train")
    assert set(answer["scheduling"]) == {"a", "b", "c"}
    assert answer["sentences"][-1] == (
        "2 more jobs also wait for Volcano; see `jobflow why train STEP`."
    )
    assert len(world.server.requests) - before == 1 + 2 * 3  # the flow; PodGroups and pods


async def test_each_item_has_a_job_of_its_own(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit")
    condition = {
        "phase": "Running",
        "runs": [
            {"index": 0, "phase": "Completed", "job": "train-fit-0"},
            {"index": 1, "phase": "Pending", "job": "train-fit-1"},
        ],
    }
    await write_status(world.client, JOBFLOWS, "train", {"conditions": {"train-fit": condition}})
    assert (await why("train", "fit"))["scheduling"] == {
        "fit": [
            "Volcano has no PodGroup for job train-fit-1 yet; if this lasts, check that Volcano's "
            "controllers run."
        ]
    }
    queries = [request.query.get("labelSelector", "") for request in world.server.requests]
    assert any(query.endswith("flow.volcano.sh/index=1") for query in queries)


async def test_missing_rights_are_named_and_the_rest_is_shown(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit")
    await create_queue(world)
    await create_pod_group(world, "train-fit", "Pending")
    forbid(world, "GET", "/queues/research")
    forbid(world, "GET", "/pods")
    answer = await why("train", "fit")
    assert answer["sentences"][1:] == [
        "Job train-fit waits in queue research: Volcano has not admitted it yet.",
        "Pods are left out: reading them needs the right to list pods.",
        "Queues are left out: reading them needs the right to get queues.scheduling.volcano.sh.",
    ]


async def test_without_any_right_the_command_still_answers(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit")
    forbid(world, "GET", "/podgroups")
    forbid(world, "GET", "/pods")
    answer = await why("train", "fit")
    assert answer["scheduling"] == {}
    assert "see `kubectl describe vcjob -n default train-fit`." in answer["sentences"][0]
    assert answer["sentences"][1:] == [
        "PodGroups are left out: reading them needs the right to list "
        "podgroups.scheduling.volcano.sh.",
        "Pods are left out: reading them needs the right to list pods.",
    ]


async def test_a_cluster_without_podgroups_says_so(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit")
    await world.client.delete(CRDS, "", "podgroups.scheduling.volcano.sh")
    [_, note] = (await why("train", "fit"))["sentences"]
    assert note == (
        "PodGroups are left out: this cluster does not serve podgroups.scheduling.volcano.sh."
    )


async def test_a_flow_without_waiting_jobs_reads_nothing_more(world: Cluster, why: Why) -> None:
    await queue_jobs(world, "fit")
    await set_phase(world.client, "train-fit", "Completed")
    async with world.controller():
        await world.ended("train")
    before = len(world.server.requests)
    assert "scheduling" not in await why("train")
    assert len(world.server.requests) - before == 1
