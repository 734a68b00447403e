"""Sentences about one step: its phase, since when, why, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.status import ENDED_STEP_PHASES, Decisions, StepCondition, StepPhase
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.api.volcano.job import JobPhase
from jobflow.core.explain import progress
from jobflow.core.explain.item import MAX_VALUE
from jobflow.core.explain.progress import quote_expression
from jobflow.core.explain.remedies import describe_job, describe_remedy
from jobflow.core.explain.root_causes import (
    TARGET_WAITS,
    describe_nothing_ran,
    find_blocking_targets,
    find_untaken_targets,
)
from jobflow.core.explain.scheduling import SchedulingFacts
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.work.end import CANNOT_START
from jobflow.core.pods.failure import describe_attempt
from jobflow.core.reasons import StepReason
from jobflow.core.spec import readiness
from jobflow.core.spec.concurrency import Group, GroupName, get_group
from jobflow.core.spec.items import describe_scaling, name_item
from jobflow.core.spec.step_commands import QUESTION, asks
from jobflow.core.spec.step_times import times_of
from jobflow.core.text import (
    MAX_NAMES,
    format_count,
    format_duration,
    format_elapsed,
    format_time,
    join_names,
    to_sentence,
)
from jobflow.core.violations import quote

_VERBS: Mapping[Condition, str] = {
    Condition.COMPLETED: "complete",
    Condition.FAILED: "fail",
    Condition.FINISHED: "finish",
    Condition.RUNNING: "run",
    Condition.NOT_FAILED: "complete or be skipped",
    Condition.ALWAYS: "end",
}
_VERBS_OF_MESSAGES = ("waits ", "will ", "runs ")
"""Beginnings of messages whose subject is the step."""


class StepExplainer:
    """Describes the steps of one flow."""

    def __init__(
        self,
        ctx: PlanContext,
        facts: SchedulingFacts,
        groups: Mapping[GroupName, Group],
        *,
        above: str = "",
        on_page: bool = False,
    ) -> None:
        """`groups`: the concurrency groups in which the flow or its steps wait, as far as they are
        known; `above`: the path from the outermost flow to the steps of this one; `on_page`: leave
        out times relative to now, and the commands of what the page shows."""
        self._ctx = ctx
        self._above = above
        self._on_page = on_page
        self._now = ctx.now
        self._facts = facts
        self._groups = groups

    def describe(self, step: int) -> Iterator[str]:
        condition = self.condition(step)
        phase = condition.phase or StepPhase.WAITING
        if phase == StepPhase.WAITING:
            yield from self._describe_wait(step, condition)
        elif phase in ENDED_STEP_PHASES:
            yield from self._describe_end(step, condition)
        else:
            yield from self._describe_run(step, condition)
        spec, decisions = self._ctx.observed[step].step, condition.decisions or Decisions()
        if decisions.when and spec.when is not None:
            yield f"Its condition is true: {quote_expression(spec.when)}."
        if (case := spec.case_of(decisions)) is not None:
            why = "the default" if case.when is None else quote_expression(case.when)
            which = f"case {(decisions.case or 0) + 1} of {len(spec.switch or ())} ({why})"
            yield f"Its switch chose {which}: it runs {progress.describe_work(spec, case)}."
        source = spec.for_each.from_ if spec.for_each is not None else None
        if decisions.items is not None and source is not None:
            count = format_count(len(decisions.items), "item")
            yield f"Its {count} come from {quote_expression(source)}."
        yield from _describe_runs(spec, condition)
        flow, waits = self._ctx.flow, condition.reason == StepReason.PARALLELISM
        limit = describe_scaling(flow, None if waits else spec)
        if limit and phase not in ENDED_STEP_PHASES:
            yield to_sentence(f"{'The flow' if waits else 'It'} runs {limit}")
        yield from _describe_times(spec, condition, self._now, flow.status.suspended_at)
        if spec.daemon and condition.is_alive and condition.abort_time is None:
            yield "It is a daemon: its job is ended once no step needs it to run any more."
        yield from progress.describe_tolerance(spec.for_each)
        if spec.continue_on_failure and condition.phase == StepPhase.FAILED:
            if readiness.is_tolerated(spec, condition):
                effect = "without failing the flow or blocking other steps"
                yield f"It may fail (continueOnFailure) {effect}."
            else:
                failed = [run for run in condition.runs or () if readiness.is_flow_error(run)]
                errors = join_names(f"item {run.index}" for run in failed)
                where = f" in {errors}" if errors and spec.for_each is not None else ""
                yield f"Its continueOnFailure does not apply to an error of the flow itself{where}."
        yield from self._describe_remedy(step, condition)

    def describe_together(self, steps: Sequence[int]) -> Iterator[str]:
        """Describe steps that wait with the same reason and message."""
        first = self.condition(steps[0])
        if len(steps) == 1 or asks(first):  # each approval is answered by itself
            for step in steps[:MAX_NAMES]:
                yield from self.describe(step)
            if (more := len(steps) - MAX_NAMES) > 0:
                yield f"{format_count(more, 'more step')} wait for approval."
            return
        names = join_names([self.name(step) for step in steps[:MAX_NAMES]], total=len(steps))
        yield f"Steps {names} are Waiting ({first.reason}){_because(first)}."
        times = [self.condition(step).next_attempt_time for step in steps]
        soonest = min((time for time in times if time is not None), default=None)
        again = msgspec.structs.replace(first, next_attempt_time=soonest)
        yield from self._describe_remedy(steps[0], again)

    def describe_places(self, step: int) -> Iterator[str]:
        """Say who holds the places that a step waits for, and who waits before it."""
        flow, spec = self._ctx.flow, self._ctx.layout.steps[step]
        places = flow.status.places or ()
        waits = any(not place.job and place.step == spec.name for place in places)
        if not waits and self.condition(step).reason != StepReason.CONCURRENCY:
            return
        name = get_group(flow, spec.concurrency)
        if (group := self._groups.get((True, name))) is not None:
            own = [place.job for place in places if place.job and place.group == name]
            yield from describe_group(group, f" in the group {quote(name)}", own)

    def condition(self, step: int) -> StepCondition:
        return self._ctx.observed[step].stored

    def name(self, step: int) -> str:
        return self._ctx.observed[step].step.name

    def name_with_phase(self, step: int) -> str:
        """Return `c (Running)`."""
        return f"{self.name(step)} ({self.condition(step).phase or StepPhase.WAITING})"

    def since(self, step: int) -> datetime | None:
        condition = self.condition(step)
        record = self._ctx.records.get(condition.job)
        histories = (record.running_histories if record else None) or ()
        # the status may lack any of these times, because they are dropped if it is too large
        times = [condition.last_transition_time, *(each.start_timestamp for each in histories[-1:])]
        times += [record.start_timestamp if record else None, condition.create_time]
        return next((time for time in times if time is not None), None)

    def tasks(self, step: int) -> str:
        """Return `worker 3/4 done and ps 2/2 running`, or "" if nothing is known."""
        return join_names(progress.format_task_progress(self.condition(step).task_status_count))

    def _describe_wait(self, step: int, condition: StepCondition) -> Iterator[str]:
        name, reason, message = self.name(step), condition.reason, condition.message
        if asks(condition):
            question = f": {message}" if message not in ("", QUESTION) else ""
            text = f"Step {name} has been waiting for approval{self._format_since(step)}{question}"
            yield text if text.endswith(("?", ".", "!")) else f"{text}."
            return
        if reason in TARGET_WAITS and (
            for_what := self._describe_targets(step) or ("" if message else "and starts now")
        ):
            yield f"Step {name} has been waiting{self._format_since(step)} {for_what}."
            if reason and message:
                # the sentence above names a single target already
                targets = find_blocking_targets(self._ctx, step)
                named = f"{self.name(targets[0])}: " if len(targets) == 1 else ""
                result = message.removeprefix("waits for ").removeprefix(named)
                yield f"Last result: {result}."
            return
        it = "it " if message.startswith(_VERBS_OF_MESSAGES) else ""
        why = f": {it}{message}" if message else ""
        yield f"Step {name} has been Waiting{self._format_since(step, reason)}{why}."

    def _describe_targets(self, step: int) -> str:
        """Return `for c (Running) and d (Pending) to complete`, the condition of a waiting step, or
        "" if no target blocks it."""
        ctx = self._ctx
        if step >= ctx.layout.last_from and not all(
            each.stored.phase in ENDED_STEP_PHASES for each in ctx.observed[: ctx.layout.last_from]
        ):
            return "for all other steps to finish"
        targets = find_blocking_targets(self._ctx, step)
        if not targets:
            return ""
        spec = self._ctx.observed[step].step
        conditions = {t: readiness.get_condition_for(spec, ctx.layout.steps[t]) for t in targets}
        verbs = {target: _VERBS[condition] for target, condition in conditions.items()}
        same = len({*verbs.values()}) == 1 or readiness.get_probe(spec) is not None
        names = [
            self.name_with_phase(target) + ("" if same else f" to {verbs[target]}")
            for target in targets[:MAX_NAMES]
        ]
        last = "or" if readiness.get_strategy(spec) is Strategy.ANY else "and"
        text = join_names(names, total=len(targets), last=last)
        if readiness.get_probe(spec) is not None:
            return f"for its probe to pass on {text}"
        return f"for {text} to {verbs[targets[0]]}" if same else f"for {text}"

    def _describe_run(self, step: int, condition: StepCondition) -> Iterator[str]:
        text = f"Step {self.name(step)} has been {condition.phase}{self._format_since(step)}"
        spec = self._ctx.observed[step].step
        if spec.for_each is not None:  # it has a job for each item
            yield f"{text}{_because(condition)}."
            yield from self.describe_scheduling(step)
            return
        name = condition.job or self._ctx.observed[step].key
        if (work := self._ctx.work_named(spec, name)).has_objects:
            text += f" as the {work.noun} {name}"
        if condition.attempts > 1 and spec.repeat is None:
            text += f" (attempt {condition.attempts})"
        if condition.message:
            text += f"; it {condition.message}"
        elif tasks := self.tasks(step):
            text += f": {tasks}"
        elif condition.phase == JobPhase.PENDING:
            # a command helps only if nothing below says why
            known = [*self.describe_scheduling(step)]
            look = "" if known else f"; see {describe_job(self._ctx.flow, condition)}"
            text += f": Volcano has not started it yet{look}"
        yield f"{text}."
        yield from self.describe_scheduling(step)

    def describe_scheduling(self, step: int) -> Iterator[str]:
        facts = self._facts.by_step.get(self._ctx.layout.steps[step].name, ())
        pod, _, why = self.condition(step).message.removeprefix(CANNOT_START).partition(": ")
        said = f"pod {pod} cannot start: {why}."
        yield from (each for each in facts if not each.endswith(said))

    def _describe_end(self, step: int, condition: StepCondition) -> Iterator[str]:
        subject, why = f"Step {self.name(step)}", _because(condition)
        times = times_of(condition, self._ctx.records, self._ctx.flow.status.start_time)
        duration = times.duration(self._now) if times.until is not None else None
        # a step that was skipped, or failed before its first job, took no time
        took = "" if duration is None else f" after {format_duration(duration, tenths=True)}"
        if condition.reason == StepReason.REUSED:
            # the jobs of items have times of their own
            when = f", which completed{self._format_ago(step)}{took}," if condition.job else ""
            made = f"the job {condition.job}" if condition.job else "earlier jobs"
            yield (
                f"{subject} did not run: it has the result of {made}{when} because it is "
                f"{condition.message}."
            )
            yield from describe_outputs(condition.outputs)
            return
        if condition.phase == StepPhase.COMPLETED:
            yield f"{subject} completed{self._format_ago(step)}{took}{why}."
            yield from describe_outputs(condition.outputs)
            return
        ago = self._format_ago(step, condition.reason)
        if condition.phase == StepPhase.FAILED:
            # a terminal has the times of the step in the lines above
            yield f"{subject} failed{ago}{took if self._on_page else ''}{why}."
            return
        yield f"{subject} was skipped{ago}{why}."
        if condition.reason == StepReason.NOT_TAKEN:
            targets = find_untaken_targets(self._ctx, step)[:MAX_NAMES]
            if names := join_names([self.name_with_phase(target) for target in targets]):
                yield f"It runs only after a failure of {names}."
                yield "Steps that depend on it ignore it."
            elif find_blocking_targets(self._ctx, step):
                yield from describe_nothing_ran(self._ctx)

    def _format_since(self, step: int, reason: str = "") -> str:
        """Return ` for 1m15s (since 12:00:00 UTC, Starting)`, as far as known."""
        since = self.since(step)
        duration = f" for {format_elapsed(since, self._now)}" if since and not self._on_page else ""
        start = f"since {format_time(since, self._now)}" if since else ""
        return duration + _in_brackets(start, reason)

    def _format_ago(self, step: int, reason: str = "") -> str:
        """Return ` 3m ago (12:00:02 UTC, JobFailed)`, as far as known."""
        record = self._ctx.records.get(self.condition(step).job)
        ended = record.end_timestamp if record else None
        when = self.condition(step).last_transition_time or ended
        ago = f" {format_elapsed(when, self._now)} ago" if when and not self._on_page else ""
        return ago + _in_brackets(format_time(when, self._now) if when else "", reason)

    def _describe_remedy(self, step: int, condition: StepCondition) -> Iterator[str]:
        spec, ctx = self._ctx.observed[step].step, self._ctx
        yield from describe_remedy(
            ctx.flow, spec, condition, ctx.now, above=self._above, on_page=self._on_page
        )


def describe_group(group: Group, where: str = "", own: Sequence[str] = ()) -> Iterator[str]:
    """Yield who holds places in a concurrency group, and who waits before a flow. `own`: the jobs
    of the flow that hold places."""
    names = [
        each.name if each.slots == 1 else f"{each.name} ({each.slots:,})" for each in group.holders
    ]
    if names := [*own, *names]:
        yield f"{join_names(names)} {'holds' if len(names) == 1 else 'hold'} a place{where}."
    if group.before:
        wait = "waits" if len(group.before) == 1 else "wait"
        before = join_names(member.name for member in group.before)
        yield f"{format_count(len(group.before), 'flow')} {wait} before it: {before}."
    if not names and not group.before:
        yield "No other flow of the group holds a place or waits before it: it starts now."


def describe_outputs(outputs: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the outputs of a step or a flow, if they are short enough for a sentence."""
    text = msgspec.json.encode(outputs).decode() if outputs else ""
    if text and len(text) <= MAX_VALUE:
        yield f"Its outputs: {text}."


