"""The effects of Commands on a flow (docs/reference.md, Commands)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.books import State
from model.matching import has_items, takes_items

if TYPE_CHECKING:
    from model.reference import Reference


class Commands:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def apply(self, command: str) -> None:
        reference = self.reference
        if command == "RestartJob":
            self.restart()
        elif reference.result:
            return
        elif command.startswith(("ApproveStep", "RejectStep")):
            reference.asking.answer(*command.split(" ", 1))
        elif command == "TerminateJob" and not reference.ending and not self.has_ended():
            reference.ending, reference.suspended = "Cancelled", False
            reference.finally_too = reference.waits
        elif command == "TerminateNow" and not self.has_ended():
            reference.ending = reference.ending or "Cancelled"
            reference.suspended, reference.finally_too = False, True
        elif command in ("SuspendFlow", "AbortJob") and not reference.ending:
            self.suspend(abort=command == "AbortJob")
        elif command == "ResumeJob" and reference.suspended:
            reference.suspended = False
            if not reference.waits:
                reference.not_counted += reference.now - reference.suspended_since

    def has_ended(self) -> bool:
        """Whether the flow has ended except that its status is not stored yet."""
        return not self.reference.open_steps() and self.reference.seen.reason != "Cancelled"

    def suspend(self, *, abort: bool) -> None:
        reference = self.reference
        before = reference.suspended
        if not before:
            reference.suspended, reference.suspended_since = True, reference.now
        for state in reference.states.values():
            # a child flow is suspended by the status of its parent
            for attempt in state.attempts if abort and state.step.flow is None else ():
                if not before or attempt.vcjob.name in reference.seen.aborted:
                    reference.intend(attempt, "Suspended")

    def restart(self) -> None:
        reference = self.reference
        if reference.result != "Failed":
            return
        names = self.steps_to_reset()
        for name in names:
            self.reset(reference.states[name], names)
        reference.result = reference.ending = ""
        reference.finally_too = False
        reference.suspended, reference.not_counted = False, 0.0
        reference.waits = reference.flow.spec.concurrency is not None
        reference.started = reference.now

    def steps_to_reset(self) -> set[str]:
        states = self.reference.states.values()
        names = {
            state.name
            for state in states
            if state.finally_
            or state.phase == "Failed"
            or (state.phase == "Skipped" and state.reason not in ("NotTaken", "NotTargeted"))
        }
        for _ in states:  # targets may come after their dependants in the spec
            skipped = (s for s in states if s.phase == "Skipped" and s.reason != "NotTargeted")
            names |= {state.name for state in skipped if names & set(state.step.targets)}
        services = {s.name for s in states if s.step.daemon and s.reason == "DaemonEnded"}
        return names | {name for name in services if self.dependants_of(name) & names}

    def dependants_of(self, name: str, *, in_any_case: bool = False) -> set[str]:
        """Return the steps behind a step; `in_any_case`: those that cannot start without it."""
        found: set[str] = set()
        for _ in self.reference.states:
            for state in self.reference.states.values():
                depends_on, behind = state.step.depends_on, {name} | found
                targets = set(state.step.targets)
                one_suffices = depends_on is not None and depends_on.strategy == "any"
                if (
                    targets and targets <= behind
                    if in_any_case and one_suffices
                    else targets & behind
                ):
                    found.add(state.name)
        return found - {name}

    def reset(self, state: State, names: set[str]) -> None:
        """Reset a step, except for completed items and the repeats before the one that failed."""
        state.phase, state.reason, state.reasons = "Waiting", "", frozenset({""})
        state.decided, state.case, state.items, state.failed_at = False, None, None, None
        state.decided_at = state.decided_in = None
        repeat = state.step.repeat
        other_items = self.has_other_items(state, names)
        none_failed = repeat and all(run.phase != "Failed" for run in state.runs)
        for run in list(state.runs):
            looped = has_items(state.step) or bool(repeat)
            run.completed_before = run.phase == "Completed" and looped
            if not run.completed_before or state.finally_ or other_items or none_failed:
                state.forget(run)
        if state.finally_ or any(state.name in self.dependants_of(name) for name in names):
            state.continued.clear()

    def has_other_items(self, state: State, names: set[str]) -> bool:
        """Whether the items of a step that runs again may differ."""
        if takes_items(state.step):
            matched = self.reference.matching.targets(state)[0]
            return any(t.name in names and self.has_other_items(t, names) for t in matched)
        from_ = state.step.for_each.from_ if state.step.for_each else None
        return any(f'steps["{name}"]' in (from_ or "") for name in names)
