"""Steps that have started: attempts, runs, and the end of the step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobflow.api.control import Retry
from jobflow.api.duration import parse_duration
from model.books import Attempt, Run, State
from model.deciding import EXPRESSION_ERROR, expected_spec
from model.words import Trouble, truth

if TYPE_CHECKING:
    from model.reference import Reference

ENDED_SO = {"Failed": "JobFailed", "Terminated": "JobTerminated", "Aborted": "JobAborted"}
SLACK = 1.0
"""Times in a status are whole seconds."""


class Running:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    @property
    def now(self) -> float:
        return self.reference.now

    def go_over(self) -> None:
        for state in self.reference.states.values():
            if state.phase != "Running":
                continue
            for run in state.runs:
                self.go_over_run(state, run)
            self.come_together(state)

    def no_vcjob(self, state: State, index: int | None, why: str) -> None:
        """Fail a run whose vcjob can never be created."""
        if state.ended:
            return
        run = state.run(index)
        if run is None:
            run = Run(index)
            state.runs.append(run)
        state.phase = "Running"
        run.phase, run.reason, run.again_at = "Failed", why, None
        run.between = bool(run.attempts)

    def look_into_references(self, state: State) -> None:
        """One that has no value when a vcjob is to be made. Whether there is room left for it is
        seen by that it fails; it has to, where there is (`check_nothing_is_left`)."""
        shown = self.reference.seen.steps[state.name]
        for index in list(self.ready(state, strict=True)):
            try:
                expected_spec(self.reference, state, index)
            except Trouble:
                if shown.phase == "Failed" or index in shown.failed:
                    self.no_vcjob(state, index, EXPRESSION_ERROR)
                    return

    # --------------------------------------------------------------------- attempts

    def go_over_run(self, state: State, run: Run) -> None:
        if run.phase or run.last is None:
            return
        attempt = run.last
        if attempt.vcjob.alive:
            self.time_out(state, attempt)
        elif run.again_at is None:
            self.attempt_ended(state, run, attempt)
        elif self.begins_no_more(state) and not self.made_before_that_was_known(state, run):
            run.phase, run.reason = "Failed", ""
            run.between = run.between_since < self.now

    def made_before_that_was_known(self, state: State, run: Run) -> bool:
        seen = self.reference.seen
        return seen.blurred and (state.name, run.index) in seen.made

    def began_before_that_was_known(self, state: State) -> bool:
        new = ((state.name, index) for index in range(len(state.items or ())))
        unbegun = {key for key in new if state.run(key[1]) is None}
        return self.reference.seen.blurred and bool(unbegun & self.reference.seen.made)

    def time_out(self, state: State, attempt: Attempt) -> None:
        ran = attempt.vcjob.ran
        if state.step.timeout is None or ran is None or attempt.intent:
            return
        if self.now >= ran + parse_duration(state.step.timeout):
            self.reference.intend(attempt, "Timeout")

    def begins_no_more(self, state: State) -> bool:
        """Whether a begun step gets no further vcjob."""
        reference = self.reference
        return reference.ends(state) or reference.aborts(state)

    def attempt_ended(self, state: State, run: Run, attempt: Attempt) -> None:
        phase = attempt.vcjob.phase
        if phase == "Completed":
            run.phase, run.reason = "Completed", ""
        elif attempt.intent == "DaemonEnded":
            run.phase, run.reason = "Completed", "DaemonEnded"
        elif attempt.failed_by_itself:
            self.failed(state, run, ENDED_SO[phase], for_good=False)
        elif attempt.intent == "Suspended":
            self.again(run, 0)
        else:
            self.failed(state, run, attempt.intent, for_good=attempt.for_good)

    def failed(self, state: State, run: Run, reason: str, *, for_good: bool) -> None:
        run.reason = reason
        run.failures += 1
        retry = state.step.retry
        again = retry is not None and run.failures <= (retry.limit or 0)
        if again and retry is not None and not for_good and not self.ends_with_the_flow(state):
            try:
                again = retry.when is None or self.holds(state, run, retry.when, "Failed")
            except Trouble:
                again, run.reason = False, EXPRESSION_ERROR
            if again and not self.begins_no_more(state):
                self.again(run, backoff(retry, run.failures))
                return
            if again:
                run.reason = ""  # ended between two attempts
        run.phase = "Failed"

    def ends_with_the_flow(self, state: State) -> bool:
        """Whether no attempt follows one that ends now, because the flow is being ended, even
        in this second."""
        reference = self.reference
        return reference.ends(state) or (not state.finally_ and reference.tells_timeout())

    def again(self, run: Run, seconds: float) -> None:
        run.again_at, run.between_since = self.now + seconds, self.now
        run.late_at = run.again_at + (SLACK if self.reference.seen.blurred else 0)

    def holds(self, state: State, run: Run, text: str, phase: str) -> bool:
        deciding = self.reference.deciding
        outcome = deciding.of_run(run) | {"phase": phase, "index": run.index}
        item = deciding.of_item(state, run.index)
        return truth(text, deciding.context(state) | item | outcome)

    def due(self) -> Iterator[float]:
        """Yield the times at which a vcjob times out or another attempt starts."""
        for state in self.reference.states.values():
            for run in state.runs if state.phase == "Running" else ():
                attempt = run.last
                if run.phase or attempt is None:
                    continue
                ran, alive = attempt.vcjob.ran, attempt.vcjob.alive
                if alive and state.step.timeout and ran is not None and not attempt.intent:
                    yield ran + parse_duration(state.step.timeout)
                if run.again_at is not None and self.reference.has_room_for_more():
                    yield run.again_at

    # ------------------------------------------------------------------------- runs

    def come_together(self, state: State) -> None:
        """Derive the end of a step from its runs."""
        if state.step.repeat is not None:
            self.come_round(state)
        elif state.step.for_each is not None:
            self.come_to_items(state)
        elif state.runs and state.runs[0].phase:
            self.end_as(state, state.runs[0])

    def end_as(self, state: State, *runs: Run) -> None:
        """End a step by its runs; a run that was ended between two attempts may have any reason."""
        reasons = {run.reason for run in runs if run.phase == runs[0].phase}
        state.end(runs[0].phase, *(() if "" in reasons and runs[0].phase == "Failed" else reasons),
                  now=self.now)  # fmt: skip
        if state.step.daemon and (self.reference.ending or self.reference.aborts(state)):
            self.reference.adopt(state)

    def come_round(self, state: State) -> None:
        repeat, run = state.step.repeat, state.runs[-1]
        assert repeat is not None and run.index is not None
        if run.phase == "Failed":
            self.end_as(state, run)
        elif run.phase == "Completed" and not self.until_holds(state, run):
            if run.index + 1 >= (repeat.max or 0) or self.begins_no_more(state):
                state.end("Failed", now=self.now)

    def until_holds(self, state: State, run: Run) -> bool:
        """Whether the repeat has ended; if so, end the step."""
        repeat = state.step.repeat
        assert repeat is not None
        try:
            if repeat.until is None or not self.holds(state, run, repeat.until, "Completed"):
                return False
            state.end("Completed", "", now=self.now)
        except Trouble:
            state.end("Failed", EXPRESSION_ERROR, now=self.now)
        return True

    def come_to_items(self, state: State) -> None:
        if any(not run.phase for run in state.runs):
            return
        failed = [run for run in state.runs if run.phase == "Failed"]
        ended = self.begins_no_more(state) and not self.began_before_that_was_known(state)
        if len(state.runs) < len(state.items or ()) and not ended:
            if not failed or self.runs_every_item(state):
                return
        if failed:
            self.end_as(state, *failed)
        elif len(state.runs) == len(state.items or ()):
            state.end("Completed", "", now=self.now)
        else:
            state.end("Failed", now=self.now)

    def runs_every_item(self, state: State) -> bool:
        """Whether all items run, however the others end."""
        policy = self.reference.flow.spec.failure_policy
        return bool(state.step.continue_on_failure) or policy == "Continue"

    # ------------------------------------------------------------------- what is next

    def ready(self, state: State, *, strict: bool) -> Iterator[int | None]:
        """Yield indexes of runs whose vcjob may be created; `strict`: must be, if there is room."""
        reference = self.reference
        if state.ended or reference.suspended or reference.over:
            return
        if state.phase == "Waiting" and not reference.may_start(state):
            return
        if strict and reference.need_not_be_made(state):
            return
        sure = strict or not reference.seen.blurred
        if state.phase == "Running" and self.begins_no_more(state) and sure:
            return
        if state.step.for_each is not None:
            yield from self.ready_items(state, strict=strict)
            return
        last = state.runs[-1] if state.runs else None
        if last is None:
            yield 0 if state.step.repeat else None
        elif self.is_due(last, strict=strict):
            yield last.index
        elif state.step.repeat and last.phase == "Completed" and last.index is not None:
            yield last.index + 1

    def is_due(self, run: Run, *, strict: bool) -> bool:
        """Whether another attempt may start; `strict`: must start."""
        if run.again_at is None or run.phase:
            return False
        return (run.late_at if strict else run.again_at) <= self.now

    def ready_items(self, state: State, *, strict: bool) -> Iterator[int | None]:
        for_each = state.step.for_each
        assert for_each is not None
        for run in state.runs:
            if self.is_due(run, strict=strict):
                yield run.index
        under_way = sum(not run.phase for run in state.runs)
        places = len(state.items or ())
        if for_each.parallelism is not None:
            places = for_each.parallelism - under_way
        in_order = strict or not self.reference.seen.blurred
        failed = any(run.phase == "Failed" for run in state.runs)
        if failed and not self.runs_every_item(state):
            return
        for index in range(len(state.items or ())):
            tried = not strict and (state.name, index) in self.reference.batch.refused
            if places > 0 and state.run(index) is None and not tried:
                yield index
                places -= 1
                looked_up = state.past[index] and not strict  # whether it is there, after a retry
                if in_order and not looked_up:
                    return  # one after another

    def nodes_to_avoid(self, run: Run) -> set[str]:
        return {
            attempt.vcjob.script.node
            for attempt in run.attempts
            if attempt.vcjob.phase == attempt.vcjob.script.end and attempt.failed_by_itself
        }


def backoff(retry: Retry, failures: int) -> float:
    said = retry.backoff
    first = parse_duration(said.duration) if said and said.duration else 1.0
    factor = said.factor if said and said.factor is not None else 2.0
    most = parse_duration(said.max) if said and said.max else 300.0
    return float(min(first * factor ** (failures - 1), most))
