"""vcjobs whose pods are processes: policies, restarts, deletion, addresses."""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from jobflow.api.resources import JOBS, PODS
from jobflow.sandbox.nodes.process_runner import Addresses, ProcessRunner
from support.sandbox.processes import Pids, job_of, living, pod_task, read_log, sh
from support.sandbox.vcjobs import vcjob
from support.sandbox.volcano_world import NAMESPACE, World, phase, phases, small_world, stand_in


@pytest.fixture
async def world(runner: ProcessRunner) -> AsyncIterator[World]:
    async with small_world() as world, stand_in(world, runner=runner):
        yield world


@pytest.mark.long
async def test_a_parameter_server_ends_with_its_workers(world: World, pids: Pids) -> None:
    """Workers get the server's address from the plugin's variable and connect to it."""
    serve = (
        "import os, socket; s = socket.create_server((os.environ['IP'], 8901));"
        f"open('{pids.path}', 'w').write(str(os.getpid()) + chr(10))\n"
        "while True: s.accept()[0].send(b'weights')"
    )
    ask = (
        "import os, socket, time\n"
        "for _ in range(1000):\n"
        "  try: s = socket.create_connection((os.environ['VC_PS_HOSTS'], 8901)); break\n"
        "  except ConnectionRefusedError: time.sleep(0.01)\n"
        "assert s.recv(100) == b'weights'"
    )
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    python = {"name": "c", "image": "python", "env": [ip]}
    server = pod_task({**python, "command": [sys.executable, "-c", serve]}, task="ps")
    worker = pod_task({**python, "command": [sys.executable, "-c", ask]}, task="w", replicas=2)
    worker["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    await world.create(vcjob("j", server, worker, spec={"plugins": {"svc": []}}))
    [job] = await world.wait_for_end("j")
    assert (phases(job)[-1], phase(job)) == ("Completed", "Completed")
    await world.until(lambda pods: set(pods) == {"j-w-0", "j-w-1"}, PODS)
    assert not living(*await asyncio.to_thread(pids.next, 1))


async def test_a_policy_matches_the_real_exit_code(world: World) -> None:
    policies = [{"exitCode": 42, "action": "CompleteJob"}]
    await world.create(vcjob("j", pod_task(sh("exit 42")), spec={"policies": policies}))
    [job] = await world.wait_for_end("j")
    assert phase(job) == "Completed"


async def test_pods_of_a_claim_share_its_directory(world: World) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "f-data"}}

    def on_volume(script: str, **mount: str) -> dict[str, object]:
        mounts = [{"name": "data", "mountPath": "/data", **mount}]
        return pod_task(sh(script, volumeMounts=mounts), volumes=[claim])

    write = on_volume("mkdir /data/x && echo 42 > /data/x/out", subPath="deep")
    await world.create(vcjob("writes", write))
    await world.wait_for_end("writes")
    read = "test $(cat /data/deep/x/out) = 42 && test ! -e /database"
    await world.create(vcjob("reads", on_volume(read)))
    [job] = await world.wait_for_end("reads")
    assert phase(job) == "Completed"


SERVER = (
    "import os, socket; s = socket.create_server((os.environ['IP'], 8901))\n"
    "while True: s.accept()[0].send(b'weights')"
)
CLIENT = (
    "import socket, sys, time\n"
    "for _ in range(1000):\n"
    "  try: s = socket.create_connection((sys.argv[1].strip(), 8901)); break\n"
    "  except ConnectionRefusedError: time.sleep(0.01)\n"
    "assert s.recv(100) == b'weights'"
)


@pytest.mark.parametrize(
    ("host", "ends"),
    [
        ("server-t-0.server", "Completed"),
        ("server-t-0.server.default.svc.cluster.local", "Completed"),
        ("server-t-0.server.other", "Failed"),
        ("server-t-1.server", "Failed"),
        ("plain-t-0.plain", "Failed"),
    ],
)
async def test_a_pod_of_a_job_with_the_plugin_svc_is_found_by_its_name(
    world: World, host: str, ends: str
) -> None:
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    server = {"name": "c", "image": "x", "command": [sys.executable, "-c", SERVER], "env": [ip]}
    client = {"name": "c", "image": "x", "command": [sys.executable, "-c", CLIENT, "$(HOST)"]}
    client["env"] = [{"name": "HOST", "value": host}]
    await world.create(vcjob("server", pod_task(server), spec={"plugins": {"svc": []}}))
    await world.create(vcjob("plain", pod_task(sh("sleep 600"))))
    for name in ("server-t-0", "plain-t-0"):
        await world.wait_for_pod(name, "Running")
    await world.create(vcjob("client", pod_task(client)))
    await world.until(lambda jobs: phase(jobs["client"]) == ends)


