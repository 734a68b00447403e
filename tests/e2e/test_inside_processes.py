"""Probes and outputs of jobs whose pods are processes: real requests and real messages."""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.paths import ROOT
from support.sandbox.processes import Json, pod_task, sh
from support.sandbox.running_controller import Cluster
from support.sandbox.running_controller import flow as flow_of
from support.sandbox.running_controller import template as template_of

STRANGE = ROOT / "tests" / "data" / "strange_service.py"
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SandboxWorld]:
    with ProcessRunner(tmp_path / "logs") as runner:
        async with sandbox_world(SandboxOptions(runner=runner)) as world:
            yield world


async def apply(world: SandboxWorld, steps: list[Json], **tasks: Json) -> Cluster:
    """Apply the flow `f` and templates with one task each."""
    for name, task in tasks.items():
        manifest = template_of(name, tasks=[task], minAvailable=task["replicas"])
        await world.client.create(JOBTEMPLATES, "default", json.dumps(manifest).encode())
    manifest = flow_of("f", {}, flows=steps)
    await world.client.create(JOBFLOWS, "default", json.dumps(manifest).encode())
    return Cluster(world.server, world.client)


def step(name: str, target: str, **probe: list[Json]) -> Json:
    return {"name": name, "template": "done", "dependsOn": {"targets": [target], "probe": probe}}


def http_probe(port: int, path: str = "/readyz") -> dict[str, list[Json]]:
    return {"httpGetList": [{"taskName": "t", "path": path, "port": port}]}


def step_states(flow: JobFlow) -> dict[str, str]:
    """Return `phase reason: message` of each step."""
    conditions = flow.status.conditions or {}
    return {
        name.removeprefix("f-"): f"{each.phase} {each.reason}: {each.message}"
        for name, each in conditions.items()
    }


def all_contain(texts: dict[str, str]) -> Callable[[JobFlow], bool]:
    def check(flow: JobFlow) -> bool:
        states = step_states(flow)
        return all(text in states.get(name, "") for name, text in texts.items())

    return check


WAITING = {
    "busy": "answers 503",
    "endless": "answers with a head of more than 64 KiB",
    "mute": "answers nothing within a second",
    "slow": "does not finish the head of its answer within a second",
    "closed": "refuses the connection",
}


@pytest.mark.long
async def test_answers_of_services_are_limited_and_reported(
    world: SandboxWorld, tmp_path: Path
) -> None:
    command = [sys.executable, str(STRANGE)]
    container = {"name": "c", "image": "python:3.12", "command": command, "env": [POD_IP]}
    service = pod_task(container | {"workingDir": str(tmp_path)})
    steps = [
        {"name": "serve"},
        step("busy", "serve", **http_probe(8401)),
        step("elsewhere", "serve", **http_probe(8402)),
        step("endless", "serve", **http_probe(8403)),
        step("mute", "serve", **http_probe(8404)),
        step("slow", "serve", **http_probe(8405)),
        step("closed", "serve", tcpSocketList=[{"taskName": "t", "port": 8499}]),
    ]
    flows = await apply(world, steps, serve=service, done=pod_task(sh("true")))

    waiting = await flows.until("f", all_contain(WAITING))
    for name in WAITING:
        assert step_states(waiting)[name].startswith(
            "Waiting WaitingForProbe: waits for serve: 127."
        )
    passed = await flows.until("f", all_contain({"elsewhere": "Completed"}))
    assert step_states(passed)["serve"].startswith("Running"), "a redirect is an answer"
    assert not (tmp_path / "followed").exists()

    (tmp_path / "ready").touch()
    await flows.until("f", all_contain({"busy": "Completed", "serve": "Running"}))
    (tmp_path / "end").touch()
    finished = await flows.ended("f")
    assert finished.status.state.phase == "Failed"
    for name in ("endless", "mute", "slow", "closed"):
        assert step_states(finished)[name].startswith("Failed ProbeUnsatisfiable: ")

        assert re.search(r":84\d\d(/readyz)? of pod f-serve-t-0 ", step_states(finished)[name])


@pytest.mark.long
async def test_a_probe_waits_for_the_replacement_of_a_lost_pod(
    world: SandboxWorld, tmp_path: Path
) -> None:
    """The step starts once both pods are ready at the same time."""
    script = (
        f"{sys.executable} -c '{READY_IF_FILE_EXISTS}' & "
        f"while ! [ -e {tmp_path}/end ]; do sleep 0.02; done; kill $!"
    )
    service = pod_task(sh(script, env=[POD_IP], workingDir=str(tmp_path)), replicas=2)
    steps = [{"name": "serve"}, step("client", "serve", **http_probe(8411))]
    flows = await apply(world, steps, serve=service, done=pod_task(sh("true")))
    (tmp_path / "f-serve-t-0").touch()
    await flows.until("f", all_contain({"client": "of pod f-serve-t-1 answers 503"}))
    (tmp_path / "f-serve-t-0").unlink()
    await world.client.request("DELETE", "/api/v1/namespaces/default/pods/f-serve-t-0")
    (tmp_path / "f-serve-t-1").touch()
    await flows.until("f", all_contain({"client": "of pod f-serve-t-0 answers 503"}))
    (tmp_path / "f-serve-t-0").touch()
    await flows.until("f", all_contain({"client": "Completed", "serve": "Running"}))
    (tmp_path / "end").touch()
    assert (await flows.ended("f")).status.state.phase == "Succeed"


READY_IF_FILE_EXISTS = """
import os
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists(os.environ["HOSTNAME"]) else 503)
        self.end_headers()
TCPServer.allow_reuse_address = True
TCPServer((os.environ["POD_IP"], 8411), Handler).serve_forever()
"""


@pytest.mark.long
async def test_termination_messages_become_outputs(world: SandboxWorld) -> None:
    log = "/dev/termination-log"
    tasks = {
        "object": f"echo '{{\"a\": 1}}' > {log}",
        "list": f"echo '[1, 2]' > {log}",
        "latin": f"printf 'na\\357ve' > {log}",
        "none": "true",
        "large": f"head -c 4096 /dev/zero | tr '\\0' x > {log}",
        "bytes": f"head -c 2000 /dev/zero | tr '\\0' '\\377' > {log}",
    }
    flows = await apply(
        world,
        [{"name": name} for name in tasks],
        **{name: pod_task(sh(script)) for name, script in tasks.items()},
    )
    finished = await flows.ended("f")
    conditions: dict[str, Any] = finished.status.conditions or {}
    assert {name: conditions[f"f-{name}"].outputs for name in ("object", "list", "latin")} == {
        "object": {"a": 1},
        "list": {"items": [1, 2]},
        "latin": {"text": "na\ufffdve"},
    }
    assert conditions["f-none"].outputs in (None, {})
    for name in ("large", "bytes"):
        assert step_states(finished)[name].startswith("Failed OutputsTooLarge: ")
    assert finished.status.state.phase == "Failed"
