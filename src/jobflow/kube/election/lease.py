"""A Lease as stored, and the bodies that change it.

Its times are for people (`kubectl get lease`); no clock is ever compared with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from jobflow.kube.reading import decoder

MICROSECOND = timedelta(microseconds=1)


class LeaseMeta(msgspec.Struct, rename="camel"):
    """The fields of `metadata` that a claim needs."""

    uid: str
    resource_version: str


class LeaseSpec(msgspec.Struct, rename="camel"):
    """The fields of `spec` that a claim reads."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class LeaseAnswer(msgspec.Struct):
    """The shape of a stored Lease."""

    metadata: LeaseMeta
    spec: LeaseSpec | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored Lease. `body` is the whole object, so that a write keeps the fields of others."""

    body: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Decode the body of an answer. Raises UnreadableAnswer if it is not a stored Lease."""
        # checks the shape; unknown fields of the whole object are kept below
        decoder(LeaseAnswer).decode(body)
        return cls(msgspec.json.decode(body))

    @property
    def version(self) -> tuple[str, str]:
        """UID and resource version, which change with every write."""
        meta = self.body["metadata"]
        return meta["uid"], meta["resourceVersion"]

    @property
    def holder(self) -> str:
        """Identity of the holder, "" after a release."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def seconds(self) -> int | None:
        """Lease duration in seconds that the holder has set."""
        return self._spec.get("leaseDurationSeconds")

    @property
    def _spec(self) -> Mapping[str, Any]:
        return self.body.get("spec") or {}

    # ------------------------------------------------------------------ bodies to write

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
        """Return the body that releases it."""
        spec = {**self._spec, "renewTime": self._now(at)}
        spec.pop("holderIdentity", None)
        return msgspec.json.encode({**self.body, "spec": spec})

    def _now(self, at: datetime) -> str:
        """Return a time that differs from the stored one, whatever the clock says: an API server
        stores no new version if nothing changes, and followers look at the version."""
        text = micro_time(at)
        return text if text != self._spec.get("renewTime") else micro_time(at + MICROSECOND)


def first_claim(namespace: str, name: str, holder: str, seconds: int, at: datetime) -> bytes:
    """Return the body that creates the Lease."""
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
