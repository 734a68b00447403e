"""What happens to a replica of `jobflow serve` and to its connection to the API server."""

import asyncio
from random import Random

from aiohttp import web

from chaos.schedule import Cause, Disturbance, Kind, Lane
from chaos.world import World
from support.network.faulty_proxy import EndWatch, Fault, Page, Refuse, Slow, is_watch

AHEAD_SECONDS = (-600, 600)
SHARE = 0.3
"""Of the requests that a fault hits."""
LONG = (3.0, 20.0)


def restart(*, hard: bool, ahead: tuple[int, ...] = (0,)) -> Cause:
    """End the replica, and start it again with a clock that is ahead by one of these seconds."""

    async def cause(world: World, event: Disturbance) -> None:
        replica = world.replicas[event.lane]
        await replica.stop(hard=hard)
        await asyncio.sleep(event.seconds)
        replica.set_clock(event.choose(ahead))
        await replica.start()

    return cause


async def freeze(world: World, event: Disturbance) -> None:
    serve = world.replicas[event.lane].serve
    serve.freeze()
    await asyncio.sleep(event.seconds)
    serve.thaw()


async def half_open(world: World, event: Disturbance) -> None:
    hop = world.replicas[event.lane].hop
    hop.go_dark()
    await asyncio.sleep(event.seconds)
    hop.light_up()


async def cut(world: World, event: Disturbance) -> None:
    world.replicas[event.lane].hop.cut_connections()


def answers(made: Fault, *, watches: bool = False) -> Cause:
    """Let a fault hit a share of the requests, or all watches."""

    async def cause(world: World, event: Disturbance) -> None:
        proxy, dice = world.replicas[event.lane].proxy, Random(event.pick)

        def fault(request: web.Request) -> Fault:
            return made if (is_watch(request) if watches else dice.random() < SHARE) else None

        proxy.faults = fault
        await asyncio.sleep(event.seconds)
        proxy.heal()

    return cause


EXECUTED = Refuse(500, "InternalError", executed=True)
LANE = Lane(
    (
        Kind("killed", restart(hard=True), (0.0, 10.0)),
        Kind("stopped and started", restart(hard=False), (0.0, 5.0)),
        Kind("started with a clock ten minutes off", restart(hard=True, ahead=AHEAD_SECONDS)),
        Kind("frozen", freeze, (2.0, 25.0)),
        Kind("its connections are half open", half_open, (2.0, 25.0)),
        Kind("its connections are cut", cut),
        Kind("answers are slow", answers(Slow(1.0)), LONG),
        Kind("answers are 429", answers(Refuse(429, "TooManyRequests", retry_after=1)), LONG),
        Kind("answers are 500", answers(Refuse(500, "InternalError")), LONG),
        Kind("answers are 500 although the request was executed", answers(EXECUTED), LONG),
        Kind("answers are HTML", answers(Page(200)), LONG),
        Kind("watches are closed", answers(EndWatch(1.0), watches=True), LONG),
        Kind("watches are cut", answers(EndWatch(1.0, cut=True), watches=True), LONG),
    ),
    pauses=(1.0, 5.0),
)