REQUEST = (
    "import sys, time, urllib.error, urllib.request\n"
    "for _ in range(500):\n"
    "  try: sys.exit(urllib.request.urlopen(sys.argv[1]).status != 200)\n"
    "  except urllib.error.URLError as error:\n"
    "    if not isinstance(error.reason, ConnectionRefusedError): raise\n"
    "    time.sleep(0.01)\n"
)


@pytest.mark.parametrize(
    ("url", "ends"),
    [
        ("http://server:8902/", "Completed"),
        ("http://server.default.svc:8902", "Completed"),
        ("http://server.other:8902/", "Failed"),
        ("http://plain:8902/", "Failed"),
    ],
)
async def test_a_service_of_the_plugin_svc_is_found_by_the_name_of_its_job(
    world: World, url: str, ends: str
) -> None:
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    serve = f"cd /tmp && exec {sys.executable} -m http.server 8902 --bind $IP"
    server = pod_task(sh(serve, env=[ip]))
    await world.create(vcjob("server", server, spec={"plugins": {"svc": []}}))
    await world.create(vcjob("plain", pod_task(sh("sleep 600"))))
    for name in ("server-t-0", "plain-t-0"):
        await world.wait_for_pod(name, "Running")
    client = {"name": "c", "image": "x", "command": [sys.executable, "-c", REQUEST, url]}
    await world.create(vcjob("client", pod_task(client)))
    await world.until(lambda jobs: phase(jobs["client"]) == ends)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("http://j", "http://IP"),
        ("grpc://j:80/x", "grpc://IP:80/x"),
        ("http://me:secret@j:80", "http://me:secret@IP:80"),
        ("j:80", "IP:80"),
        ("--hosts=j:80,j.default.svc.cluster.local:81", "--hosts=IP:80,IP:81"),
        ("j", None),
        ("/data/j:1/x", None),
        ("j:latest", None),
        ("http://j-2/j", None),
        ("http://x/j", None),
        ("http://j.io", None),
        ("image/j:80", None),
        ("j:8080-2", None),
    ],
)
def test_the_name_of_a_service_is_replaced_only_in_an_address(
    text: str, replaced: str | None
) -> None:
    addresses = Addresses()
    addresses.publish(job_of(pod_task(sh("")), plugins={"svc": []}))
    address = addresses.of("default", "j-t-0")
    expected = text if replaced is None else replaced.replace("IP", address)
    assert addresses.replace_names("default", text) == expected


async def test_a_pod_finds_the_host_files_of_the_plugin_svc(
    world: World, runner: ProcessRunner
) -> None:
    script = "cat /etc/volcano/my-ps.host; echo; echo $VC_MY_PS_HOSTS | tr , '\\n'"
    read, other = pod_task(sh(script), task="read"), pod_task(sh(""), task="my-ps", replicas=2)
    await world.create(vcjob("j", read, other, spec={"plugins": {"svc": []}}))
    await world.wait_for_end("j")
    first, second, *same = read_log(runner, pod="j-read-0").split()
    assert same == [first, second]


class TestDeletion:
    """Pods and jobs that users delete."""

    async def test_a_pod_is_terminating_until_its_process_has_ended(
        self, world: World, pids: Pids
    ) -> None:
        on_term = f"trap 'cat {pids.gate}; exit 0' TERM"
        script = f"{on_term}; echo $$ > {pids.path}; while :; do sleep 0.01; done"
        await world.create(vcjob("j", pod_task(sh(script))))
        [pid] = await asyncio.to_thread(pids.next, 1)
        await world.wait_for_pod("j-t-0", "Running")
        before = await world.get(PODS, "j-t-0")
        await world.client.delete(PODS, NAMESPACE, "j-t-0")
        await world.until(lambda pods: "deletionTimestamp" in pods["j-t-0"]["metadata"], PODS)
        assert living(pid)
        await asyncio.to_thread(pids.release)
        uid = before["metadata"]["uid"]
        await world.until(
            lambda pods: "j-t-0" in pods and pods["j-t-0"]["metadata"]["uid"] != uid, PODS
        )
        assert not living(pid)

    async def test_a_deleted_job_ends_its_processes(self, world: World, pids: Pids) -> None:
        await world.create(vcjob("j", pod_task(sh(pids.sleeper()), replicas=2)))
        found = await asyncio.to_thread(pids.next, 2)
        await world.client.delete(JOBS, NAMESPACE, "j")
        await world.until(lambda pods: not pods, PODS)
        assert not living(*found)


async def test_processes_end_with_the_job_controller(runner: ProcessRunner, pids: Pids) -> None:
    async with small_world() as world:
        async with stand_in(world, runner=runner):
            await world.create(vcjob("j", pod_task(sh(pids.runaways()))))
            found = await asyncio.to_thread(pids.next, 3)
        assert not living(*found)
