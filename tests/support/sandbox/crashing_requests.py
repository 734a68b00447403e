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


class Crashing(Client):
    """A client whose process dies at one point: nothing is sent from there on."""

    point = Point(0, after=False)

    def arm(self, point: Point) -> asyncio.Event:
        """Die there; the event says when."""
        self.point = point
        self.sent: list[str] = []
        self.dead = asyncio.Event()
        return self.dead

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        number = len(self.sent)
        self.sent.append(f"{method} {path}")
        here = number == self.point.number
        if here and not self.point.after:
            self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()
        answer = await super().request(method, path, **more)
        if here:
            self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()
        return answer


async def first_life(world: Cluster, point: Point) -> bool:
    """Run the product until it dies at this point, or until the flow `f` has ended and all is said
    and done. Returns whether it died."""
    async with Crashing.at(world.server.url) as client:
        assert isinstance(client, Crashing)
        dead = client.arm(point)
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


async def settled(client: Crashing) -> None:
    """Return when the controller has nothing more to send."""
    before = -1
    while before != len(client.sent):
        before = len(client.sent)
        await asyncio.sleep(0.03)
