"""Several processes in an election on one API server, with simulated time, network, clocks and
pauses. The code under test is the real Election, each in its own event loop.

Time passes only between two steps, so a run of minutes takes milliseconds and is always the same
for the same seed. Two faults are omitted because no process can prevent them: a pause between
the last read of the clock and the system call that sends, and a network that keeps a write longer
than `Timing.write`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

from jobflow.api.resources import JOBS
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.connections import Connections
from jobflow.kube.credentials import Credentials, Login
from jobflow.kube.election import election
from jobflow.kube.election.candidate import Timing
from jobflow.kube.election.election import Election, Fence, FencedClient
from support.time.fault_plan import Life, Mishap, Weather
from support.time.one_lease import NAME, NAMESPACE, Landed, Reply, Server, failure

TICK = 1e-6
WRITE_EVERY = 0.3
MAX_STEPS = 200_000
"""The maximum number of steps of one run; more means an endless loop."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop with the time of a process."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        super().__init__()

    def time(self) -> float:
        return self._time()

    def step(self) -> None:
        """Run one iteration."""
        self.call_soon(self.stop)
        self.run_forever()

    def due(self) -> float:
        """Return the time of its next step, by the clock of the process."""
        if self._ready:  # type: ignore[attr-defined]
            return -math.inf
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else math.inf


class SimulatedConnections(Connections):
    """Connections over the simulated network that check the fence right before a write."""

    def __init__(self, process: Process, fence: Fence | None = None) -> None:
        super().__init__(Credentials(Login("http://simulated")))
        self._process = process
        self._fence = fence

    async def open(
        self, method: str, path: str, *, body: bytes | None = None, **options: Any
    ) -> Any:
        if self._fence is not None:
            self._fence.check()
        write = self._fence is not None
        return await self._process.exchange(method, path, body or b"", write=write)


class Plain(Client):
    """The client of the process. The simulated network has no connections to wait for."""

    def __init__(self, process: Process) -> None:
        connections = SimulatedConnections(process)
        super().__init__(connections.auth, connections=connections)
        self.process = process

    def sibling(self) -> Client:
        return self


class Fenced(FencedClient):
    """A client that writes over the simulated network."""

    def __init__(self, client: Plain, fence: Fence, write_seconds: float) -> None:
        super().__init__(client, fence, write_seconds)
        self._connections = SimulatedConnections(client.process, fence)


class Process:
    """One replica from its start to its end."""

    def __init__(self, world: Simulation, number: int, life: Life, timing: Timing) -> None:
        self.world, self.life = world, life
        self.identity = f"process-{number}"
        self.alive = True
        self.paused_until = -math.inf
        self.suspended = 0.0
        self._offset = 1000.0 * number
        self._skew = timedelta()
        self._frozen: datetime | None = None
        self.randomness = random.Random(f"{world.seed} {number}")
        self.loop = Loop(lambda: self.clock() - self.suspended * life.rate)
        client = Plain(self)
        self.election = Election(
            client,
            self._lead,
            namespace=NAMESPACE,
            name=NAME,
            identity=self.identity,
            timing=timing,
            clock=self.clock,
            wall=self.wall,
        )
        self.running = self.loop.create_task(self.election.run())

    def clock(self) -> float:
        return self._offset + self.world.now * self.life.rate

    def wall(self) -> datetime:
        return self._frozen or self._wall()

    def _wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.now) + self._skew

    @property
    def leads(self) -> bool:
        return self.alive and self.election._candidate.leads(self.clock())

    def wakes_at(self) -> float:
        """Return the time of the next step, by the clock of the simulation."""
        if not self.alive:
            return math.inf
        due = (self.loop.due() - self._offset) / self.life.rate + self.suspended
        return max(self.world.now, self.paused_until, due + TICK)

    def step(self) -> None:
        self.loop.step()
        if self.running.done():
            self.end()

    def end(self) -> None:
        """End the process. Requests that it has sent still arrive."""
        self.alive = False
        if self.running.done():
            self.running.result()
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.step()
        self.loop.close()

    def apply(self, mishap: Mishap) -> None:
        if mishap.kind == "wall":
            self._skew = timedelta(seconds=mishap.seconds)
            self._frozen = None
        elif mishap.kind == "freeze":
            self._frozen = self._wall()
        elif mishap.kind == "stop":
            self.loop.call_soon(self.election.stopping.set)
        elif mishap.kind == "kill":
            self.end()
        else:
            self.paused_until = max(self.paused_until, self.world.now + mishap.seconds)
            if mishap.kind == "suspend":
                self.suspended += mishap.seconds

    # ------------------------------------------------------------------ steps

    async def _lead(self, client: Client, ending: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._write(client, ending))

    async def _write(self, client: Client, ending: asyncio.Event) -> None:
        while not ending.is_set():
            with suppress(ApiError, *NETWORK_ERRORS):
                await client.create(JOBS, "ns", b"{}")
            await asyncio.sleep(WRITE_EVERY)

    async def exchange(self, method: str, path: str, body: bytes, *, write: bool = False) -> Reply:
        """Send a request and return its answer, with the delays and losses of the weather."""
        answer: asyncio.Future[Reply] = self.loop.create_future()
        delay, back, error = self._delays(self.life.weather(self.world.now))
        if not self.alive or (write and delay > self.world.timing.write):
            delay = math.inf

        def arrive() -> None:
            if error == "before":
                reply = failure(500, "InternalError")
            else:
                reply = self.world.server.handle(self.world.now, method, path, body, self.identity)
                if error == "after":
                    reply = failure(500, "InternalError")
            self.world.at(self.world.now + back, lambda: self._deliver(answer, reply))

        self.world.at(self.world.now + delay, arrive)
        return await answer

    def _deliver(self, answer: asyncio.Future[Reply], reply: Reply) -> None:
        def set_result() -> None:
            if not answer.done():
                answer.set_result(reply)

        if self.alive:
            self.loop.call_soon(set_result)

    def _delays(self, weather: Weather) -> tuple[float, float, str]:
        """Return the seconds of request and answer, infinite if lost, and the kind of error."""
        if weather is Weather.MIXED:
            weather = self.randomness.choice([w for w in Weather if w is not Weather.MIXED])
        fast = self.randomness.uniform(0.001, 0.02), self.randomness.uniform(0.001, 0.02)
        match weather:
            case Weather.SLOW:
                return self.randomness.uniform(0, 8), self.randomness.uniform(0, 8), ""
            case Weather.REQUESTS_LOST:
                return math.inf, 0, ""
            case Weather.ANSWERS_LOST:
                return fast[0], math.inf, ""
            case Weather.ERRORS_BEFORE:
                return *fast, "before"
            case Weather.ERRORS_AFTER:
                return *fast, "after"
        return *fast, ""


