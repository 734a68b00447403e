"""A Lease as it stands on the API server, and as it is to be written. Decides nothing, sends
nothing.

Its times are for people (`kubectl get lease`): nobody's clock is ever compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored Lease. `body` is all of it, so that a write keeps what others have put there."""

    body: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Lease:
        """The object of an answer."""
        return cls(msgspec.json.decode(body))

    @property
    def version(self) -> tuple[str, str]:
        """UID and resource version: the same for as long as nobody has written."""
        meta = self.body["metadata"]
        return meta["uid"], meta["resourceVersion"]

    @property
    def holder(self) -> str:
        """Who holds it; empty: nobody, it was released."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def seconds(self) -> int | None:
        """How long its holder may go without renewing it, as the holder says."""
        return self._spec.get("leaseDurationSeconds")

    @property
    def transitions(self) -> int:
        """How often it went to another holder."""
        return self._spec.get("leaseTransitions") or 0

    @property
    def acquired(self) -> str:
        """When its holder got it, by the holder's clock."""
        return str(self._spec.get("acquireTime") or "")

    @property
    def renewed(self) -> str:
        """When its holder last renewed it, by the holder's clock."""
        return str(self._spec.get("renewTime") or "")

    @property
    def _spec(self) -> Mapping[str, Any]:
        return self.body.get("spec") or {}

    # ------------------------------------------------------------------ writing

    def claimed(self, holder: str, seconds: int, at: datetime) -> bytes:
        """The same taken over or renewed. Refused (409) where this is no longer what is stored."""
        ours = self.holder == holder
        spec = {
            **self._spec,
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": self.acquired if ours and self.acquired else micro_time(at),
            "renewTime": self._now(at),
            "leaseTransitions": self.transitions + (not ours),
        }
        return msgspec.json.encode({**self.body, "spec": spec})

    def released(self, at: datetime) -> bytes:
        """The same, held by nobody."""
        spec = {**self._spec, "renewTime": self._now(at)}
        spec.pop("holderIdentity", None)
        return msgspec.json.encode({**self.body, "spec": spec})

    def _now(self, at: datetime) -> str:
        """A time that differs from the stored one, whatever the clock says: an API server stores
        no new version for a write that changes nothing, and followers look at the version."""
        text = micro_time(at)
        return text if text != self.renewed else micro_time(at + MICROSECOND)


def first_claim(namespace: str, name: str, holder: str, seconds: int, at: datetime) -> bytes:
    """A Lease to create where there is none."""
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
    """RFC 3339 with six digits and Z, the only form of a MicroTime (meta/v1 micro_time.go)."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
