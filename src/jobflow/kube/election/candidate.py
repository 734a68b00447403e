"""Whether this process leads, and what it does next about it. No I/O, no clock, no randomness.

One Lease, many candidates. Three rules make at most one of them lead at any instant, given that
their clocks run equally fast (within the reserve of `Timing`) and whatever these clocks show:

1. The holder leads for `renew` seconds from when it SENT the last claim that was answered. It was
   stored later than that, and is seen by others later still.
2. Another claims it only after it has known the same version of the Lease for the holder's whole
   lease duration, from when the answer with that version CAME, by its own clock.
3. Every claim names the version it was made from: of two, the API server refuses one.

Then between the end of one term and the begin of the next there are at least lease - renew
seconds: the time that writes in flight may take (`jobflow.kube.election.fence`).

    what it knows                                        what it does next
    ---------------------------------------------------- ---------------------------------------
    nothing, or only that the last request had no answer LOOK, `retry` after a failure
    there is no Lease                                    Claim (create)
    nobody holds it, or itself, not renewed in time      Claim
    another holds it                                     LOOK every `look` seconds
    another held it for its whole duration, unchanged    Claim
    it holds it, renewed less than `retry` ago           Wait
    it holds it, renewed longer ago                      Claim; after a failure LOOK first

It stops leading when `renew` seconds have passed, or when it reads that the Lease has another
holder or is gone.

A Lease that was deleted says nothing about its last holder, who may go on for a while: who knew it
and makes it anew holds it, but leads only after a whole lease duration, and does not release it
before. A process that has never seen the Lease cannot know, and leads at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from jobflow.kube.election.lease import Lease, first_claim

RESERVE = 0.2
"""Share of lease - renew that is left over for clocks that run unequally fast and late timers."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; client-go's defaults. Raises ValueError where one leader could not be promised."""

    lease: int = 15
    """How long others wait for a holder that does not renew. Whole seconds: the API has no other.
    """
    renew: float = 10.0
    """How long a holder leads without having renewed."""
    retry: float = 2.0
    """Between renewals, and after a request that failed."""
    look: float = 1.0
    """Between looks at a Lease that another holds."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease or self.look <= 0:
            raise ValueError(
                f"leader election needs retry ({self.retry:g} s) < renew deadline "
                f"({self.renew:g} s) < lease duration ({self.lease} s), all above 0"
            )

    @property
    def write(self) -> float:
        """The most that a leader's write may take, so that one begun at the last moment is over
        before another may lead."""
        return (self.lease - self.renew) * (1 - RESERVE)

    @property
    def request(self) -> float:
        """The most that a request about the Lease may take, so that three fit into a term."""
        return self.renew / 3


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease, then tell `saw` or `gone`, else `failed`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Write this, then tell `stored` or `refused`, else `failed`."""

    body: bytes
    create: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


Step = Look | Claim | Wait
LOOK = Look()


class Candidate:
    """One process's part in the election of one Lease. Times are seconds of one clock that never
    stands still or goes back; `wall` is only written down."""

    def __init__(self, identity: str, namespace: str, name: str, timing: Timing) -> None:
        self.identity = identity
        self.until = -math.inf
        """When this process stops holding the Lease, and leading, unless it renews."""
        self._leads_from = -math.inf
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._lease: Lease | None = None
        """As last seen; None where there is none."""
        self._deleted = False
        """Whether there was one that was deleted, and nobody is known to have held it since."""
        self._seen_at = -math.inf
        """When `_lease` was first seen in this version."""
        self._looked_at = -math.inf
        self._sent_at = -math.inf
        """When the last claim that was answered was sent."""
        self.known = False
        """Whether what was last seen is what a claim can be made from."""
        self._not_before = -math.inf

    def leads(self, now: float) -> bool:
        """Whether this process is the leader, as far as it may believe so."""
        return self._leads_from <= now < self.until

    @property
    def holder(self) -> str:
        """Who was last seen to hold the Lease; empty: nobody."""
        return self._lease.holder if self._lease is not None else ""

    def release(self, now: float, wall: datetime) -> bytes | None:
        """What to write to let another have it at once; None where it is not ours to give. From
        now on this process does not lead."""
        self.until = -math.inf
        lease = self._lease
        if not self.known or lease is None or lease.holder != self.identity:
            return None
        if self._deleted or now < self._leads_from:
            return None
        self.known = False
        return lease.released(wall)

    # ------------------------------------------------------------------ what to do

    def next(self, now: float, wall: datetime) -> Step:
        """What to do now; after it was done and its outcome told, ask again."""
        if now < self._not_before:
            return Wait(self._not_before - now)
        holds = now < self.until
        if holds and (due := self._sent_at + self._timing.retry) > now:
            return Wait(min(due, self.until) - now)
        if not self.known:
            return LOOK
        if holds or now >= (free_at := self._free_at()):
            return self._claim(wall)
        if (look_at := self._looked_at + self._timing.look) <= now:
            return LOOK
        return Wait(min(look_at, free_at) - now)

    def _free_at(self) -> float:
        """When this process may claim the Lease."""
        if self._lease is None or self._lease.holder in ("", self.identity):
            return -math.inf
        return self._seen_at + max(self._lease.seconds or 0, self._timing.lease)

    def _claim(self, wall: datetime) -> Claim:
        if self._lease is not None:
            return Claim(self._lease.claimed(self.identity, self._timing.lease, wall), create=False)
        body = first_claim(self._namespace, self._name, self.identity, self._timing.lease, wall)
        return Claim(body, create=True)

    # ------------------------------------------------------------------ what came of it

    def saw(self, lease: Lease, now: float) -> None:
        """The answer to a look, as it came."""
        if self._lease is None or lease.version != self._lease.version:
            self._lease, self._seen_at = lease, now
        self._looked_at, self.known = now, True
        if lease.holder != self.identity:
            self.until = -math.inf
            self._deleted = self._deleted and not lease.holder

    def gone(self, now: float) -> None:
        """The answer to a look: there is no such Lease."""
        if self._lease is not None:
            self._lease, self._deleted = None, True
        self._looked_at, self.known = now, True
        self.until = -math.inf

    def stored(self, lease: Lease, sent_at: float, now: float) -> None:
        """The answer to a claim that was sent at `sent_at`: it is stored, as this."""
        self._lease, self.known = lease, True
        self._seen_at = self._looked_at = now
        self._sent_at, self.until = sent_at, sent_at + self._timing.renew
        if self._deleted:
            self._deleted, self._leads_from = False, now + self._timing.lease

    def refused(self) -> None:
        """The answer to a claim: the Lease is no longer what it was made from."""
        self.known = False

    def failed(self, now: float) -> None:
        """No answer, or an error: a claim may have been stored all the same."""
        self.known = False
        self._not_before = now + self._timing.retry
