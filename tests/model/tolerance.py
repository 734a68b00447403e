"""Steps that complete although items fail: maxFailed, minSuccess and until (docs/reference.md)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from jobflow.api.flow.step import Step
from model.books import SKIPPED_BY_USER, Run, State
from model.words import NoValue, truth

if TYPE_CHECKING:
    from model.reference import Reference

NOT_NEEDED, TOO_MANY = "NotNeeded", "TooManyFailed"


def tolerates(step: Step) -> bool:
    each = step.for_each
    return each is not None and (each.max_failed, each.min_success, each.until) != (None,) * 3


def share(value: int | str, total: int) -> Fraction:
    """Return a number of items, which a percentage may leave broken."""
    if isinstance(value, str):
        return Fraction(int(value.removesuffix("%")) * total, 100)
    return Fraction(value)


class Tolerance:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def judge(self, state: State) -> None:
        """Decide once how a step ends, and end the items that are not needed any more."""
        if not tolerates(state.step) or state.ended:
            return
        state.outcome = state.outcome or self.find_outcome(state)
        if state.outcome == NOT_NEEDED:
            self.leave_out(state)
        elif state.outcome and self.reference.flow.spec.failure_policy == "Abort":
            for attempt in state.attempts:
                self.reference.intend(attempt, "FailurePolicy", for_good=True)

    def find_outcome(self, state: State) -> str:
        each = state.step.for_each
        assert each is not None
        count = self.count(state.runs)
        total = self.total(state)
        if not total:
            return ""
        if self.was_reached(state):
            return NOT_NEEDED
        least = None
        if each.min_success is not None:
            least = max(ceil(share(each.min_success, total)), 1)
            if count["Completed"] >= least:
                return NOT_NEEDED
        if each.until is not None and count["Completed"]:
            try:
                if self.is_reached(state, each.until):
                    return NOT_NEEDED
            except NoValue:
                return "ExpressionError"
        if any(run.has_flow_error for run in state.runs):
            return ""
        running = self.reference.running
        if running.is_halted(state) or running.ends_with_the_flow(state):
            return ""
        skipped = count["UpstreamFailed"] + count["Stopped"]
        if least is not None and total - count["Failed"] - skipped < least:
            return TOO_MANY
        if each.max_failed is not None and count["Failed"] > floor(share(each.max_failed, total)):
            return TOO_MANY
        return ""

    def count(self, runs: list[Run]) -> Counter[str]:
        return Counter(
            "Completed"
            if run.reason == SKIPPED_BY_USER
            else run.reason or run.phase
            if run.phase == "Skipped"
            else run.phase
            for run in runs
        )

    def was_reached(self, state: State) -> bool:
        """Whether so much had completed before items ran again that none of them is ended."""
        each, stay = state.step.for_each, [run for run in state.runs if run.completed_before]
        completed = self.count(stay)["Completed"]
        if any(run.reason == NOT_NEEDED for run in stay):
            return True
        if each is None or not completed:
            return False
        if each.min_success is not None:
            return completed >= share(each.min_success, self.total(state))
        try:
            return each.until is not None and truth(each.until, self.values(state, stay))
        except NoValue:
            return False

    def total(self, state: State) -> int:
        """Return the number of items that are not NotTaken."""
        return len(state.items or ()) - sum(run.reason == "NotTaken" for run in state.runs)

    def is_reached(self, state: State, until: str) -> bool:
        """Whether `until` holds. Items whose pods are read first have ended after the others."""
        ended = [run for run in state.runs if run.phase]
        first = [run for run in ended if not self.is_read_now(state, run)]
        rounds = [first, ended] if any(run.phase == "Completed" for run in first) else [ended]
        return any(truth(until, self.values(state, known)) for known in rounds)

    def is_read_now(self, state: State, run: Run) -> bool:
        """Whether the pods of a run are read at this moment, because it has completed."""
        if run.ended_at != self.reference.now or not self.reference.seen.blurred:
            return False
        runs_jobs = self.reference.own_work(state) is None and not state.step.flow
        return runs_jobs and run.last is not None and not run.last.vcjob.script.watched

    def values(self, state: State, ended: list[Run]) -> dict[str, object]:
        items = [
            {
                "index": run.index,
                "item": (state.items or [])[run.index or 0],
                "phase": run.phase,
                "outputs": run.outputs or {},
            }
            for run in sorted(ended, key=lambda run: run.index or 0)
        ]
        return self.reference.deciding.context(state) | {"items": items}

    def leave_out(self, state: State) -> None:
        """End all items that have not ended; those with a vcjob once it has. Those that a user lets
        run again go on."""
        was_reached = self.was_reached(state)
        for index in range(len(state.items or ())):
            run = state.run(index)
            if was_reached and index in state.again:
                continue
            if run is None:
                state.skip_item(index, NOT_NEEDED)
            elif run.alive and run.last is not None:
                self.reference.intend(run.last, NOT_NEEDED)
            elif not run.phase:
                run.phase, run.reason, run.between = "Skipped", NOT_NEEDED, True

    def end(self, state: State) -> bool:
        """End a step all of whose runs have ended, by what its items did. Return whether the rules
        of any other step end it."""
        running, now = self.reference.running, self.reference.now
        wrong = [run for run in state.runs if run.has_flow_error]
        all_begun = len(state.runs) == len(state.items or ())
        halted = running.is_halted(state)
        if all_begun and state.runs and all(r.reason == SKIPPED_BY_USER for r in state.runs):
            self.reference.unstarted.skip(state, SKIPPED_BY_USER)
        elif state.outcome:
            is_met = state.outcome == NOT_NEEDED
            state.end("Completed" if is_met else "Failed", "" if is_met else state.outcome, now=now)
        elif wrong:
            running.end_as(state, *wrong)
        elif halted and (not all_begun or any(run.phase == "Failed" for run in state.runs)):
            self.reference.accept_shown(state)
        elif not all_begun:
            return False
        elif self.lacks_goal(state):
            state.end("Failed", "UntilNotReached", now=now)
        else:
            return True
        return False

    def lacks_goal(self, state: State) -> bool:
        """Whether a step fails because `until` never held; not if a user has skipped it."""
        order = state.order()
        is_skipped = order is not None and order.action == "SkipStep"
        each = state.step.for_each
        return bool(each and each.until and self.total(state)) and not is_skipped
