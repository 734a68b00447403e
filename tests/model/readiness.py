"""Whether the dependencies of a step are met, or why it is skipped (docs/reference.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from jobflow.api.flow.step import Step
from model.books import FLOW_ERRORS, ShownStep, State

if TYPE_CHECKING:
    from model.reference import Reference

MET, NOT_YET, PASSED = "met", "not yet", "passed over"
STOPPED, NOT_TAKEN, UPSTREAM = "Stopped", "NotTaken", "UpstreamFailed"

HANDLING = {"Failed", "Finished", "Always"}
"""Conditions that a failure may meet."""


def required_condition(step: Step, target: Step) -> str:
    """Return the condition that a target must meet: its own, or else that of the step, or else
    Running for a daemon."""
    depends_on = step.depends_on
    own = (depends_on.conditions if depends_on else None) or {}
    condition = own.get(target.name) or (depends_on.condition if depends_on else None)
    return condition or ("Running" if target.daemon else "Completed")


def reached(step: Step, target: State, running: Collection[str] = ()) -> str:
    """Return the state of a target for a step. `running`: steps that count as if they ran."""
    condition = required_condition(step, target.step)
    if target.ended and condition == "Always":
        return MET
    if not target.ended:
        ran = target.ran or target.name in running
        return MET if condition == "Running" and ran else NOT_YET
    match target.phase, target.reason:
        case ("Completed", _) | (_, "SkippedByUser"):
            return NOT_TAKEN if condition == "Failed" else MET
        case "Failed", _ if target.tolerated:
            return MET
        case "Failed", _:
            ran = condition == "Running" and target.ran
            return MET if condition in ("Failed", "Finished") or ran else UPSTREAM
        case _, "UpstreamFailed":
            return MET if condition == "Finished" else UPSTREAM
        case _, "Stopped":
            return STOPPED
    return MET if condition == "NotFailed" else PASSED


def verdict(step: Step, targets: list[State], running: Collection[str] = ()) -> str:
    """Return the combined state: MET, NOT_YET, or the reason to skip the step."""
    return combined(step, [reached(step, target, running) for target in targets])


def combined(step: Step, reaches: list[str]) -> str:
    if not reaches:
        return MET
    any_will_do = step.depends_on is not None and step.depends_on.strategy == "any"
    if any_will_do and MET in reaches:
        return MET
    if not any_will_do and UPSTREAM in reaches:
        return UPSTREAM
    for worst in (NOT_YET, UPSTREAM, STOPPED, NOT_TAKEN):
        if worst in reaches:
            return worst
    return MET if MET in reaches else NOT_TAKEN


def may_match(step: Step, target: State) -> bool:
    """Whether items of a step may start, because a target of its items has started."""
    has_items = target.step.for_each is not None or target.step.matches_items
    return step.matches_items and has_items and target.phase in ("Running", "Completed", "Failed")


def handles(state: State, states: Mapping[str, State]) -> bool:
    """Whether the step may start in a stopped flow, because it or a step before it handles
    failures."""
    met = [
        target
        for target in (states[name] for name in state.step.targets)
        if reached(state.step, target) == MET or may_match(state.step, target)
    ]
    if any(required_condition(state.step, each.step) in HANDLING for each in met):
        return True
    return any(target.phase != "Skipped" and handles(target, states) for target in met)


def waits_for_storage(reference: Reference, state: State) -> bool:
    """Whether the plan of this batch only stores a decision or the end of work without vcjobs, of
    the step or of one that it depends on: a failure that follows from it comes a plan later."""
    batch = reference.batch
    stored_now = state.decided_at == reference.now and state.name not in batch.ended
    if reference.own_work(state) is not None and state.ended and state.runs:
        stored_now = stored_now or state.name not in batch.ended_before
    targets = (reference.states[name] for name in state.step.targets)
    return stored_now or any(waits_for_storage(reference, target) for target in targets)


def stops_now(reference: Reference, state: State) -> bool:
    """Whether the flow stops at this moment because of a step that does not depend on this one."""
    if reference.flow.spec.failure_policy == "Continue" or handles(state, reference.states):
        return False
    others = [s for s in reference.states.values() if not s.finally_ and s is not state]
    if state.finally_ or any(s.broken and s.failed_at != reference.now for s in others):
        return False
    dependants = reference.commands.dependants_of(state.name, in_any_case=True)
    if reference.seen.blurred:  # its end may be lost after a dependant has started and failed
        dependants = set()
    return any(
        s.name not in dependants and _breaks(s, reference.seen.steps[s.name]) for s in others
    )


def _breaks(state: State, shown: ShownStep) -> bool:
    """Whether a step fails the flow by the status."""
    is_error = shown.reason in FLOW_ERRORS
    return shown.phase == "Failed" and (is_error or not state.tolerated)
