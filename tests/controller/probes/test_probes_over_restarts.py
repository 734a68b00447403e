"""Probes with real connections and the whole controller: during restarts, and many at once."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBS
from jobflow.api.volcano.job import Job
from jobflow.controller.wants import PROCESSES
from support.sandbox.job_pods import make_pod, move_pod
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, set_phase, template

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods need addresses of their own")

FIRST, SECOND = "127.0.0.1", "127.0.0.2"


class Pods:
    """A server at every address of this machine, in place of pods."""

    def __init__(self) -> None:
        self.port = 0
        self.ready: set[str] = set()
        """Addresses of pods that answer 200 instead of 503."""
        self.asked: Counter[tuple[str, str]] = Counter()
        """(address, path)."""
        self.order: list[str] = []
        """The addresses in the order of the requests."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        address, path = writer.get_extra_info("sockname")[0], request.split()[1].decode()
        self.asked[address, path] += 1
        self.order.append(address)
        code = "200 OK" if address in self.ready else "503 Unavailable"
        writer.write(f"HTTP/1.1 {code}\r\n\r\n".encode())
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    servers = Pods()
    async with await asyncio.start_server(servers.answer, "0.0.0.0", 0) as listening:
        servers.port = listening.sockets[0].getsockname()[1]
        yield servers


def probing_step(name: str, targets: str, port: int, path: str = "/ready") -> dict[str, Any]:
    probe = {"httpGetList": [{"taskName": "main", "path": path, "port": port}]}
    depends_on = {"targets": targets.split(), "probe": probe}
    return {"name": name, "template": "t", "dependsOn": depends_on}


async def start_pod(world: Cluster, name: str, ip: str) -> None:
    await world.seen(JOBS, Job, lambda jobs: name in jobs)
    await set_phase(world.client, name, "Running")
    job = await world.client.get(JOBS, NAMESPACE, name, Job)
    pod = await make_pod(world.client, job.metadata)
    await move_pod(world.client, NAMESPACE, pod, "Running", podIP=ip)


def has_message(flow: JobFlow, step: str, words: str) -> bool:
    condition = (flow.status.conditions or {}).get(f"{flow.metadata.name}-{step}")
    return condition is not None and words in f"{condition.message} {condition.passed_targets}"


@pytest.mark.long
async def test_the_next_controller_sends_a_waiting_probe(world: Cluster, pods: Pods) -> None:
    await world.apply(template("t"), template("a"))
    await world.apply(flow("f", {}, flows=[{"name": "a"}, probing_step("b", "a", pods.port)]))
    async with world.controller(outside=PROCESSES):
        await start_pod(world, "f-a", FIRST)
        await world.until("f", lambda flow: has_message(flow, "b", "answers 503"))
    before = pods.asked.total()
    pods.ready = {FIRST}
    async with world.controller(outside=PROCESSES):
        await world.until_jobs(f_a="Running", f_b="")
    assert pods.asked.total() == before + 1
    assert world.count("POST", JOBS) == 2


async def test_the_next_controller_skips_a_passed_target(world: Cluster, pods: Pods) -> None:
    await world.apply(*map(template, "tab"))
    steps = [{"name": "a"}, {"name": "b"}, probing_step("c", "a b", pods.port)]
    await world.apply(flow("f", {}, flows=steps))
    pods.ready = {FIRST}
    async with world.controller(outside=PROCESSES):
        await start_pod(world, "f-a", FIRST)
        await start_pod(world, "f-b", SECOND)
        await world.until("f", lambda flow: has_message(flow, "c", "['a']"))
        await world.until("f", lambda flow: has_message(flow, "c", "of pod f-b-main-0 answers 503"))
    first = pods.asked[FIRST, "/ready"]
    pods.ready = {SECOND}
    async with world.controller(outside=PROCESSES):
        await world.until_jobs(f_a="Running", f_b="Running", f_c="")
    assert (first, pods.asked[FIRST, "/ready"]) == (1, 1)
    assert world.count("POST", JOBS) == 3


async def test_a_pass_counts_after_the_target_has_ended(world: Cluster, pods: Pods) -> None:
    """The probe of b has passed, and its template is created when its target has ended."""
    await world.apply(template("a"))
    await world.apply(flow("f", {}, flows=[{"name": "a"}, probing_step("b", "a", pods.port)]))
    pods.ready = {FIRST}
    async with world.controller(outside=PROCESSES):
        await start_pod(world, "f-a", FIRST)
        await world.until("f", lambda flow: has_message(flow, "b", "['a']"))
    pods.ready = set()
    await set_phase(world.client, "f-a", "Completed")
    await world.apply(template("t"))
    async with world.controller(outside=PROCESSES):
        await world.until_jobs(f_a="Completed", f_b="")
    assert pods.asked[FIRST, "/ready"] == 1


@pytest.mark.long
async def test_two_flows_with_fifty_probes_share_the_budget(world: Cluster, pods: Pods) -> None:
    paths = [f"/{number}" for number in range(50)]
    await world.apply(template("t"), template("a"))
    for name in "fg":
        steps = [probing_step(f"s{n}", "a", pods.port, path) for n, path in enumerate(paths)]
        await world.apply(flow(name, {}, flows=[{"name": "a"}, *steps]))
    async with world.controller(outside=PROCESSES):
        await world.until_jobs(f_a="", g_a="")
    await start_pod(world, "f-a", FIRST)
    await start_pod(world, "g-a", SECOND)
    async with (
        world.ends({"f-a": "", "g-a": ""}),
        world.controller(outside=PROCESSES),
    ):  # both start to probe at once
        for name in "fg":
            await world.until(
                name, lambda flow: all(has_message(flow, f"s{n}", "answers 503") for n in range(50))
            )
        assert is_fair(pods.order[:100])
        pods.ready = {FIRST, SECOND}
        for name in "fg":
            await world.until(name, lambda flow: flow.status.progress == "50/51")
            await set_phase(world.client, f"{name}-a", "Completed")
            assert (await world.ended(name)).status.state.phase == "Succeed"
    assert pods.asked.keys() == {(ip, path) for ip in (FIRST, SECOND) for path in paths}
    assert world.count("POST", JOBS) == 102


def is_fair(order: Sequence[str]) -> bool:
    """Whether each has its share of every two tenths of a second while both probe."""
    both = order[order.index(SECOND) : min(_last(order, FIRST), _last(order, SECOND))]
    shares = [Counter(both[at : at + 20]) for at in range(len(both) - 20)]
    return len(shares) > 40 and all(min(share[FIRST], share[SECOND]) >= 5 for share in shares)


def _last(order: Sequence[str], one: str) -> int:
    return max(at for at, address in enumerate(order) if address == one)
