"""Requests to an API server, from its audit log."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

SETTLED_WITHIN_SECONDS = 10
READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that was answered."""

    user: str
    verb: str
    resource: str
    """`jobflows`, `jobflows/status`; "" for requests without an object, such as discovery."""
    group: str
    namespace: str
    name: str
    code: int
    uri: str
    came: datetime
    """When the request was received."""
    answered: datetime
    """When it was answered, so its effect is complete."""

    @property
    def writes(self) -> bool:
        """Whether it changed something: it succeeded and was no dry run."""
        dry = "dryRun=" in self.uri
        return self.verb not in READS and 200 <= self.code < 300 and not dry

    @property
    def denied(self) -> bool:
        return self.code in (401, 403)


class Audit:
    """An audit log. `mark` sends one request that differs from all others."""

    def __init__(self, log: Path, mark: Callable[[str], None]) -> None:
        self._log = log
        self._mark = mark
        self._marks = 0

    def asked(self, namespace: str = "", *, user: str = "") -> list[Asked]:
        """Return all requests of this namespace and user so far, in the order of their answers."""
        self._settle()
        return [
            asked
            for asked in self._read()
            if (not namespace or asked.namespace == namespace) and (not user or asked.user == user)
        ]

    def writes(self, namespace: str = "", *, user: str = "") -> Counter[str]:
        """Return the number of writes by kind: `create jobs`, `patch jobflows/status`."""
        asked = self.asked(namespace, user=user)
        return Counter(f"{call.verb} {call.resource}" for call in asked if call.writes)

    def created(self, resource: str, namespace: str) -> Counter[str]:
        """Return the number of creates by name."""
        return Counter(
            call.name
            for call in self.asked(namespace)
            if (call.verb, call.resource) == ("create", resource) and call.writes
        )

    def denied(
        self, user: str, namespace: str = "", *, since: datetime | None = None
    ) -> list[Asked]:
        """Return the requests of this user that were denied. With a namespace, only those in it and
        for the whole cluster. `since` excludes earlier tests on the same server."""
        places = ("", namespace)
        return [
            call
            for call in self.asked(user=user)
            if call.denied
            and (not namespace or call.namespace in places)
            and (since is None or call.came >= since)
        ]

    def _settle(self) -> None:
        """Wait until the log has all answered requests: an entry is written after the answer."""
        self._marks += 1
        name = f"mark-{self._marks}"
        self._mark(name)
        deadline = time.monotonic() + SETTLED_WITHIN_SECONDS
        while not any(asked.name == name for asked in self._read()):
            assert time.monotonic() < deadline, "the audit log is behind"
            time.sleep(0.01)

    def _read(self) -> Iterator[Asked]:
        for line in self._log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                entry = json.loads(line)
                if entry["stage"] == "ResponseComplete":
                    yield _asked(entry)


def _asked(entry: dict[str, Any]) -> Asked:
    ref = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    return Asked(
        user=entry["user"]["username"],
        verb=entry["verb"],
        resource=resource,
        group=ref.get("apiGroup", ""),
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        code=(entry.get("responseStatus") or {}).get("code", 0),
        uri=entry["requestURI"],
        came=datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        answered=datetime.fromisoformat(entry["stageTimestamp"]),
    )
