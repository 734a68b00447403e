"""Volumes of process pods: emptyDir, Secrets, ConfigMaps; pods that wait for them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobflow.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    SECRETS,
    VOLUME_CLAIMS,
)
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.sandbox.processes import Json, pod_task, read_log, run_pod, sh
from support.sandbox.vcjobs import vcjob
from support.sandbox.volcano_world import NAMESPACE, World, phase, small_world, stand_in


@pytest.fixture
async def world(runner: ProcessRunner) -> AsyncIterator[World]:
    async with small_world() as world, stand_in(world, runner=runner):
        yield world


async def create_secret(world: World, **texts: str) -> None:
    secret = {**SECRETS.type_meta, "metadata": {"name": "s"}, "stringData": texts}
    await world.client.create(SECRETS, NAMESPACE, msgspec.json.encode(secret))


async def run(world: World, script: str, *volumes: Json, **spec: Any) -> str:
    """Run a pod that mounts each volume below /v; return how its vcjob ended."""
    mounts = [{"name": each["name"], "mountPath": f"/v/{each['name']}"} for each in volumes]
    container = sh(script, volumeMounts=mounts)
    task = pod_task(container, volumes=list(volumes), **spec)
    await world.create(vcjob("j", task))
    [job] = await world.wait_for_end("j")
    return phase(job)


async def test_an_empty_dir_is_a_folder_of_the_pod_that_its_containers_share(world: World) -> None:
    mounts = [{"name": "files", "mountPath": "/files"}]
    fill = sh("ls /files; echo 1 > /files/a", name="fill", volumeMounts=mounts)
    read = sh("cat /files/a", volumeMounts=mounts)
    volume = {"name": "files", "emptyDir": {}}
    task = pod_task(read, initContainers=[fill], volumes=[volume], replicas=2)
    await world.create(vcjob("j", task))
    [job] = await world.wait_for_end("j")
    # `ls` prints nothing: the other pod has a folder of its own.
    assert phase(job) == "Completed"


def exists(path: str) -> bool:
    return Path(path).exists()


async def test_an_empty_dir_outlives_a_container_and_ends_with_its_pod(
    runner: ProcessRunner,
) -> None:
    container = sh(
        "echo /files; test -e /files/a && exit; touch /files/a; exit 1",
        volumeMounts=[{"name": "files", "mountPath": "/files"}],
    )
    volumes = [{"name": "files", "emptyDir": {}}]
    reports = await run_pod(runner, pod_task(container, volumes=volumes, restartPolicy="OnFailure"))
    assert reports.phases[-1] == "Succeeded"
    folder = read_log(runner).strip()
    assert folder.endswith("/files") and not exists(folder)


async def test_files_of_secrets_and_config_maps_are_private(
    world: World, runner: ProcessRunner
) -> None:
    await create_secret(world, key="hidden", script="echo ran")
    binary = {**CONFIG_MAPS.type_meta, "metadata": {"name": "c"}}
    binary |= {"data": {"a": "1"}, "binaryData": {"b": "AgM="}}
    await world.client.create(CONFIG_MAPS, NAMESPACE, msgspec.json.encode(binary))
    items = [{"key": "script", "path": "bin/run", "mode": 0o755}]
    sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s", "items": items}}]
    ended = await run(
        world,
        "stat -Lc '%a %n' /v/s/* | sed 's, .*/, ,'; wc -c < /v/all/b; cat /v/all/a; /v/all/bin/run",
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "all", "projected": {"sources": sources}},
        {"name": "gone", "secret": {"secretName": "gone", "optional": True}},
    )
    assert ended == "Completed"
    assert read_log(runner) == "600 key\n600 script\n2\n1ran\n"


@pytest.mark.parametrize(
    ("container", "volumes", "state", "event"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            [],
            {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'},
            ("Failed", 'Error: secret "s" not found'),
        ),
        (
            {},
            [{"name": "v", "secret": {"secretName": "s"}}],
            {"reason": "ContainerCreating"},
            (
                "FailedMount",
                'MountVolume.SetUp failed for volume "v" : secret "s" not found',
            ),
        ),
    ],
)
async def test_a_pod_without_its_secret_waits_as_a_kubelet_says_it_and_starts_once_it_is_there(
    world: World, container: Json, volumes: list[Json], state: Json, event: tuple[str, str]
) -> None:
    await world.create(vcjob("j", pod_task(sh("exit 0", **container), volumes=volumes)))

    def waits(pods: dict[str, Json]) -> bool:
        [pod] = pods.values() or [{}]
        statuses = pod.get("status", {}).get("containerStatuses", [])
        return [each["state"] for each in statuses] == [{"waiting": state}]

    await world.until(waits, PODS)
    await world.until(
        lambda events: event in [(e["reason"], e["message"]) for e in events.values()], EVENTS
    )
    await create_secret(world, k="1")
    [job] = await world.wait_for_end("j")
    assert phase(job) == "Completed"


async def test_a_pod_that_waits_for_a_secret_can_be_deleted(world: World) -> None:
    volume = {"name": "v", "secret": {"secretName": "s"}}
    await world.create(vcjob("j", pod_task(sh(""), volumes=[volume])))
    await world.until(lambda events: bool(events), EVENTS)
    uid = (await world.get(PODS, "j-t-0"))["metadata"]["uid"]
    await world.client.delete(PODS, NAMESPACE, "j-t-0")
    await world.until(lambda pods: uid not in [p["metadata"]["uid"] for p in pods.values()], PODS)


async def test_a_claim_is_one_folder_until_it_is_deleted(world: World) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "f-data"}}

    async def runs(name: str, script: str) -> str:
        mounts = [{"name": "data", "mountPath": "/data"}]
        job = vcjob(name, pod_task(sh(script, volumeMounts=mounts), volumes=[volume]))
        await world.create(job)
        [ended] = await world.wait_for_end(name)
        return phase(ended)

    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {**VOLUME_CLAIMS.type_meta, "metadata": {"name": "f-data"}, "spec": spec}
    await world.client.create(VOLUME_CLAIMS, NAMESPACE, msgspec.json.encode(claim))
    assert await runs("f", "echo 42 > /data/x") == "Completed"
    assert await runs("g", "test -e /data/x") == "Completed"
    await world.client.delete(VOLUME_CLAIMS, NAMESPACE, "f-data")
    await world.client.create(VOLUME_CLAIMS, NAMESPACE, msgspec.json.encode(claim))
    assert await runs("h", "test ! -e /data/x") == "Completed"
