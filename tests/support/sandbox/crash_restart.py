"""Outcome of a flow whose controller dies at one of its writes and is replaced."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import COMMANDS, EVENTS, JOBFLOWS
from jobflow.api.volcano.command import Command
from jobflow.core.names import stored_condition
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from support.cluster.fast_volcano import Player, play_volcano
from support.sandbox.crashing_requests import Dying, Point
from support.sandbox.running_controller import Product, flow_command
from support.time.alongside import alongside
from support.time.leaping_loop import clock, now

WITHIN_SECONDS = 7200.0
"""Timeout in the time of the event loop, which mostly leaps."""


class Watched:
    """A flow of a namespace, its vcjobs and Commands, as a user sees them."""

    def __init__(
        self, client: Client, namespace: str, player: Player, within: float, name: str = ""
    ) -> None:
        """`name`: the name of the flow; "" for the only one."""
        self.name = name
        self.client = client
        self.namespace = namespace
        self.player = player
        self.within = within
        self.changes = 0
        """Number of observed changes of the flow and its vcjobs."""
        self.flows = Cache[JobFlow](self._flow_changed)
        self.commands = Cache[Command](self._command_changed)
        self._changed = asyncio.Event()
        player.changed = self._flow_changed

    async def run(self) -> None:
        backoff = ExponentialBackoff(first=0.001, most=0.1)
        async with asyncio.TaskGroup() as tasks:
            options: dict[str, Any] = {"namespace": self.namespace, "backoff": backoff}
            for reflector in (
                Reflector(self.client, JOBFLOWS, JobFlow, self.flows, **options),
                Reflector(self.client, COMMANDS, Command, self.commands, **options),
            ):
                tasks.create_task(reflector.run())

    @property
    def flow(self) -> JobFlow | None:
        return next((flow for flow in self.flows if self.name in ("", flow.metadata.name)), None)

    def phase(self, job: str) -> str:
        """Return the phase of a vcjob, "" if it does not exist."""
        found = self.player.jobs.get(self.namespace, job)
        return found.status.state.phase if found is not None else ""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        try:
            async with asyncio.timeout(self.within):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            status = self.flow.status if self.flow else None
            raise AssertionError(f"never came true: {status}") from None

    async def runs(self, *jobs: str) -> None:
        """Wait until these vcjobs run, and the statuses of their flows say so."""
        await self.until(lambda: self._recorded_as_running() >= {*jobs})

    async def asks(self, step: str, times: int = 1) -> None:
        """Wait until the flow asks for approval of the step, for so many times."""

        def is_asked() -> bool:
            condition = self.flow and stored_condition(self.flow, step) or StepCondition()
            return (condition.reason, condition.attempts) == ("WaitingForApproval", times)

        await self.until(is_asked)

    def _recorded_as_running(self) -> set[str]:
        conditions = [c for flow in self.flows for c in (flow.status.conditions or {}).values()]
        runs = [run for condition in conditions for run in condition.runs or (condition,)]
        return {run.job for run in runs if run.phase == self.phase(run.job) == "Running"}

    async def gone(self) -> JobFlow:
        """Wait until the flow and its vcjobs are deleted, and return the last state of the flow."""
        await self.until(lambda: self.flow is not None)
        last: list[JobFlow] = []

        def is_deleted() -> bool:
            last[:] = [*self.flows] or last
            return self.flow is None and not len(self.player.jobs)

        await self.until(is_deleted)
        return last[0]

    async def ended(self) -> JobFlow:
        """Wait until the flow is final and no Command remains, and return the flow."""
        await self.until(
            lambda: self.flow is not None and self.flow.final and not len(self.commands)
        )
        assert self.flow is not None
        return self.flow

    async def order(self, action: str, name: str, message: str = "", **outputs: Any) -> None:
        """Create a Command on the flow, and wait until it is deleted."""
        assert self.flow is not None
        body = flow_command(self.flow.metadata, action, name, message, **outputs)
        await self.client.create(COMMANDS, self.namespace, body)
        await self.until(lambda: self.commands.get(self.namespace, name) is not None)
        await self.until(lambda: self.commands.get(self.namespace, name) is None)

    def _flow_changed(self, *_: object) -> None:
        self.changes += 1
        self._changed.set()

    def _command_changed(self, *_: object) -> None:
        self._changed.set()


Orders = Callable[[Watched], Awaitable[None]]


@dataclass
class Tale:
    """A flow with its objects, and the Commands that it gets."""

    objects: Sequence[Mapping[str, Any]]
    orders: Orders | None = None
    stays: bool = True
    """Whether the flow still exists at the end."""
    flow: str = ""
    """The name of the flow, if there are others."""


@dataclass
class End:
    """Result that must not depend on the point of the crash."""

    state: Any
    steps: Mapping[str, Any]
    jobs: Mapping[str, int]
    """Number of vcjobs ever created under each name."""
    refused: Sequence[str]
    """Messages of refused Commands. A Command that is read twice is refused."""


@dataclass
class Lives:
    """Result of one run with a crash."""

    end: End
    reached: bool
    """Whether the run has reached the point."""
    written: list[str] = field(default_factory=list)
    """Writes of the first controller."""


async def lives(
    connect: Callable[[], Awaitable[Dying]],
    namespace: str,
    tale: Tale,
    point: Point,
    *,
    others: Callable[[], Awaitable[Client]] | None = None,
    within: float = WITHIN_SECONDS,
) -> Lives:
    """Run the tale, whose objects exist, with a crash at this point. `others` connects the clients
    that are not those of the product."""
    async with await (others or connect)() as client, play_volcano(client, namespace) as player:
        watched = Watched(client, namespace, player, within, tale.flow)
        finishing = asyncio.create_task(_finish(watched, tale))
        async with alongside(watched.run()):
            try:
                reached, written = await _first_life(await connect(), namespace, finishing, point)
                flow = await _second_life(await connect(), namespace, finishing)
            finally:
                finishing.cancel()
                await asyncio.gather(finishing, return_exceptions=True)
        created = {name: len(uids) for name, uids in sorted(player.uids.items())}
        end = End(*_outcome(flow), created, await _refused(client, namespace))
    return Lives(end, reached, written)


async def _refused(client: Client, namespace: str) -> list[str]:
    events = json.loads(await client.request("GET", EVENTS.path(namespace)))["items"]
    return sorted(each["message"] for each in events if each["reason"] == "CommandRefused")


async def _finish(watched: Watched, tale: Tale) -> JobFlow:
    if tale.orders is not None:
        await watched.until(lambda: watched.flow is not None)
        await tale.orders(watched)
    return await (watched.ended() if tale.stays else watched.gone())


async def _first_life(
    client: Dying, namespace: str, finishing: asyncio.Task[JobFlow], point: Point
) -> tuple[bool, list[str]]:
    """Run until the crash, or until nothing more is written."""
    async with client:
        client.point, dead = point, client.dead
        product = Product(client, namespace=namespace, now=now, clock=clock)
        crashed = asyncio.create_task(dead.wait())
        await asyncio.wait({finishing, crashed}, return_when="FIRST_COMPLETED")
        written = -1
        while finishing.done() and not dead.is_set() and written != len(client.sent):
            written = len(client.sent)
            await asyncio.sleep(2.0)
        crashed.cancel()
        product.check()
        await product.kill()
        return dead.is_set(), client.sent


async def _second_life(client: Dying, namespace: str, finishing: asyncio.Task[JobFlow]) -> JobFlow:
    async with client:
        product = Product(client, namespace=namespace, now=now, clock=clock)
        await asyncio.wait({finishing, product.running}, return_when="FIRST_COMPLETED")
        product.check()
        written = -1
        while written != len(client.sent):
            written = len(client.sent)
            await asyncio.sleep(2.0)
        await product.kill()
    return await finishing


def _outcome(flow: JobFlow) -> tuple[Any, Mapping[str, Any]]:
    """Return a flow's status without times."""
    status = msgspec.to_builtins(flow.status)
    steps = {}
    for key, condition in status.get("conditions", {}).items():
        runs = [_without_times(run) for run in condition.get("runs", ())]
        steps[key] = {**_without_times(condition), "runs": runs}
    return {**status["state"], "progress": status.get("progress")}, steps


STABLE_FIELDS = (
    "index", "phase", "reason", "message", "job", "attempts", "failures", "pastAttempts",
    "outputs", "decisions", "abortTime",
)  # fmt: skip


def _without_times(condition: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: condition[name] for name in STABLE_FIELDS if name in condition}
    if "decisions" in found:  # a run that ends at once was not noted as compared
        found["decisions"] = {k: v for k, v in found["decisions"].items() if k != "compared"}
    return {name: value for name, value in found.items() if value != {}}
