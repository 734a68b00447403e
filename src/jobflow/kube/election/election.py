"""Stands for election over a Lease and runs what only the leader may do, one term after another.

What to do next is `candidate`'s to decide; here it is sent, waited for and ended in time.
"""

from __future__ import annotations

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
from jobflow.kube.election.candidate import LOOK, Candidate, Claim, Look, Step, Timing, Wait
from jobflow.kube.election.fence import Fence, FencedClient, boot_clock
from jobflow.kube.election.lease import Lease

log = structlog.get_logger(__name__)

Lead = Callable[[Client, asyncio.Event], Awaitable[None]]
"""What a leader does in one term: given a client that writes only in this term, and an event that
asks it to finish. Cancelled when the term is lost. May not return before it is asked to."""

NAME = "jobflow"


def new_identity() -> str:
    """A name for the Lease that no other process ever has, not even this pod's next one."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Election:
    """One process's part in it. `run` once, `stop` to end it.

    Requests about the Lease have a client of their own: they never wait for connections that reads
    and watches of this process keep busy.
    `on_change` is told True when this process begins to lead and False when it no longer does.
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
        on_change: Callable[[bool], None] = lambda leads: None,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity = identity or new_identity()
        self.leads = False
        self._client = client
        self._lease_client = client.sibling()
        self._lead = lead
        self._namespace = namespace
        self._name = name
        self._timing = timing or Timing()
        self._on_change = on_change
        self._clock = clock
        self._wall = wall
        self._candidate = Candidate(self.identity, namespace, name, self._timing)
        self._stopping = asyncio.Event()
        self._trouble = ""
        self._holder: str | None = None

    async def run(self) -> None:
        """Lead whenever the Lease is ours, until `stop`; the Lease is released then.

        Raises what `lead` raises, and returns early where `lead` does: the Lease is released then
        too. Cancelled, it leaves the Lease to expire, for nobody knows then what is under way.
        """
        async with self._lease_client:
            while not self._stopping.is_set():
                if not self._candidate.leads(self._clock()):
                    await self._step(self._stopping)
                elif await self._term():
                    return
            await self._release()

    def stop(self) -> None:
        """Finish the term in good order and release the Lease; `run` returns when that is done."""
        self._stopping.set()

    # ------------------------------------------------------------------ a term

    async def _term(self) -> bool:
        """Lead until the term is lost or `lead` ends, by `stop` or by itself; True: it ended."""
        fence = Fence(self._timing.write, clock=self._clock)
        fence.until = self._candidate.until
        ending, over = asyncio.Event(), asyncio.Event()
        async with FencedClient(self._client, fence, self._timing.write) as client:
            self._change(True)
            leading = asyncio.ensure_future(self._lead(client, ending))
            renewing = asyncio.ensure_future(self._renew(fence, over))
            try:
                await self._first(leading, renewing, ending)
                over.set()
                await _cancelled(leading)
                await asyncio.wait({renewing})
            finally:
                fence.close()
                self._change(False)
                await _cancelled(leading, renewing)
        renewing.result()
        await self._settle(fence)
        if leading.cancelled():
            return False
        await self._release()
        leading.result()
        return True

    async def _first(
        self,
        leading: asyncio.Future[None],
        renewing: asyncio.Future[None],
        ending: asyncio.Event,
    ) -> None:
        """Return when one of both is over; pass `stop` on to `lead` meanwhile."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        both: set[asyncio.Future[Any]] = {leading, renewing}
        try:
            await asyncio.wait({*both, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                ending.set()
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(stopping)

    async def _renew(self, fence: Fence, over: asyncio.Event) -> None:
        """Keep the term, and the fence open, until it is over or lost. A renewal that has been
        sent is waited for: else nobody knew what version there is to release."""
        while not over.is_set() and self._candidate.leads(self._clock()):
            await self._step(over)
            fence.until = self._candidate.until
        if not over.is_set():
            holder = self._candidate.holder
            log.warning("leadership lost", holder=holder, error=self._trouble)

    async def _settle(self, fence: Fence) -> None:
        """Wait out the writes of a term that had no answer: what comes after it, in this process
        or another, must find them done or dropped."""
        if seconds := fence.in_doubt:
            log.info("waiting for writes without an answer", seconds=round(seconds, 1))
            await asyncio.sleep(seconds)

    def _change(self, leads: bool) -> None:
        self.leads = leads
        log.info("leading" if leads else "no longer leading", identity=self.identity)
        self._on_change(leads)

    # ------------------------------------------------------------------ the Lease

    async def _step(self, enough: asyncio.Event) -> None:
        """Do what the candidate wants next; where that is to wait, only until `enough`."""
        match self._candidate.next(self._clock(), self._wall()):
            case Wait(seconds):
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await enough.wait()
            case step:
                await self._ask(step)
        self._follow()

    async def _ask(self, step: Step) -> None:
        """Send a look or a claim and tell the candidate what came of it."""
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
            elif isinstance(step, Claim) and _lost(step, error):
                candidate.refused()
            else:
                self._failed(str(error))
        except NETWORK_ERRORS as error:
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._trouble = ""

    async def _send(self, method: str, name: str, body: bytes | None = None) -> bytes:
        """One request about the Lease, ended by the end of the term at the latest."""
        seconds = self._timing.request
        if self.leads:
            seconds = max(0.0, min(seconds, self._candidate.until - self._clock()))
        async with asyncio.timeout(seconds):
            path = LEASES.path(self._namespace, name)
            return await self._lease_client.request(method, path, body=body, timeout=seconds)

    async def _release(self) -> None:
        """Let another replica lead at once. Best effort: else the Lease expires."""
        if not self._candidate.known:
            await self._ask(LOOK)
        body = self._candidate.release(self._clock(), self._wall())
        if body is None:
            return
        try:
            await self._send("PUT", self._name, body)
            log.info("lease released", identity=self.identity)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("lease not released, it will expire", error=str(error))

    # ------------------------------------------------------------------ telling

    def _failed(self, trouble: str) -> None:
        self._candidate.failed(self._clock())
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("lease cannot be read or written", name=self._name, error=trouble)

    def _follow(self) -> None:
        """Log a new leader, once."""
        holder = self._candidate.holder
        if holder != self._holder:
            self._holder = holder
            if holder != self.identity:
                log.info("following", holder=holder or "nobody yet")


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs and wait for its end."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _lost(claim: Claim, error: ApiError) -> bool:
    """Whether a claim was refused because the Lease is another by now, or gone."""
    return error.code == 409 or (error.not_found and not claim.create)
