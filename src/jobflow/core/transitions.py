"""Since when each step is where it is. It changes nothing else of what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from jobflow.api.jobflow import StepCondition
from jobflow.core.scene import Decision, Scene, whole


def timed(scene: Scene, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions with `lastTransitionTime`: kept while phase and reason stay, else the vcjob's
    own time where the condition has it already, else now."""
    now = whole(scene.now)
    found = list(decisions)
    for position, evidence in enumerate(scene.evidence):
        decision = found[position]
        if decision.condition is not evidence.memory:
            condition = _timed(decision.condition, evidence.memory, now)
            if condition is not decision.condition:
                found[position] = decision._replace(condition=condition)
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
