"""Kubernetes Events on flows and CronJobFlows, which neither delay nor fail a reconcile: `record`
queues an Event, which takes in the later ones of its object and reason, `run` sends it, and an
Event that cannot be sent is dropped. A repeated Event is counted, not created again."""

import asyncio
import hashlib
import math
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import CRONJOBFLOWS, EVENTS, JOBFLOWS, ObjectMeta, Resource, Struct
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Event, EventType
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client

log = structlog.get_logger(__name__)

COMPONENT = "jobflow"
PENDING = 2000
"""Events that may wait. If there are more, the oldest is dropped."""
FOLD_SECONDS = 1.0
"""How long the first Event waits for others to take in."""
PER_SECOND = 50.0
REMEMBERED = 4096
"""Number of Events whose count is kept in memory."""
MESSAGE = 1024
"""Characters that a message may have."""
SEPARATOR = "; "
ROOM = MESSAGE - len("; and 10000 more")
TRIES = 3

Subject = JobFlow | CronJobFlow
"""An object that has Events."""
Kind = tuple[str, EventType, str]
"""UID of the object, type and reason: waiting Events of one kind become one."""


class Counted(Struct):
    count: int = 1


@dataclass(slots=True)
class Pending:
    """An Event to send, which stands for `times` recorded ones from `first` to `last`."""

    resource: Resource
    meta: ObjectMeta
    """The object that the Event is about."""
    type: EventType
    reason: str
    first: str
    last: str
    times: int = 0
    messages: dict[str, None] = field(default_factory=dict)
    """The different messages for which there is room."""
    more: int = 0
    """Number of recorded Events whose message has no room."""
    tries: int = 0

    @property
    def kind(self) -> Kind:
        return self.meta.uid, self.type, self.reason

    @property
    def name(self) -> str:
        """A name that is the same after a restart for equal object, reason and message."""
        digest = hashlib.sha256("\0".join((*self.kind, self.message)).encode()).hexdigest()
        return f"{self.meta.name}.{digest[:16]}"

    def add(self, message: str, at: str) -> None:
        self.times += 1
        self.last = at
        if message in self.messages:
            return
        if self.messages and len(self.message) + len(SEPARATOR) + len(message) > ROOM:
            self.more += 1
        else:
            self.messages[message] = None

    def take_in(self, later: "Pending") -> None:
        self.times += later.times - len(later.messages)
        self.more += later.more
        for message in later.messages:
            self.add(message, later.last)

    @property
    def message(self) -> str:
        """All messages, or as many as there is room for and the number of the others."""
        end = f"{SEPARATOR}and {self.more} more" if self.more else ""
        return SEPARATOR.join(self.messages)[: MESSAGE - len(end)] + end

    def body(self) -> dict[str, Any]:
        return {
            **EVENTS.type_meta,
            "metadata": {"name": self.name, "namespace": self.meta.namespace},
            "involvedObject": {
                **self.resource.type_meta,
                "namespace": self.meta.namespace,
                "name": self.meta.name,
                "uid": self.meta.uid,
                "resourceVersion": self.meta.resource_version,
            },
            "type": self.type,
            "reason": self.reason,
            "message": self.message,
            "firstTimestamp": self.first,
            "lastTimestamp": self.last,
            "count": self.times,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": socket.gethostname()[:128],  # the most that the API takes
        }


@dataclass(eq=False)
class Recorder:
    """Queues Events and sends at most `per_second`."""

    client: Client
    hooks: Hooks = field(default_factory=Hooks)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    per_second: float = PER_SECOND
    _pending: OrderedDict[Kind, Pending] = field(default_factory=OrderedDict)
    _counts: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether to send the Events that wait."""
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def record(self, about: Subject, event: Event) -> None:
        """Queue an Event, or let the one of its kind that waits take it in."""
        at, meta = self.now().strftime("%Y-%m-%dT%H:%M:%SZ"), about.metadata
        kind = meta.uid, event.type, event.reason
        if not self._pending:
            self._send_later()
        if kind not in self._pending:
            if len(self._pending) >= PENDING:  # the oldest is the least news
                self._pending.popitem(last=False)
                self.hooks.event_dropped()
            resource = JOBFLOWS if isinstance(about, JobFlow) else CRONJOBFLOWS
            self._pending[kind] = Pending(resource, meta, event.type, event.reason, at, at)
        self._pending[kind].add(event.message, at)

    def _send_later(self) -> None:
        asyncio.get_running_loop().call_later(FOLD_SECONDS, self._due.set)

    async def run(self) -> None:
        """Send what waits, a second after its first Event, until `stop`, or until cancelled."""
        while not self._stopped.is_set():
            await self._due.wait()
            self._due.clear()
            for _ in range(len(self._pending)):
                if self._stopped.is_set():
                    return
                await self._send_next()
                await asyncio.sleep(1.0 / self.per_second)
            if self._pending:  # those that came meanwhile wait for others too
                self._send_later()

    def stop(self) -> None:
        """Let `run` return after the present request."""
        # not cancelled: the server may still execute the write, and a new leader would have to wait
        self._stopped.set()
        self._due.set()

    async def flush(self, seconds: float = math.inf) -> None:
        """Send all queued Events without pauses before the process ends. After `seconds`, the
        remaining Events are dropped."""
        until = time.monotonic() + seconds
        for _ in range(len(self._pending)):
            if time.monotonic() >= until:
                left = len(self._pending)
                log.warning("events given up, the API server is too slow", events=left)
                return
            await self._send_next()

    async def _send_next(self) -> None:
        _, event = self._pending.popitem(last=False)
        try:
            await self._send(event)
        except ApiError as error:
            self._failed(event, str(error), again=error.code == 429 or error.code >= 500)
        except NETWORK_ERRORS as error:
            self._failed(event, f"{type(error).__name__}: {error}", again=True)

    async def _send(self, event: Pending) -> None:
        """Raise the count of a known Event, else create it."""
        name, namespace = event.name, event.meta.namespace
        if name in self._counts:
            try:
                await self._raise(event, name, self._counts[name])
                return
            except ApiError as error:
                if not error.not_found:  # the API server keeps Events for an hour
                    raise
        try:
            await self.client.create(EVENTS, namespace, msgspec.json.encode(event.body()))
            self._remember(name, event.times)
        except ApiError as error:
            if not error.already_exists:  # an earlier process created it
                raise
            there = await self.client.get(EVENTS, namespace, name, Counted)
            await self._raise(event, name, there.count)

    async def _raise(self, event: Pending, name: str, count: int) -> None:
        count += event.times
        body = msgspec.json.encode({"count": count, "lastTimestamp": event.last})
        await self.client.patch(EVENTS, event.meta.namespace, name, body)
        self._remember(name, count)

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _failed(self, event: Pending, error: str, *, again: bool) -> None:
        event.tries += 1
        if again and event.tries < TRIES:
            # it moves to the end, so that others do not wait for its tries
            if later := self._pending.pop(event.kind, None):
                event.take_in(later)
            self._pending[event.kind] = event
            return
        self.hooks.event_dropped()
        log.warning("event given up", namespace=event.meta.namespace, name=event.name, error=error)
