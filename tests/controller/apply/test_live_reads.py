"""Live reads: their number is limited for all flows together, and flows take turns."""

import asyncio
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.objects import READS_AT_ONCE
from jobflow.controller.apply.requests import Applied
from jobflow.core.planning.actions import Action, Plan, ReadJob, ReadPods
from jobflow.kube.client import Client
from jobflow.kube.connections import CONNECTIONS
from jobflow.kube.credentials import Credentials, Login
from jobflow.store import Store
from support.sandbox.running_controller import flow
from support.time.virtual_time import in_virtual_time

READ_SECONDS = 1.0
MANY = 200


class Slow(Client):
    def __init__(self) -> None:
        super().__init__(Credentials(Login("http://nowhere")))
        self.in_progress = 0
        self.most = 0
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        assert method == "GET"
        self.asked.append(path)
        self.in_progress += 1
        self.most = max(self.most, self.in_progress)
        await asyncio.sleep(READ_SECONDS)
        self.in_progress -= 1
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": []})


class World:
    """Flows whose plans read live."""

    def __init__(self) -> None:
        self.client = Slow()
        self._applier = Applier(self.client, Store(), Memory())

    async def apply(self, name: str, *actions: Action) -> Applied:
        manifest = flow(name, {"a": ""})
        manifest["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
        subject = msgspec.convert(manifest, JobFlow)
        plan = Plan(actions=actions, status=subject.status)
        return await self._applier.apply(subject, plan, write_status=False)


def reads(name: str, count: int) -> tuple[Action, ...]:
    return tuple(ReadPods(f"{name}-{number}", f"uid-{name}-{number}") for number in range(count))


def test_the_reads_of_all_flows_have_a_common_limit() -> None:
    async def main() -> World:
        world = World()
        async with asyncio.TaskGroup() as group:
            for number in range(32):
                name = f"f{number}"
                group.create_task(world.apply(name, *reads(name, MANY // 4), ReadJob("x")))
        return world

    client = in_virtual_time(main()).client
    assert client.most == READS_AT_ONCE < CONNECTIONS
    assert len(client.asked) >= 32 * MANY // 4


def test_flows_with_many_reads_do_not_delay_one_with_a_single_read() -> None:
    async def main() -> float:
        world, loop = World(), asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            for name in "abcdefgh":
                group.create_task(world.apply(name, *reads(name, MANY)))
            await asyncio.sleep(READ_SECONDS / 2)
            before = loop.time()
            applied = await world.apply("z", *reads("z", 1))
            waited = loop.time() - before
        assert (applied.again, applied.errors) == (True, [])
        return waited

    assert in_virtual_time(main()) <= 2 * READ_SECONDS
