"""Kubernetes Events on flows and CronJobFlows; a repeated Event is counted, not created again.

Events neither delay nor fail a reconcile: `record` queues an Event, `run` sends it, and an Event
that cannot be sent is dropped. If too many wait, those of one object and reason become one, with
the message that client-go's EventAggregator gives such an Event.
"""

import asyncio
import hashlib
import math
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.meta import Struct
from jobflow.api.resources import CRONJOBFLOWS, EVENTS, JOBFLOWS
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Event
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client

log = structlog.get_logger(__name__)

COMPONENT = "jobflow"
PENDING = 2000
"""Events that may wait. If there are more, the oldest are folded, and then dropped."""
COMBINED = "(combined from similar events): "
REMEMBERED = 4096
"""Number of Events whose count is kept in memory."""
PER_SECOND = 50.0
MESSAGE = 1024
TRIES = 3

Subject = JobFlow | CronJobFlow
"""An object that has Events."""


class Counted(Struct, frozen=True, kw_only=True):
    """The count of an existing Event."""

    count: int = 1


@dataclass(slots=True)
class Pending:
    """An Event to send, with `times` new occurrences, the last one at `last`."""

    body: dict[str, Any]
    namespace: str
    name: str
    times: int
    last: str
    kind: tuple[str, str, str]
    """UID of the object, type and reason: Events of one kind may become one."""
    tries: int = 0


class Recorder:
    """Queues Events and sends at most `per_second`."""

    def __init__(
        self,
        client: Client,
        *,
        hooks: Hooks | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        per_second: float = PER_SECOND,
    ) -> None:
        self._client = client
        self._hooks = hooks or Hooks()
        self._now = now
        self._pause = 1.0 / per_second
        self._pending: OrderedDict[str, Pending] = OrderedDict()
        self._folded: OrderedDict[tuple[str, str, str], Pending] = OrderedDict()
        """Events that stand for others of their kind; sent when no other waits."""
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._news = asyncio.Event()
        self._stopped = False

    def record(self, about: Subject, event: Event) -> None:
        """Queue an Event. If one with equal object, reason and message waits, raise its count."""
        at = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        name = event_name(about, event)
        if (waiting := self._pending.get(name)) is not None:
            waiting.times += 1
            waiting.last = at
            return
        while self._waiting >= PENDING:
            self._fold_oldest()
        body = event_body(about, event, name, at)
        kind = about.metadata.uid, event.type, event.reason
        self._pending[name] = Pending(body, about.metadata.namespace, name, 1, at, kind)
        self._news.set()

    @property
    def _waiting(self) -> int:
        return len(self._pending) + len(self._folded)

    def _fold_oldest(self) -> None:
        """Make the oldest Event a part of the folded one of its kind, or make it that one. If all
        are folded, drop the oldest."""
        if not self._pending:
            self._folded.popitem(last=False)
            self._hooks.event_dropped()
            return
        _, oldest = self._pending.popitem(last=False)
        folded = self._folded.setdefault(oldest.kind, oldest)
        if folded is oldest:
            return
        folded.times += oldest.times
        folded.last = oldest.last
        folded.name = _name(folded.body["involvedObject"]["name"], *folded.kind, COMBINED)
        message = f"{COMBINED}{oldest.body['message']}"[:MESSAGE]
        metadata = {**folded.body["metadata"], "name": folded.name}
        folded.body |= {"metadata": metadata, "message": message}

    async def run(self) -> None:
        """Send until `stop`, or until cancelled."""
        while not self._stopped:
            await self._news.wait()
            while self._waiting and not self._stopped:
                await self._send_next()
                await asyncio.sleep(self._pause)
            self._news.clear()

    def stop(self) -> None:
        """Let `run` return after the present request. The server may still execute a cancelled
        write, so a new leader would have to wait for it."""
        self._stopped = True
        self._news.set()

    async def flush(self, seconds: float = math.inf) -> None:
        """Send all queued Events without pauses before the process ends. After `seconds`, the
        remaining Events are dropped."""
        until = time.monotonic() + seconds
        for _ in range(self._waiting):
            if time.monotonic() >= until:
                log.warning("events given up, the API server is too slow", events=self._waiting)
                return
            await self._send_next()

    async def _send_next(self) -> None:
        _, event = (self._pending or self._folded).popitem(last=False)
        try:
            await self._send(event)
        except ApiError as error:
            self._failed(event, str(error), again=error.code == 429 or error.code >= 500)
        except NETWORK_ERRORS as error:
            self._failed(event, f"{type(error).__name__}: {error}", again=True)

    async def _send(self, event: Pending) -> None:
        """Raise the count of a known Event, else create it. A known Event may have expired, and an
        unknown one may exist because an earlier process created it."""
        if (count := self._counts.get(event.name)) is not None:
            try:
                await self._raise(event, count)
                return
            except ApiError as error:
                if not error.not_found:
                    raise
        try:
            body = {**event.body, "count": event.times, "lastTimestamp": event.last}
            await self._client.create(EVENTS, event.namespace, msgspec.json.encode(body))
            self._remember(event.name, event.times)
        except ApiError as error:
            if not error.already_exists:
                raise
            there = await self._client.get(EVENTS, event.namespace, event.name, Counted)
            await self._raise(event, there.count)

    async def _raise(self, event: Pending, count: int) -> None:
        count += event.times
        body = msgspec.json.encode({"count": count, "lastTimestamp": event.last})
        await self._client.patch(EVENTS, event.namespace, event.name, body)
        self._remember(event.name, count)

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _failed(self, event: Pending, error: str, *, again: bool) -> None:
        event.tries += 1
        if again and event.tries < TRIES and event.name not in self._pending:
            self._pending[event.name] = event
            return
        self._hooks.event_dropped()
        log.warning("event given up", namespace=event.namespace, name=event.name, error=error)


def event_name(about: Subject, event: Event) -> str:
    """Return a name that is the same after a restart for equal object, reason and message."""
    meta = about.metadata
    return _name(meta.name, meta.uid, event.type, event.reason, event.message)


def _name(object_name: str, *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{object_name}.{digest[:16]}"


def event_body(about: Subject, event: Event, name: str, at: str) -> dict[str, Any]:
    """Return a `v1` Event on an object."""
    meta = about.metadata
    resource = JOBFLOWS if isinstance(about, JobFlow) else CRONJOBFLOWS
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": meta.namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:MESSAGE],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": socket.gethostname()[:128],
    }