def _because(condition: StepCondition) -> str:
    message = progress.message_of(condition)
    return f": {message}" if message else ""


def _in_brackets(*parts: str) -> str:
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _describe_runs(step: Step, condition: StepCondition) -> Iterator[str]:
    runs = progress.format_run_progress(step, condition)
    if not runs:
        return
    if step.repeat is not None and condition.phase not in ENDED_STEP_PHASES:
        until = (
            f", until {quote_expression(step.repeat.until)} is true" if step.repeat.until else ""
        )
        yield f"It is at {runs}{until}."
    else:
        yield f"It has {runs}."
    if step.for_each is None:
        return
    # the message of a failed step is that of the item whose job it names
    ended = (run for run in condition.runs or () if run.phase == StepPhase.FAILED)
    failed = [run for run in ended if run.job != condition.job]
    for run in failed[:MAX_NAMES]:
        item = name_item(step, condition.decisions, run.index).removeprefix("item")
        yield f"Item{item} failed ({run.reason}): {progress.message_of(run)}."
    if len(failed) > MAX_NAMES:
        yield f"{format_count(len(failed) - MAX_NAMES, 'more item')} failed."


def _describe_times(
    step: Step, condition: StepCondition, now: datetime, suspended: datetime | None
) -> Iterator[str]:
    again = condition.next_attempt_time
    if condition.phase == StepPhase.WAITING and condition.reason == StepReason.RETRYING and again:
        nodes = condition.avoid_nodes
        avoids = f" and avoids {join_names(nodes)}, where it failed" if nodes else ""
        yield f"The next attempt starts {_format_when(again, now)}{avoids}."
    if condition.phase == StepPhase.WAITING and condition.reason == StepReason.REPEATING and again:
        yield f"The next run starts {_format_when(again, now)}."
    attempts = condition.attempts - condition.past_attempts
    if condition.phase == StepPhase.FAILED and attempts > 1 and not condition.runs:
        yield f"It had {attempts} attempts."
    for failed in condition.failed_attempts or ():
        when = f" at {format_time(failed.time, now)}" if failed.time is not None else ""
        yield f"Attempt {failed.attempt} failed{when}: {describe_attempt(failed)}."
    if condition.disruptions:
        ended = "attempt was ended" if condition.disruptions == 1 else "attempts were ended"
        yield f"{condition.disruptions} {ended} by the cluster and did not count as a failure."
    queue = f"queueTimeout of {step.queue_timeout}"
    deadlines = [
        (until, f"timeout of {run.timeout or step.attempt_timeout}" if run.deadline else queue)
        for run in (condition, *(condition.runs or ()))
        # a suspension does not count for the queueTimeout
        if (until := run.deadline or (run.queue_deadline if suspended is None else None))
        is not None
        and (run.is_alive or asks(run) or not run.phase)
    ]
    if not deadlines:
        return
    until, limit = min(deadlines)
    if (approval := step.approval) is not None:
        verb = "approved" if approval.default == ApprovalAnswer.APPROVE else "rejected"
        yield f"Without an answer it is {verb} {_format_when(until, now)}."
    elif condition.abort_time is None:
        yield f"Its {limit} expires {_format_when(until, now)}."


def _format_when(time: datetime, now: datetime) -> str:
    if time <= now:
        return "now"
    return f"in {format_duration(time - now)} (at {format_time(time, now)})"
