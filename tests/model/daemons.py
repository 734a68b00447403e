"""When daemons are ended (docs/reference.md, Daemons)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.books import State
from model.readiness import HANDLING, NOT_YET, required_condition, verdict

if TYPE_CHECKING:
    from model.reference import Reference


class Daemons:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def ending(self) -> list[State]:
        """Return the daemons that are ended now: all of them after all other steps. Before, once
        all that is left waits for the end of daemons, those whose end is awaited, if no step that
        is left needs them to run, and the daemons that need these."""
        left = [s for s in self.reference.states.values() if not (s.finally_ or s.ended)]
        if all(state.step.daemon for state in left):
            return left
        begun = [state for state in left if state.step.daemon and state.phase == "Running"]
        waiting = [state for state in left if state not in begun]
        names = {state.name for state in begun}
        reference = self.reference
        if reference.suspended or reference.waits or not all(self.waits(s, names) for s in waiting):
            return []
        startable = [state for state in waiting if self.may_still_start(state)]
        used = {name for state in startable for name in self.used(state)}
        awaited = {name for state in waiting for name in self.targets(state, runs=False)}
        ends = awaited & names - used
        return [s for s in begun if s.name in ends or ends & self.used(s)]

    def waits(self, state: State, running: set[str]) -> bool:
        """Whether a step, or each of its items, could not start even if these daemons ran."""
        matching = self.reference.matching
        if not matching.targets(state)[0]:
            targets = [self.reference.states[name] for name in state.step.targets]
            return state.phase == "Waiting" and verdict(state.step, targets, running) == NOT_YET
        if state.phase == "Waiting" and matching.verdict(state, running) == NOT_YET:
            return True
        if not state.decided or any(not run.phase for run in state.runs):
            return False
        left = [i for i in range(len(state.items or ())) if state.run(i) is None]
        return all(matching.item(state, index, running) == NOT_YET for index in left)

    def may_still_start(self, state: State) -> bool:
        """Whether a step may start, also if the flow has stopped: it handles a failure, or follows
        a step that does."""
        if not self.reference.stopped():
            return True
        targets = [self.reference.states[name] for name in state.step.targets]
        conditions = {required_condition(state.step, target.step) for target in targets}
        if conditions & HANDLING or self.reference.matching.goes_on(state):
            return True
        return any(t.phase != "Skipped" and self.may_still_start(t) for t in targets)

    def used(self, state: State) -> set[str]:
        """Return the daemons that a step, or a daemon that it needs, needs to run."""
        direct = self.targets(state, runs=True)
        return direct.union(*(self.used(self.reference.states[name]) for name in direct))

    def targets(self, state: State, *, runs: bool) -> set[str]:
        """Return the daemons that a step depends on: those that have to run, or to end."""
        targets = [self.reference.states[name] for name in state.step.targets]
        return {
            target.name
            for target in targets
            if target.step.daemon
            and (required_condition(state.step, target.step) == "Running") == runs
        }
