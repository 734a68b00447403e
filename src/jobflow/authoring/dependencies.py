"""Dependencies that follow from use: a step waits for the steps whose results it uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobflow.api.flow.step import Step
from jobflow.core.spec.expressions import reads_of


def add_dependencies(steps: list[dict[str, Any]]) -> None:
    """Let a step wait for the steps whose results it uses, unless it does already. One with a
    strategy, condition or probe of its own keeps its targets."""
    names = {step["name"] for step in steps}
    targets = {step["name"]: [*_targets(step)] for step in steps}
    for step in steps:
        own = step["name"]
        if step.get("dependsOn", {}).keys() - {"targets"}:
            continue
        for name in _used(step):
            if name in names and name != own and name not in _upstream(own, targets):
                targets[own].append(name)
                step["dependsOn"] = {"targets": targets[own]}


def _targets(step: Mapping[str, Any]) -> list[str]:
    return step.get("dependsOn", {}).get("targets", [])  # type: ignore[no-any-return]


def _used(step: dict[str, Any]) -> Iterator[str]:
    if (typed := typed_step(step)) is not None:
        yield from dict.fromkeys(read.step for read in reads_of(typed))


def typed_step(step: dict[str, Any]) -> Step | None:
    """Return a step as the API reads it, or None if it is not valid."""
    try:
        return msgspec.convert(step, Step)
    except (msgspec.ValidationError, RecursionError):
        return None


def _upstream(step: str, targets: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    pending = [*targets[step]]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += targets.get(name, ())
    return found
