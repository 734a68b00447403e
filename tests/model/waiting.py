"""Steps that have not started: whether they start, wait, are skipped or fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.books import SKIPPED_BY_USER, State
from model.matching import takes_items
from model.readiness import MET, STOPPED, handles, stops_now, verdict, waits_for_storage

if TYPE_CHECKING:
    from model.reference import Reference


class Waiting:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def update_waiting(self, state: State) -> None:
        """Skip or fail the step, or leave it to `may_start`."""
        reference = self.reference
        if state.name in reference.left_out:
            self.skip(state, "NotTargeted")
            return
        order = state.order()
        if order is not None and order.action == "SkipStep":
            self.skip(state, order.reason)
            return
        if order is not None:
            state.end("Failed", order.reason, now=reference.now)
            return
        targets = [reference.states[name] for name in state.step.targets]
        matches = bool(reference.matching.targets(state)[0])
        so_far = reference.matching.verdict(state) if matches else verdict(state.step, targets)
        if reference.ends(state):
            if all(target.phase != "Waiting" for target in targets):
                self.skip_unstarted(state, so_far)
            return
        if state.finally_ and not self.finally_may_start():
            return
        if so_far != MET:
            self.skip(state, so_far)
            return
        if not (reference.suspended or reference.waits):
            self.update_ready(state)

    def update_ready(self, state: State) -> None:
        """Let a step decide whose dependencies are met, and end it if it cannot start."""
        reference = self.reference
        given = reference.matching.given(state) if takes_items(state.step) else []
        if isinstance(given, str):
            self.skip(state, given)
            return
        reference.deciding.decide(state)
        if state.ended:
            return
        if any(len(each) != len(state.items or ()) for each in reference.matching.lists(state)):
            state.end("Failed", "ItemsMismatch", now=reference.now)
            return
        if state.items == []:
            self.end_without_items(state)
        elif self.gate_closed(state) and not reference.has_begun(state):
            self.skip(state, STOPPED)
        else:
            reference.matching.skip_items(state)
            reference.deciding.take_turns(state)
            reference.by_hand.settle_unstarted(state)
            reference.tolerance.judge(state)
            if state.items and (state.runs or state.outcome) and not state.alive:
                reference.running.end_for_each(state)

    def skip_unstarted(self, state: State, verdict_so_far: str) -> None:
        """Skip a step when the flow ends. All its targets have started or ended."""
        reference = self.reference
        if any(run.phase == "Failed" for run in state.runs):
            reference.accept_shown(state)  # a user runs another item again, and this one stays
            return
        known = {verdict_so_far} & {"NotTaken", "UpstreamFailed"}
        if verdict_so_far == MET and state.decided and reference.deciding.not_taken(state):
            known = {"NotTaken"}
        ends = [reference.seen.steps[name] for name in state.step.targets]
        if any(end.phase == "Failed" or end.reason == "UpstreamFailed" for end in ends):
            known |= {"NotTaken", "UpstreamFailed"}  # because of a step that ends with the flow
        reason = reference.seen.steps[state.name].reason
        state.end("Skipped", STOPPED, *known, now=reference.now)
        state.reason = reason if reason in known else STOPPED

    def end_without_items(self, state: State) -> None:
        """End a forEach without items: Completed or Stopped; either if the flow stops at this
        moment."""
        reported = self.reference.seen.steps[state.name].reason == STOPPED
        if reported if stops_now(self.reference, state) else self.gate_closed(state):
            self.skip(state, STOPPED)
        else:
            state.end("Completed", "", now=self.reference.now)

    def skip(self, state: State, reason: str) -> None:
        if reason in ("NotTaken", "NotTargeted", "UpstreamFailed", STOPPED, SKIPPED_BY_USER):
            state.end("Skipped", reason, now=self.reference.now)
            state.reason = reason

    def gate_closed(self, state: State) -> bool:
        reference = self.reference
        if reference.matching.goes_on(state) or reference.was_first(state):
            return False
        return reference.stopped() and not state.finally_ and not handles(state, reference.states)

    def finally_may_start(self) -> bool:
        others = [state for state in self.reference.states.values() if not state.finally_]
        return all(state.ended and not state.alive for state in others)

    def may_start(self, state: State) -> bool:
        """Whether a step that has not started may start now."""
        reference = self.reference
        if (
            reference.suspended
            or reference.waits
            or reference.result
            or state.phase != "Waiting"
            or not state.decided
        ):
            return False
        return not self.gate_closed(state) or self.stops_later()

    def stops_later(self) -> bool:
        """Whether the plan of this batch does not know yet that the flow stops."""
        reference = self.reference
        broken = [state for state in reference.states.values() if state.broken]
        new = all(state.failed_at == reference.now for state in broken)
        late = all(waits_for_storage(reference, state) for state in broken)
        return new and (reference.seen.blurred or late)

    def may_be_omitted(self, state: State) -> bool:
        """Whether a vcjob of the step may be created, but does not have to be."""
        if state.step.daemon and not state.finally_ and self.reference.others_have_ended():
            return True
        return state.phase == "Waiting" and self.gate_closed(state)
