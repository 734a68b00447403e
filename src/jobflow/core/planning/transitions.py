"""Since when each step is where it is. It changes nothing else of what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from jobflow.api.flow_status import RunCondition
from jobflow.core.planning.context import Decision, Scene


def timed(scene: Scene, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions with `lastTransitionTime`: kept while phase and reason stay, else the vcjob's
    own time where the condition has it already, else now."""
    now = scene.second
    found = list(decisions)
    for position, evidence in enumerate(scene.evidence):
        condition, memory = found[position].condition, evidence.memory
        if condition is not memory and condition.last_transition_time is not now:
            timed = timed_as(condition, memory, now)
            if timed is not condition:
                found[position] = msgspec.structs.replace(found[position], condition=timed)
    return found


Condition = TypeVar("Condition", bound=RunCondition)


def timed_as(condition: Condition, memory: Condition, now: datetime) -> Condition:
    """The same for the condition of a step or run; `memory`: what was stored of it."""
    known = memory.last_transition_time
    if condition.phase == memory.phase and condition.reason == memory.reason:
        since = known
    elif condition.last_transition_time == known:
        since = now
    else:
        since = condition.last_transition_time or now
    if since == condition.last_transition_time:
        return condition
    timed = msgspec.structs.replace(condition, last_transition_time=since)
    return memory if timed == memory else timed
