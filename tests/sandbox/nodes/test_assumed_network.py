"""Probes of simulated pods: nothing listens, so every Running pod passes."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.controller.probes.pod_check import check_phase
from jobflow.sandbox.nodes.simulate import SimulateRunner
from support.network.probed_pods import pod, web
from support.sandbox.running_controller import Cluster, flow, template

FOREVER = {"sandbox.jobflow.volcano.sh/task-phases": '{"main": [["Running", 0]]}'}


@pytest.fixture
async def world() -> AsyncIterator[SandboxWorld]:
    async with sandbox_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        yield world


@pytest.mark.long
async def test_a_simulated_service_passes_all_probes_once_it_runs(
    world: SandboxWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "open_connection", None)
    serve = template("serve", tasks=[{**template("x")["spec"]["tasks"][0], "replicas": 3}])
    serve["metadata"]["annotations"] = FOREVER
    probe = {
        "httpGetList": [{"taskName": "main", "path": "/healthz", "port": 8080}],
        "tcpSocketList": [{"taskName": "main", "port": 2222}],
    }
    steps = [
        {"name": "serve"},
        {"name": "client", "dependsOn": {"targets": ["serve"], "probe": probe}},
    ]
    for manifest in (serve, template("client")):
        await world.client.create(JOBTEMPLATES, "default", json.dumps(manifest).encode())
    manifest = flow("f", {}, flows=steps)
    await world.client.create(JOBFLOWS, "default", json.dumps(manifest).encode())
    jobflow = await Cluster(world.server, world.client).until(
        "f", lambda flow: "f-client" in (flow.status.completed_jobs or ())
    )
    assert jobflow.status.running_jobs == ["f-serve"]


async def test_a_lost_pod_does_not_answer() -> None:
    assert await check_phase(pod("web-0"), web()) == ""
    assert (
        await check_phase(pod("web-0", phase="Unknown"), web())
        == "does not answer while it is Unknown"
    )
