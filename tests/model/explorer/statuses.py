"""Statuses of explored flows: each is kept once, and compared by identity.

Two statuses are the same if they are equal without times that nothing waits for (`shape`), and if
the times that something waits for (`moments`) are equally far away.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.flow.status import JobFlowStatus
from support.plan.world_state import NOW

WAITED_FOR = {
    "nextAttemptTime": 0,
    "deadline": 0,
    "abortTime": -60,
    "startTime": -1000,
    "suspendedAt": -1000,
    "completionTime": -1000,
}
"""Times that something waits for, and the seconds after which they no longer matter."""
FLOW_TIMES = frozenset({"startTime", "suspendedAt", "completionTime"})
"""The times that only a flow with a timeout or a ttl waits for."""
_IGNORED = frozenset(
    {
        "queuedTime",
        "createTime",
        "startTimestamp",
        "endTimestamp",
        "lastTransitionTime",
        "runningDuration",
        "requestedHours",
        "suspendedSeconds",
        "time",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """A status as the API server stores it."""

    value: JobFlowStatus
    shape: bytes
    """The status as JSON, without times."""
    moments: tuple[tuple[str, int], ...]
    """The field of each time that something may wait for, and its seconds since NOW."""


def _without_times(value: Any, moments: list[tuple[str, int]]) -> Any:
    if isinstance(value, list):
        return [_without_times(inner, moments) for inner in value]
    if not isinstance(value, dict):
        return value
    remaining: dict[str, Any] = {}
    for key, inner in value.items():
        if key in WAITED_FOR:
            at = msgspec.convert(inner, type(NOW), strict=False)
            moments.append((key, round((at - NOW).total_seconds())))
            remaining[key] = None
        elif key not in _IGNORED:
            remaining[key] = _without_times(inner, moments)
    return remaining


def _status(encoded: bytes) -> Status:
    moments: list[tuple[str, int]] = []
    shape = msgspec.json.encode(_without_times(msgspec.json.decode(encoded), moments))
    return Status(msgspec.json.decode(encoded, type=JobFlowStatus), shape, tuple(moments))


NEW = _status(b"{}")
"""The status of a flow that was just created."""


class Statuses:
    """The statuses of one search."""

    def __init__(self) -> None:
        self._known: dict[bytes, Status] = {}

    def of(self, value: JobFlowStatus) -> Status:
        """Return the one Status object for this value."""
        encoded = msgspec.json.encode(value)
        if encoded not in self._known:
            self._known[encoded] = _status(encoded)
        return self._known[encoded]
