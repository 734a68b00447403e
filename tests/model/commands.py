"""The effects of Commands on a flow (docs/reference.md, Commands)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from model.books import FLOW_ERRORS, SKIPPED_BY_USER, Run, State
from model.by_hand import REASONS
from model.matching import has_items
from model.readiness import required_condition
from model.tolerance import tolerates

if TYPE_CHECKING:
    from model.reference import Reference

Stays = Callable[[State, Run], bool]


class Commands:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def apply(self, command: str) -> None:
        reference = self.reference
        action, _, text = command.partition(" ")
        if command in ("RestartJob", "RetryTolerated"):
            self.restart(tolerated=command == "RetryTolerated")
        elif reference.inside.apply(command):
            return
        elif action in REASONS:
            reference.by_hand.apply(action, text)
        elif reference.result:
            return
        elif command.startswith("ScaleFlow"):
            self.scale(command.split(" ")[1])
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
        else:
            for work in reference.own_works.values():
                work.command(command)

    def scale(self, text: str) -> None:
        reference, (name, _, number) = self.reference, text.rpartition("=")
        if self.has_ended():
            return
        state = reference.states.get(name)
        if state is None or not (state.ended or reference.ending):
            reference.scaled[name] = int(number)

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
        for work in reference.own_works.values() if abort else ():
            work.suspend(again=before)

    def restart(self, *, tolerated: bool) -> None:
        reference = self.reference
        some_failed = any(
            state.phase == "Failed"
            or (state.phase == "Completed" and any(run.phase == "Failed" for run in state.runs))
            for state in reference.states.values()
        )
        if reference.result != "Failed" and not (tolerated and reference.result and some_failed):
            return
        again = self.runs_again(partial(self.stays, tolerated=tolerated))
        for name, kept in again.items():
            state = reference.states[name]
            had_reached = tolerated and tolerates(state.step) and state.phase == "Completed"
            begun = {run.index for run in state.runs}
            self.reset(state, kept, again)
            state.again = begun - kept if kept and had_reached else set()
        self.go_on()

    def go_on(self) -> None:
        """Let a flow that has ended go on."""
        reference = self.reference
        reference.result = reference.ending = ""
        reference.finally_too = False
        reference.suspended, reference.not_counted = False, 0.0
        reference.waits = reference.flow.spec.concurrency is not None
        reference.started = reference.now

    def runs_again(self, stays: Stays, *, by_hand: bool = False) -> dict[str, set[int | None]]:
        """Return the steps that run again, each with the indexes of its runs that stay. `stays`:
        whether a step or a run stays unless something before it runs again; `by_hand`: items that
        never started need not run."""
        found: dict[str, set[int | None]] = {}
        for _ in self.reference.states:  # targets may come after their dependants in the spec
            for state in self.reference.states.values():
                kept = self.kept(state, found, stays, by_hand=by_hand)
                if kept is not None:
                    found[state.name] = kept
        return found | {name: set() for name in self.services(set(found))}

    def kept(
        self, state: State, found: dict[str, set[int | None]], stays: Stays, *, by_hand: bool
    ) -> set[int | None] | None:
        """Return the runs of a step that stay although it runs again; None if all of it stays."""
        if state.reason == "NotTargeted":
            return None
        matched, whole = self.reference.matching.targets(state)
        runs_last = state.finally_ and not (by_hand and not self.reference.result)
        if runs_last or any(target.name in found for target in whole):
            return set()
        behind = [found[target.name] for target in matched if target.name in found]
        well = {run.index for run in state.runs if stays(state, run)}
        itself = Run(None, phase=state.phase, reason=state.reason)
        all_well = len(well) == len(state.runs) and stays(state, itself)
        if has_items(state.step):
            if state.phase == "Failed" and not by_hand:
                all_well = bool(state.items) and well >= set(range(len(state.items or ())))
            return None if all_well and not behind else well.intersection(*behind)
        if state.step.repeat is not None:
            bad = [run.index or 0 for run in state.runs if run.index not in well]
            return None if all_well else set(range(min(bad, default=0)))
        return None if all_well else set()

    def stays(self, state: State, run: Run, *, tolerated: bool) -> bool:
        """Whether a run stays unless something before it runs again."""
        phase, reason = state.shown.get(run.index, (run.phase, run.reason))
        if state.phase == "Completed" and run.index is not None and phase != "Completed":
            return phase == "Skipped" or not tolerated  # the step has completed without it
        if phase != "Failed":
            passed_over = phase == "Skipped" and reason in ("NotTaken", SKIPPED_BY_USER)
            return phase == "Completed" or passed_over
        if tolerated or not state.step.continue_on_failure or self.reference.is_asked(state):
            return False
        if reason in FLOW_ERRORS or run.has_flow_error:
            return False
        if reason == "Timeout" == self.reference.ending:
            # of a run that its own timeout ended, the status may know too late that it did
            runs = [run] if run.last else state.runs
            shown = self.reference.seen.steps[state.name].runs.get(run.index)
            own = any(each.last and not each.last.for_good for each in runs)
            return own and shown == (phase, reason)
        return reason not in ("Cancelled", "FailurePolicy")

    def services(self, names: set[str]) -> set[str]:
        """Return the daemons that ended with the flow and that these steps need running, directly
        or not."""
        states, ahead = self.reference.states, set(names)
        for _ in states:
            for state in [states[name] for name in ahead]:
                for target in (states[name] for name in state.step.targets):
                    condition = required_condition(state.step, target.step)
                    if not target.step.daemon or condition == "Running":
                        ahead.add(target.name)
        return {name for name in ahead if states[name].ends_as_daemon} - names

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

    def reset(self, state: State, kept: set[int | None], again: dict[str, set[int | None]]) -> None:
        """Reset a step, except for the runs that stay."""
        state.phase, state.reason, state.reasons = "Waiting", "", frozenset({""})
        state.decided, state.case, state.items, state.failed_at = False, None, None, None
        state.decided_at = state.decided_in = None
        state.outcome = ""
        state.orders = {i: order for i, order in state.orders.items() if i in kept}
        state.again = set()
        for run in list(state.runs):
            run.completed_before = run.index in kept
            if not run.completed_before:
                state.forget(run)
        matched, whole = self.reference.matching.targets(state)
        behind = [again[target.name] for target in matched if target.name in again]
        behind += [set() for target in whole if target.name in again]
        policy = self.reference.flow.spec.job_retain_policy
        deleted = policy == "delete" and self.reference.result == "Succeed"
        for index in list(state.continued):
            if state.finally_ or deleted or not all(index in stays for stays in behind):
                del state.continued[index]
