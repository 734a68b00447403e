"""The controller, and a term of leadership, which brings the copies up to date and then runs flows
until it ends. The caller keeps the store up to date, and calls `lead` with or without an Election.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial

import structlog

from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.events import PER_SECOND, Recorder
from jobflow.controller.apply.objects import catch_up_pods
from jobflow.controller.crons import Crons
from jobflow.controller.foreign_status import SeenStatus, see_status
from jobflow.controller.hooks import Hooks, Judge, judge_here
from jobflow.controller.queue import WorkQueue
from jobflow.controller.reconciler import STATUS_SECONDS, Reconciler, is_unstarted
from jobflow.controller.template_status import TemplateStatuses
from jobflow.controller.wants import CLUSTER, Outside, Wants, make_keepers
from jobflow.kube.answers import Identity
from jobflow.kube.cache import Key
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, retried
from jobflow.kube.write_order import OrderedClient, WriteOrder
from jobflow.runtime.event_loop import either, together
from jobflow.store import Feed, Feeds, Store

log = structlog.get_logger(__name__)

WORKERS = 32
"""Flows reconciled at once. They mostly wait for the API server."""
CRON_WORKERS = 4
"""CronJobFlows reconciled at once."""
FLUSH_SECONDS = 1.0
"""Time for the last Events when the controller stops."""


class Controller:
    """Runs flows from the call of `run` until `stop` or cancellation. Each term of leadership needs
    a new one: what it remembers is not valid in the next term."""

    def __init__(
        self,
        client: Client,
        store: Store,
        *,
        workers: int = WORKERS,
        events_per_second: float = PER_SECOND,
        hooks: Hooks | None = None,
        outside: Outside = CLUSTER,
        judge: Judge = judge_here,
        gives_up: bool = False,
        status_seconds: float = STATUS_SECONDS,
        now: Callable[[], datetime] | None = None,
        clock: Callable[[], float] = time.monotonic,
        seen: dict[Key, SeenStatus] | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`now`: by default the time of the API server. `seen`: the statuses of flows before the
        term, of which the controller finds out who has written them."""
        self._store = store
        self._seen = seen or {}
        self._workers = workers
        now = now or client.clock.now
        order = WriteOrder(clock=clock)
        client = OrderedClient(client, order)
        hooks = hooks or Hooks()
        hooks.ordered_by(order)
        self._stopping = asyncio.Event()
        answers = Memory(dice=dice)

        def gives_way(key: Key) -> bool:
            flow = store.flows.get(*key)
            return flow is not None and is_unstarted(flow)

        self._queue: WorkQueue[Key] = WorkQueue(
            hooks=hooks,
            clock=clock,
            dice=dice,
            gives_way=gives_way,
            most_yielding=max(1, workers // 2),
        )
        self._recorder = Recorder(client, hooks=hooks, now=now, per_second=events_per_second)
        self._wants = Wants(make_keepers(client, outside, store.pods.of, self._queue.add, hooks))
        self._templates = TemplateStatuses(client, store, clock=clock, dice=dice)
        crons: WorkQueue[Key] = WorkQueue(clock=clock, dice=dice)
        self._crons = Crons(client, store, self._recorder, crons, now=now)
        self._reconciler = Reconciler(
            store,
            Applier(client, store, answers, now=now),
            answers,
            self._recorder,
            self._queue,
            self._wants,
            order,
            status_seconds=status_seconds,
            hooks=hooks,
            judge=judge,
            gives_up=gives_up,
            now=now,
            clock=clock,
        )

    async def run(self) -> None:
        """Wait for the store, reconcile every flow, then every flow that changes. Returns after
        `stop`, when all requests in flight are answered; cancelling breaks them off."""
        await either(self._store.synced.wait(), self._stopping.wait())
        if self._stopping.is_set():
            return
        listeners = (self._reconciler, self._templates, self._crons)
        for listener in listeners:
            self._store.listeners.append(listener)
        try:
            await either(self._reconciler.foreign.begin(self._seen), self._stopping.wait())
            self._reconciler.all_flows()
            self._templates.all_templates()
            self._crons.all_crons()
            log.info("controller started", flows=len(self._store.flows), workers=self._workers)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="events")
                group.create_task(self._templates.run(), name="templates")
                wants = group.create_task(self._wants.run(), name="wants")
                async with asyncio.TaskGroup() as workers:
                    for number in range(self._workers):
                        workers.create_task(self._reconciler.work(), name=f"worker-{number}")
                    for number in range(CRON_WORKERS):
                        workers.create_task(self._crons.work(), name=f"cron-{number}")
                wants.cancel()  # no worker is left that could use an answer
                self._recorder.stop()
            await self._recorder.flush(FLUSH_SECONDS)
            log.info("controller stopped")
        finally:
            for listener in listeners:
                self._store.listeners.remove(listener)

    def stop(self) -> None:
        """Start nothing new; `run` returns when the work in flight has finished."""
        self._stopping.set()
        self._queue.close()
        self._templates.stop()
        self._crons.stop()


async def lead(
    client: Client,
    ending: asyncio.Event,
    *,
    store: Store,
    feeds: Feeds,
    make: Callable[..., Controller] = Controller,
) -> None:
    """Run flows for one term, until `ending` is set and every request in flight is answered, or a
    controller that gives up has raised an exception. `make` makes one of the client, the store, and
    the statuses `seen` before."""

    async def run_controller() -> None:
        late: list[Feed] = []
        seen: dict[Key, SeenStatus] = {}

        def look(flow: Identity) -> None:
            seen[flow.namespace, flow.name] = see_status(flow)

        for preparation in (
            store.synced.wait,
            # read consistently: the last leader may have written what no watch has reported yet.
            # The list of flows also shows who has written their statuses
            lambda: _catch_up((feeds.templates, feeds.jobs), partial(feeds.flows.catch_up, look)),
            # a cluster may not serve or allow these
            lambda: _try_once(feeds.commands, late),
            lambda: _try_once(feeds.crons, late),
            lambda: catch_up_pods(client, store),
        ):
            await either(preparation(), ending.wait())
            if ending.is_set():
                return
        store.started_over.clear()  # each copy is of later than the event
        controller = make(client, store, seen=seen)

        async def stop_in_time() -> None:
            await either(ending.wait(), store.started_over.wait())
            controller.stop()

        async with together() as beside:
            beside.stopping = True
            beside.start("the end of the term", stop_in_time)
            beside.start("the late copies", lambda: _catch_up(late))
            await controller.run()

    # after the API server has gone back in time, all that a controller remembers may be wrong, so a
    # new one starts as at the beginning of a term: once all kinds have been read
    while not ending.is_set():
        await run_controller()


async def _catch_up(feeds: Iterable[Feed], *others: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for catch_up in (*others, *(feed.catch_up for feed in feeds)):
            group.create_task(retried(catch_up))


async def _try_once(feed: Feed, late: list[Feed]) -> None:
    """Try once to read the objects. If that fails, they are unknown until a later try works."""
    try:
        await feed.catch_up()
    except (ApiError, *NETWORK_ERRORS) as error:
        if isinstance(error, ApiError) and error.code in (403, 404):
            return
        log.warning("cannot read objects", resource=feed.resource.plural, error=str(error))
        feed.cache.unsure()  # the copy may be older than what the last leader has written
        late.append(feed)
