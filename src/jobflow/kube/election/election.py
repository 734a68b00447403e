"""Leader election over a Lease: runs `lead` for one term after another.

`candidate` decides what to do next. Here it is sent, awaited and ended in time. Writes of a term
begin only while this process leads, and end before another may lead.
"""

import asyncio
import math
import socket
import struct
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
import structlog

from jobflow.api.resources import LEASES
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, Query
from jobflow.kube.clock import ServerClock, boot_clock
from jobflow.kube.connections import CONNECTIONS
from jobflow.kube.credentials import Credentials
from jobflow.kube.election.candidate import LOOK, Candidate, Claim, Lease, Look, Step, Timing, Wait
from jobflow.kube.pooled_connections import PooledConnections

log = structlog.get_logger(__name__)


Lead = Callable[[Client, asyncio.Event], Awaitable[None]]
"""Runs one term of leadership. Parameters: a client that can write only in this term, and an event
that asks to finish. Cancelled if the term is lost. Must not return before it is asked to."""

NAME = "jobflow"


class NotLeading(ConnectionError):
    """A write was not sent because this process does not lead. One of NETWORK_ERRORS, because it
    says as little about the object as a broken connection."""


class Fence:
    """Lets writes begin before `until`. Each may take up to `write_seconds`."""

    def __init__(self, write_seconds: float, *, clock: Callable[[], float] = boot_clock) -> None:
        self.until = -math.inf
        self.in_doubt_until = -math.inf
        """When every write without an answer has ended. Counted from when it was given up, because
        it may not have been sent before."""
        self._write_seconds = write_seconds
        self._clock = clock

    def check(self) -> None:
        if self._clock() >= self.until:
            raise NotLeading("not sent: this replica does not hold the lease")

    def close(self) -> None:
        self.until = -math.inf

    @property
    def in_doubt(self) -> float:
        """Seconds until no write is in flight any more."""
        return max(0.0, self.in_doubt_until - self._clock())

    @contextmanager
    def write(self, timeout: float) -> Iterator[float]:
        """Allow the body to be one write and yield its time limit in seconds. Raises NotLeading."""
        # a process that was paused may have lost the Lease since it last looked
        self.check()
        seconds = min(timeout, self._write_seconds)
        try:
            yield seconds
        except BaseException as error:
            # a server may report an internal error before its write is stored
            if not isinstance(error, ApiError) or error.code >= 500:
                self.in_doubt_until = self._clock() + self._write_seconds
            raise


class FencedClient(Client):
    """Reads through another client, and writes through connections of its own, behind a fence."""

    def __init__(self, client: Client, fence: Fence, write_seconds: float) -> None:
        connections = FencedConnections(client.auth, client.clock, fence, write_seconds)
        super().__init__(client.auth, namespace=client.namespace, connections=connections)
        self.observe = client.observe
        self._reads = client
        self._fence = fence

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        timeout: float = 10.0,  # noqa: ASYNC109 - of the exchange, passed on to the connection
        **options: Any,
    ) -> bytes:
        """Like Client.request. A write raises NotLeading, and TimeoutError after its time limit."""
        if method == "GET":
            return await self._reads.request(method, path, query=query, timeout=timeout, **options)
        with self._fence.write(timeout) as seconds:
            # the API server gives up by itself, so that no write is stored late
            query = [*query, ("timeout", f"{int(seconds * 1000)}ms")]
            # aiohttp rounds up timeouts of more than five seconds
            async with asyncio.timeout(seconds):
                return await super().request(method, path, query=query, timeout=seconds, **options)


