"""Steps that have started: attempts, runs, and the end of the step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import ForEach, Retry, to_number
from model.books import SECOND, SKIPPED_BY_USER, SLACK, Attempt, Run, State
from model.deciding import EXPRESSION_ERROR, expected_env, expected_spec
from model.matching import has_items
from model.tolerance import NOT_NEEDED, tolerates
from model.words import NoValue, truth

if TYPE_CHECKING:
    from model.reference import Reference


class Running:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    @property
    def now(self) -> float:
        return self.reference.now

    def update(self) -> None:
        for state in self.reference.states.values():
            if state.phase != "Running":
                continue
            for run in list(state.runs):
                self.update_run(state, run)
            self.reference.by_hand.settle_unstarted(state)
            self.reference.matching.skip_items(state)
            self.reference.deciding.take_turns(state)
            self.reference.tolerance.judge(state)
            if state.phase == "Running":  # it may run again
                self.end_if_complete(state)

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

    def check_references(self, state: State) -> None:
        """Fail a run whose reference has no value if the status shows that failure. If there is
        room for its vcjob, it must (`check_no_create_is_missing`)."""
        status = self.reference.seen.steps[state.name]
        for index in list(self.ready(state, strict=True)):
            try:
                expected_spec(self.reference, state, index)
                expected_env(self.reference, state, index)
                self.reference.deciding.timeout(state, index)
            except NoValue:
                if status.phase == "Failed" or index in status.failed:
                    self.no_vcjob(state, index, EXPRESSION_ERROR)
                    return

    # --------------------------------------------------------------------- attempts

    def update_run(self, state: State, run: Run) -> None:
        if run.phase or run.last is None:
            return
        attempt, work = run.last, self.reference.own_work(state)
        if work is not None and run.again_at is None:
            work.update_run(state, run)
            return
        if attempt.vcjob.alive:
            self.time_out(state, attempt)
        elif run.again_at is None:
            self.attempt_ended(state, run, attempt)
        elif self.is_halted(state, run) and not self.was_created_early(state, run):
            order = state.order(run.index)
            if order is not None and order.action != "CancelStep":
                self.reference.by_hand.end_run(state, run, order)
                return
            run.phase, run.reason = "Failed", ""
            run.between = run.between_since < self.now

    def was_created_early(self, state: State, run: Run) -> bool:
        """Whether an attempt was created before the plans of this moment knew that it may not."""
        seen = self.reference.seen
        early = seen.blurred or self.reference.unstarted.stops_later()
        return early and (state.name, run.index) in seen.created

    def has_early_items(self, state: State) -> bool:
        new = ((state.name, index) for index in range(len(state.items or ())))
        not_started = {key for key in new if state.run(key[1]) is None}
        return self.reference.seen.blurred and bool(not_started & self.reference.seen.created)

    def time_out(self, state: State, attempt: Attempt) -> None:
        until, why = self.limit(state, attempt)
        if self.now >= until:
            self.reference.intend(attempt, why)

    def limit(self, state: State, attempt: Attempt) -> tuple[float, str]:
        """Return when a limit of its own time ends an attempt, and which."""
        ran, waits = attempt.vcjob.ran, state.step.queue_timeout
        if ran is not None and attempt.timeout and not attempt.intent:
            return ran + SECOND + parse_duration(attempt.timeout), "Timeout"
        if ran is not None or not waits or attempt.intent or self.reference.suspended:
            return math.inf, ""
        suspended = self.reference.not_counted - attempt.not_counted
        since = math.floor(attempt.vcjob.created_at) + suspended
        return since + SECOND + parse_duration(waits), "QueueTimeout"

    def is_halted(self, state: State, run: Run | None = None) -> bool:
        """Whether a started step, or this run of it, gets no further vcjob."""
        reference, order = self.reference, state.order(run.index if run else None)
        if order is None and not reference.ends(state) and reference.was_first(state):
            return False
        return order is not None or reference.ends(state) or state.name in reference.aborted

    def attempt_ended(self, state: State, run: Run, attempt: Attempt) -> None:
        phase, order = attempt.vcjob.phase, state.order(run.index)
        skipped = order is not None and order.action == "SkipStep" and phase != "Completed"
        if order is not None and (skipped or order.action == "RetrySteps"):
            self.reference.by_hand.end_run(state, run, order)
        elif phase == "Completed":
            run.phase, run.reason, run.ended_at = "Completed", "", self.now
        elif attempt.intent == "NotNeeded" and phase == "Aborted":
            run.phase, run.reason = "Skipped", "NotNeeded"
        elif attempt.intent == "DaemonEnded":
            run.phase, run.reason = "Completed", "DaemonEnded"
        elif attempt.failed_by_itself:
            reason = attempt.vcjob.failure_reason
            self.failed(state, run, reason, disrupted=attempt.disrupted)
        elif attempt.intent == "Suspended":
            self.again(run, 0)
        else:
            lasts = self.is_halted(state, run) or self.ends_with_the_flow(state)
            attempt.ran_out_of = "" if attempt.for_good or lasts else attempt.intent
            self.failed(state, run, attempt.intent, for_good=attempt.for_good)

    def failed(
        self,
        state: State,
        run: Run,
        reason: str,
        *,
        for_good: bool = False,
        disrupted: bool = False,
    ) -> None:
        run.reason = reason
        retry = state.step.retry
        most = 5 if retry is None or retry.disruptions is None else retry.disruptions
        if retry is not None and disrupted and run.disruptions < most:
            run.disruptions += 1
            again, when = True, None
        else:
            run.failures += 1
            again = retry is not None and run.failures <= (to_number(retry.limit) or 0)
            when = retry.when if retry is not None else None
        if again and retry is not None and not for_good and not self.ends_with_the_flow(state):
            try:
                again = when is None or self.holds(state, run, when, "Failed")
            except NoValue:
                again, run.reason = False, EXPRESSION_ERROR
            if again and not self.is_halted(state, run):
                self.again(run, backoff(retry, run.failures + run.disruptions))
                return
            if again:
                run.reason = ""  # ended between two attempts
        run.phase = "Failed"

    def ends_with_the_flow(self, state: State) -> bool:
        """Whether no attempt follows one that ends now, because the flow is being ended, even
        at this moment."""
        reference = self.reference
        return reference.ends(state) or (not state.finally_ and reference.reports_timeout())

    def again(self, run: Run, seconds: float) -> None:
        run.again_at, run.between_since = self.now + seconds, self.now
        run.late_at = run.again_at + (SLACK if self.reference.seen.blurred else 0)

    def holds(self, state: State, run: Run, text: str, phase: str) -> bool:
        deciding = self.reference.deciding
        outcome = deciding.run_values(run) | {"phase": phase, "index": run.index}
        outcome |= {"attempt": state.number(run.index), "retries": run.failures - 1}
        item = deciding.item_values(state, run.index) | deciding.last_values(state, run.index)
        return truth(text, deciding.context(state) | item | outcome)

    def due(self) -> Iterator[float]:
        """Yield the times at which a vcjob times out or another attempt starts."""
        for state in self.reference.states.values():
            for run in state.runs if state.phase == "Running" else ():
                attempt = run.last
                may_begin = self.reference.has_room_for_more(state)
                may_begin = may_begin and self.reference.has_place(state)
                if run.phase == "Completed" and run is state.runs[-1]:
                    until = self.end_of_pause(state, run)
                    if until and may_begin:
                        yield until
                if run.phase or attempt is None:
                    continue
                until, why = self.limit(state, attempt)
                if why and attempt.vcjob.alive:
                    yield until
                if run.again_at is not None and may_begin:
                    yield run.again_at

    # ------------------------------------------------------------------------- runs

    def end_if_complete(self, state: State) -> None:
        """Derive the end of a step from its runs."""
        if state.step.repeat is not None:
            self.end_repeat(state)
        elif has_items(state.step):
            self.end_for_each(state)
        elif state.runs and state.runs[0].phase:
            self.end_as(state, state.runs[0])

    def end_as(self, state: State, *runs: Run) -> None:
        """End a step by its runs; a run that was ended between two attempts may have any reason."""
        if runs[0].phase == "Skipped":  # an approval that ends with the flow
            self.reference.unstarted.skip(state, runs[0].reason)
            return
        reasons = {run.reason for run in runs if run.phase == runs[0].phase}
        state.end(runs[0].phase, *(() if "" in reasons and runs[0].phase == "Failed" else reasons),
                  now=self.now)  # fmt: skip
        if state.step.daemon and (self.reference.ending or self.reference.aborts(state)):
            self.reference.accept_shown(state)

    def end_repeat(self, state: State) -> None:
        repeat, run = state.step.repeat, state.runs[-1]
        assert repeat is not None and run.index is not None
        if run.phase in ("Failed", "Skipped"):
            self.end_as(state, run)
        elif run.phase == "Completed" and not self.until_holds(state, run):
            order = state.order()
            if order is not None and order.action == "SkipStep":
                self.reference.unstarted.skip(state, order.reason)
            elif run.index + 1 >= (to_number(repeat.max) or 0) or self.is_halted(state):
                state.end("Failed", now=self.now)

    def until_holds(self, state: State, run: Run) -> bool:
        """Whether the repeat has ended; if so, end the step."""
        repeat = state.step.repeat
        assert repeat is not None
        try:
            if repeat.until is None or not self.holds(state, run, repeat.until, "Completed"):
                return False
            state.end("Completed", "", now=self.now)
        except NoValue:
            state.end("Failed", EXPRESSION_ERROR, now=self.now)
        return True

    def end_for_each(self, state: State) -> None:
        if any(not run.phase for run in state.runs):
            return
        failed = [run for run in state.runs if run.phase == "Failed"]
        ended = self.is_halted(state) and not self.has_early_items(state)
        if len(state.runs) < len(state.items or ()) and not ended:
            left = any(state.run(index) is None for index in state.again)
            if left or not self.starts_no_more(state):
                return
        if tolerates(state.step):
            if not self.reference.tolerance.end(state):
                return
            failed = []
        by_user = [run for run in state.runs if run.reason == SKIPPED_BY_USER]
        unanswered = [run for run in state.runs if run.phase == "Skipped" and run.attempts]
        unanswered = [run for run in unanswered if run not in by_user]
        unanswered = [run for run in unanswered if run.reason != NOT_NEEDED]
        if failed or unanswered:
            self.end_as(state, *(failed or unanswered))
        elif len(state.runs) == len(state.items or ()) and self.reference.matching.end(state):
            return
        elif len(state.runs) == len(state.items or ()) and len(by_user) == len(state.runs):
            self.reference.unstarted.skip(state, SKIPPED_BY_USER)
        elif len(state.runs) == len(state.items or ()):
            state.end("Completed", "", now=self.now)
        else:
            state.end("Failed", now=self.now)

    def starts_no_more(self, state: State) -> bool:
        """Whether no further item starts, because one has failed for good."""
        if tolerates(state.step):
            return bool(state.outcome) or any(run.has_flow_error for run in state.runs)
        failed = any(run.phase == "Failed" for run in state.runs)
        return failed and not self.runs_every_item(state)

    def runs_every_item(self, state: State) -> bool:
        """Whether all items run, regardless of the ends of others."""
        policy = self.reference.flow.spec.failure_policy
        return bool(state.step.continue_on_failure) or policy == "Continue"

    # --------------------------------------------------------------------- next runs

    def ready(self, state: State, *, strict: bool) -> Iterator[int | None]:
        """Yield indexes of runs whose vcjob may be created; `strict`: must be, if there is room."""
        reference = self.reference
        if state.ended or reference.suspended or reference.waits or reference.result:
            return
        if state.phase == "Waiting" and not reference.unstarted.may_start(state):
            return
        if strict and reference.unstarted.may_be_omitted(state):
            return
        unsure = reference.seen.blurred or (
            reference.aborts(state) and reference.unstarted.stops_later()
        )
        if state.phase == "Running" and self.is_halted(state) and (strict or not unsure):
            return
        if has_items(state.step):
            yield from self.ready_items(state, strict=strict)
            return
        last = state.runs[-1] if state.runs else None
        if last is None:
            yield 0 if state.step.repeat else None
        elif self.is_due(last, strict=strict):
            yield last.index
        elif state.step.repeat and last.phase == "Completed" and last.index is not None:
            late = SLACK if strict and reference.seen.blurred else 0
            if self.end_of_pause(state, last) + late <= self.now:
                yield last.index + 1

    def end_of_pause(self, state: State, run: Run) -> float:
        """Return when the repeat after this one may start."""
        pause = state.step.repeat.pause if state.step.repeat is not None else None
        if pause is None or run.ended_at is None or run.completed_before:
            return 0.0
        return run.ended_at + parse_duration(pause)

    def is_due(self, run: Run, *, strict: bool) -> bool:
        """Whether another attempt may start; `strict`: must start."""
        if run.again_at is None or run.phase:
            return False
        return (run.late_at if strict else run.again_at) <= self.now

    def ready_items(self, state: State, *, strict: bool) -> Iterator[int | None]:
        for_each = state.step.for_each or ForEach()
        for run in state.runs:
            if self.is_due(run, strict=strict):
                yield run.index
        under_way = sum(not run.phase for run in state.runs)
        places = len(state.items or ())
        most = self.reference.scaled.get(state.name, to_number(for_each.parallelism))
        if most is not None:
            places = most - under_way
        in_order = strict or not self.reference.seen.blurred
        stops = self.starts_no_more(state)
        for index in range(len(state.items or ())):
            if stops and index not in state.again:
                continue
            tried = not strict and (state.name, index) in self.reference.batch.refused
            free = state.run(index) is None and self.reference.matching.may_start(state, index)
            free = free and self.reference.deciding.takes(state, index)
            if places > 0 and free and not tried:
                yield index
                places -= in_order  # an earlier item may have become free later
                looked_up = state.past[index] and not strict  # whether it exists, after a retry
                if in_order and not looked_up:
                    return  # items start one by one

    def nodes_to_avoid(self, run: Run) -> set[str]:
        return {
            attempt.vcjob.script.node
            for attempt in run.attempts
            if attempt.vcjob.phase == attempt.vcjob.script.end and attempt.failed_by_itself
        }


def backoff(retry: Retry, failures: int) -> float:
    spec = retry.backoff
    first = parse_duration(spec.duration) if spec and spec.duration else 1.0
    factor = spec.factor if spec and spec.factor is not None else 2.0
    most = parse_duration(spec.max) if spec and spec.max else 300.0
    return float(min(first * factor ** (failures - 1), most))
