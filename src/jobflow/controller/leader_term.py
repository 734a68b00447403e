"""One term of leadership: bring the copies up to date, then run flows until the term ends.

Leases are not known here: `jobflow.app.replica` passes `lead` to an Election, or calls it without
one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import structlog

from jobflow.controller.apply.live_reads import catch_up_pods
from jobflow.controller.controller import Controller
from jobflow.controller.flow_judge import Judge, judge_here
from jobflow.controller.foreign_status import SeenStatus, see_status
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes.pod_check import check_pod
from jobflow.controller.probes.prober import CheckPod
from jobflow.controller.reconciler import STATUS_SECONDS
from jobflow.kube.answers import Identity
from jobflow.kube.cache import Key
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.reflector import retried
from jobflow.runtime.event_loop import either, together
from jobflow.store import Feed, Feeds, Store

log = structlog.get_logger(__name__)


async def lead(
    client: Client,
    ending: asyncio.Event,
    *,
    store: Store,
    feeds: Feeds,
    hooks: Hooks | None = None,
    check: CheckPod = check_pod,
    judge: Judge = judge_here,
    status_seconds: float = STATUS_SECONDS,
) -> None:
    """Run flows for one term, until `ending` is set and every request in flight is answered.

    If the API server went back in time, everything that the controller remembers may be wrong, so a
    new one starts as at the beginning of a term: once all kinds have been read.
    """
    make_controller = partial(
        Controller,
        client,
        store,
        hooks=hooks,
        check=check,
        judge=judge,
        status_seconds=status_seconds,
    )
    while not ending.is_set():
        await _run_controller(client, ending, store, feeds, make_controller)


async def _run_controller(
    client: Client,
    ending: asyncio.Event,
    store: Store,
    feeds: Feeds,
    make_controller: Callable[..., Controller],
) -> None:
    """Run flows until `ending` is set, or the API server has gone back in time.

    Flows, templates and jobs are read consistently before the first plan, because the previous
    leader may have written objects that no watch has reported yet. Commands and CronJobFlows are
    read too if possible: a cluster may not serve or allow them. Pods matter only while the end of
    their job is not recorded (`catch_up_pods`). The list of flows also shows who has written their
    statuses; a flow that changes after the list is read again (`ForeignStatuses.begin`).
    """
    late: list[Feed] = []
    seen: dict[Key, SeenStatus] = {}

    def look(flow: Identity) -> None:
        seen[flow.namespace, flow.name] = see_status(flow)

    for preparation in (
        store.synced.wait,
        lambda: _catch_up((feeds.templates, feeds.jobs), partial(feeds.flows.catch_up, look)),
        lambda: _try_once(feeds.commands, late),
        lambda: _try_once(feeds.crons, late),
        lambda: catch_up_pods(client, store),
    ):
        if not await _before(ending, preparation()):
            return
    store.started_over.clear()  # each copy is of later than the event
    controller = make_controller(seen=seen)
    async with together() as beside:
        beside.stopping = True
        beside.start(
            "the end of the term", lambda: _stop_in_time(ending, store.started_over, controller)
        )
        beside.start("the late copies", lambda: _catch_up(late))
        await controller.run()


async def _before(ending: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work unless `ending` is set first. Returns whether to continue."""
    await either(work, ending.wait())
    return not ending.is_set()


async def _stop_in_time(
    ending: asyncio.Event, started_over: asyncio.Event, controller: Controller
) -> None:
    await either(ending.wait(), started_over.wait())
    controller.stop()


async def _catch_up(feeds: Iterable[Feed], *others: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for catch_up in (*others, *(feed.catch_up for feed in feeds)):
            group.create_task(retried(catch_up))


async def _try_once(feed: Feed, late: list[Feed]) -> None:
    """Try once to read the objects. If that fails, they are unknown until a later attempt works,
    because the copy may be older than what the last leader has written."""
    try:
        await feed.catch_up()
    except (ApiError, *NETWORK_ERRORS) as error:
        if isinstance(error, ApiError) and error.code in (403, 404):
            return
        log.warning("cannot read objects", resource=feed.resource.plural, error=str(error))
        feed.cache.unsure()
        late.append(feed)
