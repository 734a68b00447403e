"""Logs of processes, read by the real kubectl and by `jobflow logs`."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, PODS
from jobflow.api.volcano.pod import Pod
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.cluster.kubectl import Answer, Kubectl
from support.sandbox.flow_commands import run_process
from support.sandbox.processes import Json, pod_task, sh
from support.sandbox.running_controller import Cluster, flow, template

POD = "f-a-t-0"
Run = Callable[..., Any]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SandboxWorld]:
    with ProcessRunner(tmp_path / "logs", max_restarts=1, first_pause=0.001) as runner:
        async with sandbox_world(SandboxOptions(runner=runner)) as world:
            yield world


@pytest.fixture
def kubectl(world: SandboxWorld, tmp_path: Path) -> Run:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")

    async def run(*arguments: str) -> Answer:
        return await asyncio.to_thread(Kubectl(world.kubeconfig, tmp_path).run, *arguments)

    return run


async def apply(world: SandboxWorld, *containers: Json, **spec: Any) -> Cluster:
    """Apply a flow with the step a, whose pod has these containers."""
    manifest = template("a", tasks=[pod_task(*containers, **spec)])
    await world.client.create(JOBTEMPLATES, "default", json.dumps(manifest).encode())
    await world.client.create(JOBFLOWS, "default", json.dumps(flow("f", {"a": ""})).encode())
    return Cluster(world.server, world.client)


async def until_running(cluster: Cluster) -> None:
    await cluster.seen(PODS, Pod, lambda pods: any(pod.phase == "Running" for pod in pods.values()))


@pytest.mark.long
@pytest.mark.kubectl
async def test_kubectl_reads_the_log_of_a_process(world: SandboxWorld, kubectl: Run) -> None:
    cluster = await apply(world, sh("printf 'one\\ntwo\\nthree\\n'; exit 3"))
    await cluster.ended("f")
    assert await kubectl("logs", POD) == Answer(0, "one\ntwo\nthree\n", "")
    assert (await kubectl("logs", POD, "--tail=1")).out == "three\n"
    assert (await kubectl("logs", POD, "--limit-bytes=5")).out == "one\nt"
    assert (await kubectl("logs", POD, "--since=1h")).out == "one\ntwo\nthree\n"
    assert (await kubectl("logs", POD, "--since-time=2100-01-01T00:00:00Z")).out == ""
    assert (await kubectl("logs", POD, "-f")).out == "one\ntwo\nthree\n"
    [first, *_rest] = (await kubectl("logs", POD, "--timestamps")).out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z one", first)
    answer = await kubectl("logs", POD, "-c", "x")
    assert (answer.code, answer.err) == (1, f"error: container x is not valid for pod {POD}\n")
    answer = await kubectl("logs", POD, "-p")
    assert "(BadRequest): previous terminated container" in answer.err
    answer = await kubectl("logs", "nope")
    assert answer.code == 1 and 'pods "nope" not found' in answer.err


@pytest.mark.long
@pytest.mark.kubectl
async def test_kubectl_follows_a_process_to_its_end(
    world: SandboxWorld, kubectl: Run, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = f"echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two"
    cluster = await apply(world, sh(script))
    await until_running(cluster)
    following = asyncio.create_task(kubectl("logs", POD, "-f"))
    gate.touch()
    assert (await following).out == "one\ntwo\n"


@pytest.mark.long
@pytest.mark.kubectl
async def test_kubectl_reads_the_previous_run(
    world: SandboxWorld, kubectl: Run, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    script = f"[ -e {once} ] && echo second && exit 0; touch {once}; echo first; exit 1"
    cluster = await apply(world, sh(script), restartPolicy="OnFailure")
    await cluster.ended("f")
    assert (await kubectl("logs", POD)).out == "second\n"
    assert (await kubectl("logs", POD, "--previous")).out == "first\n"


@pytest.mark.long
async def test_jobflow_logs_follows_processes(world: SandboxWorld) -> None:
    await apply(world, sh("printf '\\033[31mred\\033[0m\\n'"), sh("echo beside", name="side"))
    result = await run_process(world.kubeconfig, "logs", "f", "-f")
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [f"a/{POD}/c │ red", f"a/{POD}/side │ beside"]
