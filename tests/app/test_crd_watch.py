"""Definitions that change while a replica runs: it stops, and continues when they are correct."""

import asyncio
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from jobflow.api.crd import crd
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import CRDS, JOBFLOWS, JOBTEMPLATES
from jobflow.app import crd_watch as schema_guard
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld
from jobflow.kube.client import ApiError, Client
from jobflow.sandbox.nodes.simulate import SimulateRunner
from support.sandbox.manifests import jobflow, template
from support.sandbox.recorded_world import recorded_world, server_of
from support.sandbox.running_controller import merge, set_phase
from support.time.alongside import until

NAME = "jobflows.flow.volcano.sh"


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single API server uses a definition at once."""
    monkeypatch.setattr(schema_guard, "SETTLE_SECONDS", 0.0)


@pytest.fixture
async def world() -> AsyncIterator[SandboxWorld]:
    async with recorded_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        yield world


async def serve_schema(client: Client, definition: dict[str, Any]) -> None:
    changes = {"spec": {"versions": definition["spec"]["versions"]}}
    await merge(client, CRDS, definition["metadata"]["name"], changes, namespace="")


def foreign_definition() -> dict[str, Any]:
    """A definition of the same name from another project, with fewer fields."""
    changed = deepcopy(crd("JobFlow"))
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    step = spec["properties"]["flows"]["items"]["properties"]
    del step["template"]
    step["patch"]["properties"]["jobSpec"] = {
        "type": "object",
        "properties": {"maxRetry": {"type": "integer", "default": 3}},
    }
    return changed


FAULTS = (
    f"CustomResourceDefinition {NAME} to be corrected: spec.flows[].template is missing, "
    "spec.flows[].patch.jobSpec drops what it does not name, spec.flows[].patch.jobSpec.maxRetry "
    "has a default; apply this version's with `jobflow crds --apply`"
)


async def until_waiting_for(world: SandboxWorld, *clauses: str) -> None:
    await until(lambda: world.replica.waiting_for() == [*clauses])


async def create(world: SandboxWorld, *manifests: dict[str, Any]) -> None:
    for manifest in manifests:
        resource = JOBFLOWS if manifest["kind"] == "JobFlow" else JOBTEMPLATES
        await world.client.create(resource, "default", json.dumps(manifest).encode())


@pytest.mark.long
async def test_nothing_is_admitted_until_the_definition_is_correct(world: SandboxWorld) -> None:
    await serve_schema(world.client, foreign_definition())
    await until_waiting_for(world, FAULTS)
    with pytest.raises(ApiError) as refused:
        await create(world, jobflow("f", {"a": []}))
    assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")
    assert FAULTS in refused.value.message and refused.value.message.endswith("; try again")
    with pytest.raises(ApiError):
        await create(world, template("a"))
    metrics = world.replica.metrics.text().decode()
    assert 'jobflow_definition_faults{resource="jobflows"} 3.0' in metrics
    assert 'jobflow_definition_faults{resource="jobtemplates"} 0.0' in metrics
    await serve_schema(world.client, crd("JobFlow"))
    await until_waiting_for(world)
    await create(world, template("a"), jobflow("f", {"a": []}))


@pytest.mark.long
async def test_nothing_is_planned_until_the_definition_is_correct(world: SandboxWorld) -> None:
    await create(world, template("a"), template("b"))
    slow = template("a", duration="2s")
    await world.client.delete(JOBTEMPLATES, "default", "a")
    await create(world, slow, jobflow("f", {"a": [], "b": ["a"]}))
    await until_phase(world, "Running")
    await serve_schema(world.client, foreign_definition())
    await until_waiting_for(world, FAULTS)
    await until(lambda: b"jobflow_leader 0.0" in world.replica.metrics.text())
    mark = len(server_of(world).requests)
    await set_phase(world.client, "f-a", "Completed")
    await asyncio.sleep(0.3)
    writes = [seen for seen in list(server_of(world).requests)[mark:] if seen.method != "GET"]
    assert [seen for seen in writes if "/jobflows/" in seen.path or seen.method == "POST"] == []
    await serve_schema(world.client, crd("JobFlow"))
    await until_phase(world, "Succeed")


async def test_objects_of_another_definition_are_read_again(world: SandboxWorld) -> None:
    await create(world, template("a"))
    await serve_schema(world.client, foreign_definition())
    await until_waiting_for(world, FAULTS)
    mark = len(server_of(world).requests)
    await serve_schema(world.client, crd("JobFlow"))
    await until_waiting_for(world)
    seen = list(server_of(world).requests)[mark:]
    lists = [each.path for each in seen if "watch" not in each.query]
    assert JOBFLOWS.path() in lists and JOBTEMPLATES.path() in lists


@pytest.mark.long
async def test_a_missing_definition_is_reported_until_it_exists(world: SandboxWorld) -> None:
    await world.client.delete(CRDS, "", NAME)
    await until(lambda: "it is not installed" in " ".join(world.replica.waiting_for()))
    await world.client.create(CRDS, "", json.dumps(crd("JobFlow")).encode())
    async with asyncio.timeout(45):
        await world.replica.wait_ready()
    await create(world, template("a"), jobflow("f", {"a": []}))
    await until_phase(world, "Succeed")


async def until_phase(world: SandboxWorld, phase: str) -> None:
    async with asyncio.timeout(30):
        while True:
            flow = await world.client.get(JOBFLOWS, "default", "f", JobFlow)
            if flow.status.state.phase == phase:
                return
            await asyncio.sleep(0.02)
