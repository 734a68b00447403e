"""Rules of leader election for one process: what to do next. No I/O, no clock, no randomness.

Many candidates compete for one Lease. Three rules ensure that at most one leads at any time, if
their clocks run at the same speed (within the reserve of `Timing`), whatever time they show:

1. The holder leads for `renew` seconds from when it SENT the last claim that was answered. The
   claim was stored later, and others see it later still.
2. Another candidate claims the Lease only after it has known the same version of it for the
   holder's whole lease duration, from when the answer with that version CAME, by its own clock.
3. Every claim names the version that it is based on. The API server refuses one of two claims.

So at least lease - renew seconds pass between two terms. Writes in flight finish in this time
(`jobflow.kube.election.election`).

    what is known                                        next step
    ---------------------------------------------------- ---------------------------------------
    nothing, or that the last request had no answer      LOOK, `retry` seconds after a failure
    no Lease exists                                      Claim (create)
    held by no one, or by itself and not renewed in time Claim
    held by another                                      LOOK every `look` seconds
    held by another, unchanged for its whole duration    Claim
    held by itself, renewed less than `retry` ago        Wait
    held by itself, renewed longer ago                   Claim; after a failure LOOK first

A candidate stops leading when `renew` seconds have passed, or when it reads that the Lease has
another holder or no longer exists.

A deleted Lease says nothing about its last holder, which may lead for a while. A candidate that
knew the Lease and creates it again holds it, but leads, and releases it, only after a whole lease
duration. A process that has never seen the Lease cannot know this, and leads at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from jobflow.kube.answers import decoder

MICROSECOND = timedelta(microseconds=1)


class LeaseMeta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str


class LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class LeaseAnswer(msgspec.Struct):
    """The fields of a stored Lease that a claim reads."""

    metadata: LeaseMeta
    spec: LeaseSpec | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored Lease. `body` is the whole object, so that a write keeps the fields of others. Its
    times are for people (`kubectl get lease`); no clock is ever compared with them."""

    body: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Decode the body of an answer. Raises UnreadableAnswer if it is not a stored Lease."""
        # checks the shape; unknown fields of the whole object are kept below
        decoder(LeaseAnswer).decode(body)
        return cls(msgspec.json.decode(body))

    @property
    def version(self) -> tuple[str, str]:
        meta = self.body["metadata"]
        return meta["uid"], meta["resourceVersion"]

    @property
    def holder(self) -> str:
        """Identity of the holder, "" after a release."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def seconds(self) -> int | None:
        """The lease duration that the holder has set."""
        return self._spec.get("leaseDurationSeconds")

    @property
    def _spec(self) -> Mapping[str, Any]:
        return self.body.get("spec") or {}

    def claimed(self, holder: str, seconds: int, at: datetime) -> bytes:
        """Return the body that takes over or renews it. 409 if it is no longer stored like this."""
        ours = self.holder == holder
        spec = {
            **self._spec,
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": (ours and self._spec.get("acquireTime")) or micro_time(at),
            "renewTime": self._now(at),
            # counts changes of the holder, not renewals
            "leaseTransitions": (self._spec.get("leaseTransitions") or 0) + (not ours),
        }
        return msgspec.json.encode({**self.body, "spec": spec})

    def released(self, at: datetime) -> bytes:
        spec = {**self._spec, "renewTime": self._now(at)}
        spec.pop("holderIdentity", None)
        return msgspec.json.encode({**self.body, "spec": spec})

    def _now(self, at: datetime) -> str:
        """Return a time that differs from the stored one: an API server stores no new version if
        nothing changes, and followers look at the version."""
        text = micro_time(at)
        return text if text != self._spec.get("renewTime") else micro_time(at + MICROSECOND)


def first_claim(namespace: str, name: str, holder: str, seconds: int, at: datetime) -> bytes:
    now = micro_time(at)
    return msgspec.json.encode(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": seconds,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
    )


