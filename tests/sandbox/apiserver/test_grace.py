"""Deleted pods: a pod on a node exists until the node confirms, as on a real API server."""

from typing import Any

import msgspec
import pytest

from jobflow.api.resources import PODS
from support.sandbox.running_controller import merge, write_status
from support.sandbox.volcano_world import NAMESPACE, World, small_world

PATH = PODS.path(NAMESPACE, "p")


async def delete(world: World, **options: Any) -> dict[str, Any] | None:
    """Delete the pod with these options, and return it, or None if it no longer exists."""
    await world.client.request("DELETE", PATH, body=msgspec.json.encode(options))
    return next(iter(await world.items(PODS)), None)


async def create(world: World, phase: str = "Running", **spec: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await world.client.create(PODS, NAMESPACE, msgspec.json.encode(pod))
    await write_status(world.client, PODS, "p", {"phase": phase})


@pytest.mark.parametrize(
    ("spec", "options", "seconds"),
    [
        ({}, {}, 30),
        ({"terminationGracePeriodSeconds": 5}, {}, 5),
        ({"terminationGracePeriodSeconds": 5}, {"gracePeriodSeconds": 7}, 7),
    ],
)
async def test_a_deleted_pod_has_a_grace_period(
    spec: dict[str, Any], options: dict[str, Any], seconds: int
) -> None:
    async with small_world() as world:
        await create(world, nodeName="n", **spec)
        pod = await delete(world, **options)
        assert pod is not None
        assert pod["metadata"]["deletionGracePeriodSeconds"] == seconds
        await merge(world.client, PODS, "p", {"metadata": {"annotations": {"a": "b"}}})
        assert await delete(world, gracePeriodSeconds=60) is not None
        assert await delete(world, gracePeriodSeconds=0) is None


@pytest.mark.parametrize(
    ("phase", "spec", "options"),
    [
        ("Running", {"nodeName": "n"}, {"gracePeriodSeconds": 0}),
        ("Running", {"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}),
        ("Succeeded", {"nodeName": "n"}, {}),
        ("Failed", {"nodeName": "n"}, {"gracePeriodSeconds": 9}),
        ("Pending", {}, {}),
    ],
)
async def test_a_pod_without_a_grace_period_is_deleted_immediately(
    phase: str, spec: dict[str, Any], options: dict[str, Any]
) -> None:
    async with small_world() as world:
        await create(world, phase, **spec)
        assert await delete(world, **options) is None
