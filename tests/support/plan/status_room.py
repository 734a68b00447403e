"""Statuses that are made as small as possible."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.status import JobFlowStatus
from jobflow.core.planning.status.size_limit import fitted
from support.plan.world_state import NOW

FULL: dict[str, Any] = {
    "create_time": NOW,
    "running_duration": "3s",
    "last_transition_time": NOW,
    "message": "m",
}
"""Fields of a condition that are dropped if the status is too large."""


def drop_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a status no room, so that all that can be dropped is dropped."""
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.MOST", 0)


def smallest_of(status: JobFlowStatus) -> int:
    """Return the bytes of a status once all that can be dropped is dropped."""
    return len(msgspec.json.encode(fitted(status, JobFlowStatus())))
