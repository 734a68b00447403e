"""Leader election over a Lease: runs `lead` for one term after another.

`candidate` decides what to do next. Here it is sent, awaited and ended in time.
"""

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import structlog

from jobflow.api.resources import LEASES
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.clock import boot_clock
from jobflow.kube.election.candidate import LOOK, Candidate, Claim, Look, Step, Timing, Wait
from jobflow.kube.election.fence import Fence, FencedClient
from jobflow.kube.election.lease import Lease

log = structlog.get_logger(__name__)

Lead = Callable[[Client, asyncio.Event], Awaitable[None]]
"""Runs one term of leadership. Parameters: a client that can write only in this term, and an event
that asks to finish. Cancelled if the term is lost. Must not return before it is asked to."""

NAME = "jobflow"


class Election:
    """One process in an election. Call `run` once, and set `stopping` to end it.

    Requests about the Lease have a client of their own, so that they never wait for connections
    that other requests of this process use. `on_change` is called with True when this process
    begins to lead, and with False when it stops.
    """

    def __init__(
        self,
        client: Client,
        lead: Lead,
        *,
        namespace: str,
        name: str = NAME,
        identity: str | None = None,
        timing: Timing | None = None,
        stopping: asyncio.Event | None = None,
        on_change: Callable[[bool], None] = lambda leads: None,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        """A name that no other process ever has, not even the next one of this pod."""
        self.leads = False
        self._client = client
        # so that renewals never wait for a connection
        self._lease_client = client.sibling()
        self._lead = lead
        self._namespace = namespace
        self._name = name
        self._timing = timing or Timing()
        self._on_change = on_change
        self._clock = clock
        self._wall = wall
        self._candidate = Candidate(self.identity, namespace, name, self._timing)
        self.stopping = stopping or asyncio.Event()
        """Asks to finish the term and release the Lease; `run` returns after that."""
        self._trouble = ""
        self._holder: str | None = None

    async def run(self) -> None:
        """Lead whenever this process holds the Lease, until `stopping`; then release it.

        Raises what `lead` raises, and returns early if `lead` returns; both release the Lease. If
        cancelled, it lets the Lease expire, because requests may still be in flight.
        """
        async with self._lease_client:
            while not self.stopping.is_set():
                if not self._candidate.leads(self._clock()):
                    await self._step(self.stopping)
                elif await self._term():
                    return
            await self._release()

    # ------------------------------------------------------------------ a term

    async def _term(self) -> bool:
        """Lead until the term is lost or `lead` ends. Returns whether `lead` ended by itself or
        because of `stopping`."""
        fence = Fence(self._timing.write, clock=self._clock)
        fence.until = self._candidate.until
        ending, done = asyncio.Event(), asyncio.Event()
        # connections of this term only, so that closing them ends its writes
        async with FencedClient(self._client, fence, self._timing.write) as client:
            self._change(True)
            leading = asyncio.ensure_future(self._lead(client, ending))
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
        """Renew the Lease and move the fence until the term is done or lost. Waits for the answer
        to a renewal, because the release needs the stored version."""
        while not done.is_set() and self._candidate.leads(self._clock()):
            await self._step(done)
            fence.until = self._candidate.until
        if not done.is_set():
            holder = self._candidate.holder
            log.warning("leadership lost", holder=holder, error=self._trouble)

    def _change(self, leads: bool) -> None:
        self.leads = leads
        log.info("leading" if leads else "no longer leading", identity=self.identity)
        self._on_change(leads)

    # ------------------------------------------------------------------ the Lease

    async def _step(self, enough: asyncio.Event) -> None:
        """Do what the candidate wants next. A wait ends early when `enough` is set."""
        match self._candidate.next(self._clock(), self._wall()):
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
        """Send a look or a claim and report the outcome to the candidate."""
        candidate, sent_at = self._candidate, self._clock()
        try:
            match step:
                case Look():
                    lease = Lease.read(await self._send("GET", self._name))
                    candidate.saw(lease, self._clock())
                case Claim(body, create=True):
                    lease = Lease.read(await self._send("POST", "", body))
                    candidate.stored(lease, sent_at, self._clock())
                case Claim(body, create=False):
                    lease = Lease.read(await self._send("PUT", self._name, body))
                    candidate.stored(lease, sent_at, self._clock())
        except ApiError as error:
            if error.not_found and isinstance(step, Look):
                candidate.gone(self._clock())
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
        seconds = self._timing.request
        if self.leads:
            # an answer after the end of the term is of no use
            seconds = max(0.0, min(seconds, self._candidate.until - self._clock()))
        async with asyncio.timeout(seconds):
            path = LEASES.path(self._namespace, name)
            return await self._lease_client.request(method, path, body=body, timeout=seconds)

    async def _release(self) -> None:
        """Let another replica lead at once. If this fails, the Lease expires."""
        if not self._candidate.known:
            # the stored version may be that of a renewal whose answer did not come
            await self._ask(LOOK)
        body = self._candidate.release(self._clock(), self._wall())
        if body is None:
            return
        try:
            await self._send("PUT", self._name, body)
            log.info("lease released", identity=self.identity)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("lease not released, it will expire", error=str(error))

    # ------------------------------------------------------------------ logs

    def _failed(self, trouble: str) -> None:
        self._candidate.failed(self._clock())
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("lease cannot be read or written", name=self._name, error=trouble)


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
