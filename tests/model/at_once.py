"""Events of the same moment, of which a plan cannot know all (docs/decisions)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.books import State
from model.readiness import handles

if TYPE_CHECKING:
    from model.reference import Reference


def waits_for_writing(reference: Reference, state: State) -> bool:
    """Whether the step, or one that it depends on, was decided in the plan of this batch, which
    only stores the decision: a failure that follows from it comes a plan later."""
    written = state.decided_at == reference.now and state.name not in reference.batch.over
    behind = (reference.states[name] for name in state.step.targets)
    return written or any(waits_for_writing(reference, target) for target in behind)


def stops_just_now(reference: Reference, state: State) -> bool:
    """Whether the flow stops at this moment because of a step that does not depend on this one."""
    if reference.flow.spec.failure_policy == "Continue" or handles(state, reference.states):
        return False
    others = [s for s in reference.states.values() if not s.finally_ and s is not state]
    if state.finally_ or any(s.broken and s.failed_at != reference.now for s in others):
        return False
    behind = reference.commands.behind(state.name)
    failing = [s for s in others if reference.seen.steps[s.name].phase == "Failed"]
    return any(not s.step.continue_on_failure and s.name not in behind for s in failing)
