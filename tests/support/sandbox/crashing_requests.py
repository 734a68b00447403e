"""A controller that dies at one of its API requests, for tests that start it afresh after that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from jobflow.kube.client import Client
from support.laws.effort_of_laws import THOROUGH
from support.sandbox.running_controller import Cluster, Product


@dataclass
class Point:
    """Where to crash: at which request, counted from 0; before it is sent or after its commit."""

    number: int
    after: bool

    def __str__(self) -> str:
        return f"request {self.number}, {'after its commit' if self.after else 'before sending'}"


STRIDE = 1 if THOROUGH else 6
"""Every sixth request is one to die at, in a run that may not take long."""


def points(first: int, *, after: bool) -> Iterator[Point]:
    """Where to crash, one after another. Several tests begin at different ones, so that all are
    tried by one of them."""
    for number in count(first % STRIDE, STRIDE):
        yield Point(number, after)


class Dying(Client):
    """A client whose process dies at one of its requests: nothing is sent from there on."""

    counts_reads = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.point = Point(-1, after=False)
        """No request has this number."""
        self.sent: list[str] = []
        """The requests that count: writes, or all."""
        self.dead = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        here = False
        if method != "GET" or self.counts_reads:
            here = len(self.sent) == self.point.number
            self.sent.append(f"{method} {path}")
        if here and not self.point.after:
            self.dead.set()
        await self._alive()
        answer = await super().request(method, path, **more)
        if here:
            self.dead.set()
        await self._alive()
        return answer

    async def _alive(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()


class DyingAnywhere(Dying):
    """A client whose process dies at any request, reads included."""

    counts_reads = True


async def first_life(world: Cluster, point: Point) -> bool:
    """Run the product until it dies at this point, or until the flow `f` has ended and all is said
    and done. Returns whether it died."""
    async with DyingAnywhere.at(world.server.url) as client:
        client.point, dead = point, client.dead
        product = Product(client)
        ended = asyncio.create_task(world.until("f", lambda flow: flow.final))
        crashed = asyncio.create_task(dead.wait())
        await asyncio.wait({ended, crashed}, return_when="FIRST_COMPLETED")
        if ended.done():
            await settled(client)
        await product.kill()
        for task in (ended, crashed):
            task.cancel()
        await asyncio.gather(ended, crashed, return_exceptions=True)
        return dead.is_set()


async def settled(client: Dying) -> None:
    """Return when the controller has nothing more to send."""
    before = -1
    while before != len(client.sent):
        before = len(client.sent)
        await asyncio.sleep(0.03)
