"""Since when each step is where it is. It changes nothing else of what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from jobflow.api.flow_status import StepCondition
from jobflow.core.scene import Decision, Scene


def timed(scene: Scene, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions with `lastTransitionTime`: kept while phase and reason stay, else the vcjob's
    own time where the condition has it already, else now."""
    now = scene.second
    found = list(decisions)
    for position, evidence in enumerate(scene.evidence):
        condition, memory = found[position].condition, evidence.memory
        if condition is not memory and condition.last_transition_time is not now:
            timed = _timed(condition, memory, now)
            if timed is not condition:
                found[position] = found[position]._replace(condition=timed)
    return found


def _timed(condition: StepCondition, memory: StepCondition, now: datetime) -> StepCondition:
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