def micro_time(at: datetime) -> str:
    """Format as RFC 3339 with six digits and Z, the only form of a MicroTime (micro_time.go)."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


RESERVE = 0.2
"""Share of lease - renew that is kept for clocks of different speed and for late timers."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; client-go's defaults. Raises ValueError for values that allow two leaders."""

    lease: int = 15
    """How long others wait for a holder that does not renew. The API has whole seconds only."""
    renew: float = 10.0
    """How long a holder leads without renewing."""
    retry: float = 2.0
    """Pause between renewals, and after a failed request."""
    look: float = 1.0
    """Pause between reads of a Lease that another holds."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease or self.look <= 0:
            raise ValueError(
                f"leader election needs retry ({self.retry:g} s) < renew deadline "
                f"({self.renew:g} s) < lease duration ({self.lease} s), all above 0"
            )

    @property
    def write(self) -> float:
        """Time limit of a leader's writes: one that begins last ends before another process may
        lead."""
        return (self.lease - self.renew) * (1 - RESERVE)

    @property
    def request(self) -> float:
        """Time limit of a request about the Lease, so that three fit into a term."""
        return self.renew / 3


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease, then call `saw` or `gone`, or `failed` on an error."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Write this Lease, then call `stored` or `refused`, or `failed` on an error."""

    body: bytes
    create: bool


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


Step = Look | Claim | Wait
LOOK = Look()


class Candidate:
    """One process in the election of one Lease. Times are seconds of a clock that never stops or
    goes back; `wall` is only written into the Lease."""

    def __init__(self, identity: str, namespace: str, name: str, timing: Timing) -> None:
        self.identity = identity
        self.until = -math.inf
        """When this process stops leading unless it renews."""
        self._leads_from = -math.inf
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._lease: Lease | None = None
        """The Lease as last seen; None if it did not exist."""
        self._deleted = False
        """Whether a known Lease was deleted, and no other holder has been seen since."""
        self._seen_at = -math.inf
        self._looked_at = -math.inf
        self._sent_at = -math.inf
        """When the last answered claim was sent."""
        self.known = False
        """Whether the Lease as last seen may be the basis of a claim."""
        self._not_before = -math.inf

    def leads(self, now: float) -> bool:
        """Return whether this process leads, as far as it knows."""
        return self._leads_from <= now < self.until

    @property
    def holder(self) -> str:
        return self._lease.holder if self._lease is not None else ""

    def release(self, now: float, wall: datetime) -> bytes | None:
        """Stop leading, and return the body that releases the Lease; None if it is not held."""
        self.until = -math.inf
        lease = self._lease
        if not self.known or lease is None or lease.holder != self.identity:
            return None
        # the holder before may still lead, so the Lease has to run out
        if self._deleted or now < self._leads_from:
            return None
        # its release is a new version, which no claim has seen
        self.known = False
        return lease.released(wall)

    def next(self, now: float, wall: datetime) -> Step:
        """Return what to do now. Report its outcome before the next call."""
        if now < self._not_before:
            return Wait(self._not_before - now)
        holds = now < self.until
        if holds and (due := self._sent_at + self._timing.retry) > now:
            return Wait(min(due, self.until) - now)
        if not self.known:
            return LOOK
        lease, seconds = self._lease, self._timing.lease
        if holds or lease is None or lease.holder in ("", self.identity):
            free_at = -math.inf
        else:
            free_at = self._seen_at + max(lease.seconds or 0, seconds)
        if now >= free_at:
            if lease is not None:
                return Claim(lease.claimed(self.identity, seconds, wall), create=False)
            body = first_claim(self._namespace, self._name, self.identity, seconds, wall)
            return Claim(body, create=True)
        if (look_at := self._looked_at + self._timing.look) <= now:
            return LOOK
        return Wait(min(look_at, free_at) - now)

    def saw(self, lease: Lease, now: float) -> None:
        if self._lease is None or lease.version != self._lease.version:
            self._lease, self._seen_at = lease, now
        self._looked_at, self.known = now, True
        if lease.holder != self.identity:
            self.until = -math.inf
            # another holder has waited itself
            self._deleted = self._deleted and not lease.holder

    def gone(self, now: float) -> None:
        if self._lease is not None:
            self._lease, self._deleted = None, True
        self._looked_at, self.known = now, True
        self.until = -math.inf

    def stored(self, lease: Lease, sent_at: float, now: float) -> None:
        """Record that a claim sent at `sent_at` was stored as this Lease."""
        self._lease, self.known = lease, True
        self._seen_at = self._looked_at = now
        self._sent_at, self.until = sent_at, sent_at + self._timing.renew
        # created again: the last holder of the deleted Lease may lead until it expires
        if self._deleted:
            self._deleted, self._leads_from = False, now + self._timing.lease

    def refused(self) -> None:
        self.known = False

    def failed(self, now: float) -> None:
        # a claim may have been stored all the same, so the Lease is read first
        self.known = False
        # an API server that is down is not asked in a hot loop
        self._not_before = now + self._timing.retry
