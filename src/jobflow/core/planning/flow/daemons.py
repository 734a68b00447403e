"""When the services of a flow are ended: once all other steps are over, before `finally`."""

from __future__ import annotations

from collections.abc import Sequence

from jobflow.api.flow_status import ENDED_STEP_PHASES
from jobflow.core.planning.context import Decision, Scene


def are_done(scene: Scene, decisions: Sequence[Decision]) -> bool:
    """Whether there are daemons that have not ended, and nobody left who could need them."""
    left = False
    for step, decision in zip(scene.steps[: scene.last_from], decisions, strict=False):
        if decision.condition.phase not in ENDED_STEP_PHASES:
            if not step.daemon:
                return False
            left = True
    return left