class Simulation:
    """A server, processes and time."""

    def __init__(self, lives: list[Life], *, seed: int = 0, timing: Timing | None = None) -> None:
        self.now = 0.0
        self.seed = seed
        self.timing = timing or Timing()
        self.server = Server(lambda: self.leaders[-1][1] if self.leaders else None)
        self.leaders: list[tuple[float, str]] = []
        """Each process that started to lead, with the time."""
        self.final: str | None = None
        """The leader at the end of the run."""
        self.survivors: list[Process] = []
        """The processes that were alive at the end of the run."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count()
        self.processes = [self._start(life) for life in lives]
        for index, life in enumerate(lives):
            for mishap in life.mishaps:
                self.at(mishap.at, partial(self._apply, index, mishap))

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call this at that time; never if it is infinite."""
        if when < math.inf:
            heapq.heappush(self._events, (when, next(self._order), call))

    def run(self, until: float) -> None:
        """Let time pass. After every step at most one process may consider itself the leader."""
        with patch.object(election, "FencedClient", Fenced):
            for _ in range(MAX_STEPS):
                process = min(self.processes, key=Process.wakes_at)
                event_at = self._events[0][0] if self._events else math.inf
                self.now = max(self.now, min(process.wakes_at(), event_at))
                if self.now >= until:
                    self.now = until
                    return
                if event_at <= self.now:
                    heapq.heappop(self._events)[2]()
                else:
                    process.step()
                self._record()
        raise AssertionError("it goes on and on without time passing")

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                process.end()

    @property
    def leader(self) -> Process | None:
        """The process that considers itself the leader. Raises AssertionError for two."""
        leaders = [process for process in self.processes if process.leads]
        assert len(leaders) <= 1, f"at {self.now}: {[kind.identity for kind in leaders]} all lead"
        return leaders[0] if leaders else None

    def trespasses(self) -> list[Landed]:
        """Writes that were stored while the writer did not hold the Lease."""
        return [kind for kind in self.server.landed if kind.holder != kind.writer]

    def latecomers(self) -> list[Landed]:
        """Writes that were stored after another process had started to lead."""
        return [kind for kind in self.server.landed if kind.leader != kind.writer]

    def _record(self) -> None:
        leader = self.leader
        if leader is not None and (not self.leaders or self.leaders[-1][1] != leader.identity):
            self.leaders.append((self.now, leader.identity))

    def _start(self, life: Life) -> Process:
        return Process(self, next(self._numbers), life, self.timing)

    def _apply(self, index: int, mishap: Mishap) -> None:
        process = self.processes[index]
        if mishap.kind == "delete":
            self.server.delete()
        elif mishap.kind == "start":
            if not process.alive:
                self.processes[index] = self._start(process.life)
        elif process.alive:
            process.apply(mishap)


def simulate(*lives: Life, until: float, seed: int = 0, timing: Timing | None = None) -> Simulation:
    """Run a simulation; everything is closed when it returns."""
    world = Simulation(list(lives), seed=seed, timing=timing)
    try:
        world.run(until)
        world.final = world.leader.identity if world.leader else None
        world.survivors = [process for process in world.processes if process.alive]
    finally:
        world.close()
    return world
