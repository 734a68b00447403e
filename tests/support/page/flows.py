"""Flows with a status, as the controller would have written them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from support.sandbox.running_controller import flow

Json = dict[str, Any]


def ago(seconds: float) -> str:
    """Return a time before now, as a status has it."""
    return f"{datetime.now(UTC) - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def status_of(name: str, phases: Mapping[str, Any], phase: str = "Running", **state: str) -> Json:
    """Return the status of a flow whose steps are in these phases; a phase may also be the fields
    of a condition."""
    conditions = {
        f"{name}-{step}": dict(each) if isinstance(each, Mapping) else {"phase": each}
        for step, each in phases.items()
    }
    ended = sum(each["phase"] in ("Completed", "Failed", "Skipped") for each in conditions.values())
    status: Json = {
        "state": {"phase": phase, **state},
        "progress": f"{ended}/{len(conditions)}",
        "startTime": ago(200),
        "conditions": conditions,
    }
    if phase in ("Succeed", "Failed"):
        status["completionTime"] = ago(20)
    return status


def flow_with_status(
    name: str,
    steps: Mapping[str, str],
    phases: Mapping[str, Any],
    phase: str = "Running",
    *,
    labels: Mapping[str, str] | None = None,
    **state: str,
) -> Json:
    """Return a flow and its status."""
    made = flow(name, steps)
    if labels:
        made["metadata"]["labels"] = dict(labels)
    return made | {"status": status_of(name, phases, phase, **state)}