class FencedConnections(PooledConnections):
    """Connections whose writes end in time: this process gives up, the API server does (`timeout`
    in the query), or the kernel drops what it could not deliver. The fence is checked right before
    bytes are sent, because the process may have been paused, or may have waited for a
    connection."""

    def __init__(
        self, auth: Credentials, clock: ServerClock, fence: Fence, write_seconds: float
    ) -> None:
        super().__init__(auth, clock)
        self._fence = fence
        self._write_seconds = write_seconds

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=CONNECTIONS, socket_factory=self._socket)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        """aiohttp repeats a PUT or DELETE if a kept connection is closed. It calls this trace each
        time, right before it hands bytes to the connection."""

        async def check(session: aiohttp.ClientSession, context: SimpleNamespace, _: Any) -> None:
            self._fence.check()

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(check)
        trace.on_request_chunk_sent.append(check)
        return [trace]

    def _socket(self, address: Any) -> socket.socket:
        """Return a socket that sends nothing more, not even from the kernel's buffers, once it is
        closed or its peer has confirmed nothing for as long as a write may take."""
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        # otherwise the kernel would go on sending after a close
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if (user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
            milliseconds = int(self._write_seconds * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, user_timeout, milliseconds)
        return sock


@dataclass(eq=False)
class Election:
    """One process in an election. `run` it once, and set `stopping` to end it. `on_change` is
    called with True when this process begins to lead, and with False when it stops."""

    client: Client
    lead: Lead
    namespace: str
    name: str = NAME
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4()}")
    """A name that no other process ever has, not even the next one of this pod."""
    timing: Timing = field(default_factory=Timing)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    on_change: Callable[[bool], None] = lambda leads: None
    clock: Callable[[], float] = boot_clock
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    leads: bool = False
    _trouble: str = ""
    _holder: str | None = None

    def __post_init__(self) -> None:
        # so that renewals never wait for a connection
        self._lease_client = self.client.sibling()
        self._candidate = Candidate(self.identity, self.namespace, self.name, self.timing)

    async def run(self) -> None:
        """Lead whenever this process holds the Lease, until `stopping`; then release it. Raises
        what `lead` raises, and returns early if `lead` returns. If cancelled, it lets the Lease
        expire, because requests may still be in flight."""
        async with self._lease_client:
            while not self.stopping.is_set():
                if not self._candidate.leads(self.clock()):
                    await self._step(self.stopping)
                elif await self._term():
                    return
            await self._release()

    async def _term(self) -> bool:
        """Lead until the term is lost or `lead` ends. Returns whether `lead` ended."""
        fence = Fence(self.timing.write, clock=self.clock)
        fence.until = self._candidate.until
        ending, done = asyncio.Event(), asyncio.Event()
        # connections of this term only, so that closing them ends its writes
        async with FencedClient(self.client, fence, self.timing.write) as client:
            self._change(True)
            leading = asyncio.ensure_future(self.lead(client, ending))
            renewing = asyncio.ensure_future(self._renew(fence, done))
            try:
                stopping = asyncio.ensure_future(self.stopping.wait())
                try:
                    either: set[asyncio.Future[Any]] = {leading, renewing}
                    await asyncio.wait({*either, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if stopping.done():
                        ending.set()
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _cancel(stopping)
                done.set()
                await _cancel(leading)
                await asyncio.wait({renewing})
            finally:
                fence.close()
                self._change(False)
                await _cancel(leading, renewing)
        renewing.result()
        if seconds := fence.in_doubt:
            # the next term, here or elsewhere, must find these writes either stored or dropped
            log.info("waiting for writes without an answer", seconds=round(seconds, 1))
            await asyncio.sleep(seconds)
        # the term was lost, and there may be another one
        if leading.cancelled():
            return False
        await self._release()
        leading.result()
        return True

    async def _renew(self, fence: Fence, done: asyncio.Event) -> None:
        """Renew the Lease and move the fence until the term is done or lost."""
        while not done.is_set() and self._candidate.leads(self.clock()):
            await self._step(done)
            fence.until = self._candidate.until
        if not done.is_set():
            holder = self._candidate.holder
            log.warning("leadership lost", holder=holder, error=self._trouble)

    def _change(self, leads: bool) -> None:
        self.leads = leads
        log.info("leading" if leads else "no longer leading", identity=self.identity)
        self.on_change(leads)

    async def _step(self, enough: asyncio.Event) -> None:
        """Do what the candidate wants next. A wait ends early when `enough` is set."""
        match self._candidate.next(self.clock(), self.wall()):
            case Wait(seconds):
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await enough.wait()
            case step:
                await self._ask(step)
        if (holder := self._candidate.holder) != self._holder:
            self._holder = holder
            if holder != self.identity:
                log.info("following", holder=holder or "nobody yet")

    async def _ask(self, step: Step) -> None:
        candidate, sent_at = self._candidate, self.clock()
        try:
            match step:
                case Look():
                    lease = Lease.read(await self._send("GET", self.name))
                    candidate.saw(lease, self.clock())
                case Claim(body, create):
                    method, name = ("POST", "") if create else ("PUT", self.name)
                    lease = Lease.read(await self._send(method, name, body))
                    candidate.stored(lease, sent_at, self.clock())
        except ApiError as error:
            if error.not_found and isinstance(step, Look):
                candidate.gone(self.clock())
            elif isinstance(step, Claim) and (
                error.code == 409 or (error.not_found and not step.create)
            ):
                candidate.refused()  # the Lease has changed or was deleted
            else:
                self._failed(str(error))
        except NETWORK_ERRORS as error:
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._trouble = ""

    async def _send(self, method: str, name: str, body: bytes | None = None) -> bytes:
        """Send a request about the Lease that ends with the term at the latest."""
        seconds = self.timing.request
        if self.leads:
            # an answer after the end of the term is of no use
            seconds = max(0.0, min(seconds, self._candidate.until - self.clock()))
        async with asyncio.timeout(seconds):
            path = LEASES.path(self.namespace, name)
            return await self._lease_client.request(method, path, body=body, timeout=seconds)

    async def _release(self) -> None:
        """Let another replica lead at once. If this fails, the Lease expires."""
        if not self._candidate.known:
            # the stored version may be that of a renewal whose answer did not come
            await self._ask(LOOK)
        body = self._candidate.release(self.clock(), self.wall())
        if body is None:
            return
        try:
            await self._send("PUT", self.name, body)
            log.info("lease released", identity=self.identity)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("lease not released, it will expire", error=str(error))

    def _failed(self, trouble: str) -> None:
        self._candidate.failed(self.clock())
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("lease cannot be read or written", name=self.name, error=trouble)


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
