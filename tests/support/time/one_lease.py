"""The simulated API server of `simulated_processes`: one Lease, and the stored writes with the
holder at that time. It has no clock and loses nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jobflow.api.resources import LEASES

NAMESPACE, NAME = "system", "jobflow"


@dataclass
class Reply:
    """The parts of an aiohttp response that Client reads."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Landed:
    """A stored write of a leader, with the holder of the Lease and the leader at that time."""

    at: float
    writer: str
    holder: str | None
    """The holder; None if the Lease did not exist."""
    leader: str | None
    """The last process that started to lead; a write of another one is late."""


class Server:
    """One Lease, and a list of writes."""

    def __init__(self, leader: Callable[[], str | None]) -> None:
        self._leader = leader
        self.lease: dict[str, Any] | None = None
        self.landed: list[Landed] = []
        self.held: list[tuple[float, str]] = []
        """Each holder, with the start time."""
        self._versions = itertools.count(1)

    @property
    def holder(self) -> str | None:
        return None if self.lease is None else self.lease["spec"].get("holderIdentity", "")

    def handle(self, now: float, method: str, path: str, body: bytes, writer: str) -> Reply:
        if not path.startswith(LEASES.path(NAMESPACE)):
            self.landed.append(Landed(now, writer, self.holder, self._leader()))
            return Reply(201, body)
        if method == "POST":
            if self.lease is not None:
                return failure(409, "AlreadyExists")
        elif self.lease is None:
            return failure(404, "NotFound")
        if method != "GET":
            new = json.loads(body)
            if method == "PUT" and not self._same(new["metadata"]):
                return failure(409, "Conflict")
            self._store(now, new)
        return Reply(200, json.dumps(self.lease).encode())

    def delete(self) -> None:
        self.lease = None

    def _same(self, meta: dict[str, Any]) -> bool:
        assert self.lease is not None
        current = self.lease["metadata"]
        return all(meta[key] == current[key] for key in ("uid", "resourceVersion"))

    def _store(self, now: float, new: dict[str, Any]) -> None:
        if self.lease == new:
            return  # like a real server: no new version if nothing changes
        version = str(next(self._versions))
        meta = {"uid": version, **new["metadata"], "resourceVersion": version}
        self.lease = {**new, "metadata": meta}
        if not self.held or self.held[-1][1] != self.holder:
            self.held.append((now, self.holder or ""))


def failure(code: int, reason: str) -> Reply:
    """A Status as the API server returns it."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return Reply(code, json.dumps(body).encode())
