"""What a leader does in one term: brings the copies level, then carries flows out until its end.

It knows nothing of leases: `serve` hands `lead` to an Election, or runs it without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

import structlog

from jobflow.controller.apply.live_pods import catch_up_pods
from jobflow.controller.controller import Controller
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes.interface import MakeProbing
from jobflow.controller.probes.prober import Prober
from jobflow.controller.reconciler import STATUS_SECONDS
from jobflow.kube.backoff import Backoff
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.store import Store

log = structlog.get_logger(__name__)

LONGEST_WAIT = 5.0
"""Between two tries to read what an API server holds: nothing is done meanwhile."""


class Follower(Protocol):
    """What keeps the copy of one kind: a Reflector."""

    async def level(self) -> None: ...

    def unsure(self) -> None: ...


async def lead(
    client: Client,
    ending: asyncio.Event,
    *,
    store: Store,
    followers: Iterable[Follower],
    optional: Iterable[Follower] = (),
    hooks: Hooks | None = None,
    probing: MakeProbing = Prober,
    status_seconds: float = STATUS_SECONDS,
) -> None:
    """One term, until `ending` is set and everything under way has finished.

    `followers` are the reflectors of flows, templates and vcjobs: each is brought level with a
    consistent read before the first plan, because the previous leader may have written what no
    watch has reported yet. `optional`: of Commands, which a cluster may not serve, or not to us; if
    they cannot be read, plans do without them until they can. Pods need this only if the end of
    their vcjob is not recorded yet (`catch_up_pods`). A new Controller a term: what the last one
    remembered is void.
    """
    if not await _before(ending, store.wait_synced()):
        return
    if not await _before(ending, _level(followers)):
        return
    late: list[Follower] = []
    if not await _before(ending, _try_each(optional, late)):
        return
    if not await _before(ending, catch_up_pods(client, store)):
        return
    controller = Controller(
        client, store, hooks=hooks, probing=probing, status_seconds=status_seconds
    )
    beside = [
        asyncio.ensure_future(_then(ending, controller.stop)),
        asyncio.ensure_future(_level(late)),
    ]
    try:
        await controller.run()
    finally:
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        for task in beside:
            if not task.cancelled():
                task.result()


async def _level(followers: Iterable[Follower]) -> None:
    """Bring each level, by as many tries as it takes."""
    async with asyncio.TaskGroup() as group:
        for follower in followers:
            group.create_task(_level_one(follower))


async def _level_one(follower: Follower) -> None:
    backoff = Backoff(most=LONGEST_WAIT)
    while True:
        if await _is_level(follower):
            return
        await asyncio.sleep(backoff.next())


async def _try_each(followers: Iterable[Follower], late: list[Follower]) -> None:
    """Try once to bring kinds level that plans can do without. One that fails is added to `late`,
    and is unknown until a later try works: the copy may hold what the last leader has deleted."""
    for follower in followers:
        if not await _is_level(follower, absent=(403, 404)):
            follower.unsure()
            late.append(follower)


async def _is_level(follower: Follower, *, absent: Collection[int] = ()) -> bool:
    """Whether one try brings it level. `absent`: HTTP codes that say that there is nothing to be
    level with."""
    try:
        await follower.level()
    except (ApiError, *NETWORK_ERRORS) as error:
        if isinstance(error, ApiError) and error.code in absent:
            return True
        log.warning("cannot read what the API server holds", error=str(error))
        return False
    return True


async def _before(ending: asyncio.Event, work: Awaitable[None]) -> bool:
    """Whether the work was done before the end came; else it is broken off."""
    working = asyncio.ensure_future(work)
    over = asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait({working, over}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return not ending.is_set()
    finally:
        for task in (working, over):
            task.cancel()
        await asyncio.wait({working, over})


async def _then(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()
