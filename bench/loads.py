"""Loads of flows, and what one controller does with one of them."""

import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from bench import samples
from bench.controllers import Controller
from bench.driver import Seen
from bench.wire import Pool, Where, watch

CREATING = 16
"""Connections for creating flows."""
ENDED_WITHIN_SECONDS = 900
"""Argo takes 10 s a hand-over with its defaults."""


@dataclass(frozen=True, slots=True)
class Load:
    """Flows of one shape: `targets` of each step by index."""

    name: str
    targets: list[list[int]]
    flows: int
    a_second: int = 0
    """0: all at once."""
    places: int = 0
    """The places that all steps share by flows[].concurrency, which only JobFlow has; 0: none."""

    def scaled(self, scale: float, seconds: float) -> "Load":
        """Return a smaller load; one that has a rate lasts `seconds`."""
        flows = self.a_second * seconds if self.a_second else self.flows * scale
        return replace(self, flows=max(1, round(flows)))

    @property
    def hand_overs(self) -> int:
        """How many steps wait for others, in all flows."""
        return self.flows * sum(1 for before in self.targets if before)


LOADS = (
    Load("burst", samples.diamond(), 100),
    Load("steady", samples.diamond(), 60, a_second=3),
    Load("wide", samples.wide(100), 3),
    Load("chains", samples.chain(30), 5),
    Load("places", [[]], 1_000, places=3),
)
"""Diamonds at once; diamonds at a rate; a root, 98 parallel steps, a join; chains of 30 steps;
flows of one step, of which three run at once."""


def waits(seen: Iterable[Seen], targets: list[list[int]]) -> Iterator[float]:
    """Return the seconds from the event that ends the last target of a step to the ADDED event of
    the step's job, both as the driver's watch brings them."""
    added: dict[str, float] = {}
    ended: dict[str, float] = {}
    for event in seen:
        if event.phase == "Completed":
            ended.setdefault(event.name, event.at)
        elif event.type == "ADDED":
            added[event.name] = event.at
    for name, at in added.items():
        flow, _, number = name.rpartition("-step-")
        # Argo has a node for the flow itself, without a pod.
        if before := targets[int(number)]:
            yield at - max(ended[f"{flow}-step-{target}"] for target in before)


def percentiles(took: list[float]) -> tuple[float, float]:
    """Return the 50th and the 99th percentile."""
    found = statistics.quantiles(took, n=100, method="inclusive")
    return found[49], found[98]


async def carried(where: Where, controller: Controller, namespace: str, load: Load) -> float:
    """Create the flows; return the seconds until a watch has shown that the last one succeeded.

    Raises AssertionError if a flow fails, TimeoutError if one does not end.
    """
    ends: dict[str, str] = {}
    over = asyncio.Event()

    def frame(line: bytes) -> str:
        flow = msgspec.json.decode(line)["object"]
        phase = phase_of(flow, controller.phase)
        if phase in controller.ended:
            ends[flow["metadata"]["name"]] = phase
            if len(ends) == load.flows:
                over.set()
        version: str = flow["metadata"]["resourceVersion"]
        return version

    path = controller.flows.path(namespace)
    watching = asyncio.create_task(watch(where, path, frame))
    pool = await Pool(where).open(CREATING)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as creating:
        for number in range(load.flows):
            body = controller.flow(load.targets, f"f{number}", load.places)
            creating.create_task(pool.ask("POST", path, body, "application/json"))
            if load.a_second:
                due = began + (number + 1) / load.a_second
                await asyncio.sleep(due - time.perf_counter())
    async with asyncio.timeout(ENDED_WITHIN_SECONDS):
        await over.wait()
    took = time.perf_counter() - began
    watching.cancel()
    await asyncio.wait([watching])
    pool.close()
    assert set(ends.values()) == {controller.succeeded}, ends
    return took


def phase_of(flow: dict[str, Any], path: tuple[str, ...]) -> str:
    """Return the phase at a path in a flow, "" if it has none yet."""
    value: Any = flow
    for key in path:
        value = (value or {}).get(key)
    return value or ""
