"""Sentences about one step: its phase, since when, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, Decisions, StepCondition, StepPhase
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import Condition, Step, Strategy
from jobflow.core.explain.progress import format_run_progress, format_task_progress, has_job
from jobflow.core.explain.root_causes import (
    TARGET_WAITS,
    find_blocking_targets,
    find_untaken_targets,
)
from jobflow.core.planning.context import PlanContext
from jobflow.core.pods.failure import describe_end
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import get_condition, get_probe, get_strategy
from jobflow.core.text import (
    MAX_NAMES,
    format_command,
    format_count,
    format_duration,
    format_elapsed,
    format_time,
    join_names,
)

_VERBS: Mapping[Condition, str] = {
    Condition.COMPLETED: "complete",
    Condition.FAILED: "fail",
    Condition.FINISHED: "finish",
    Condition.RUNNING: "run",
}
_MAX_OUTPUTS = 120
"""Characters of outputs that are repeated."""
_MAX_EXPRESSION = 120
"""Characters of an expression in a sentence."""
_VERBS_OF_MESSAGES = ("waits ", "will ", "runs ")
"""Beginnings of messages whose subject is the step."""

REMEDIES: Mapping[StepReason, str] = {
    StepReason.WAITING_FOR_TEMPLATE: "Apply the JobTemplate {template}; the step then starts by "
    "itself.",
    StepReason.WAITING_FOR_PROBE: "",
    StepReason.STARTING: "This takes a moment; if it lasts, check that `jobflow serve` runs.",
    StepReason.CREATE_REFUSED: "Remove the cause, such as an exhausted quota. JobFlow tries again "
    "by itself{again}.",
    StepReason.NAME_IN_USE: "It starts by itself once that job has been deleted.",
    StepReason.JOB_LOST: "JobFlow creates the job again{again}.",
    StepReason.RETRYING: "{look}",
    StepReason.SUSPENDED: "{resume} resumes the flow.",
    StepReason.PARALLELISM: "It starts by itself once a job of the flow has ended.",
    StepReason.TERMINATING: "",
    StepReason.BLOCKED: "It can never start: cancel and delete the flow, correct it, and apply it "
    "again.",
    StepReason.PODS_UNREAD: "JobFlow tries to read them again for up to five minutes.",
    StepReason.CANCELLED: "",
    StepReason.TIMEOUT: "",
    StepReason.FAILURE_POLICY: "",
    StepReason.DAEMON_ENDED: "",
    StepReason.OUTPUTS_MISSING: "Its pods were deleted before their outputs could be read, so "
    "expressions and references to its outputs have no value.",
    StepReason.JOB_FAILED: "{look}",
    StepReason.JOB_TERMINATED: "A policy of its template or a command ended the job; see "
    "{describe}.",
    StepReason.JOB_ABORTED: "A policy of its template or a command ended the job; see {describe}.",
    StepReason.REFUSED: "If the template is wrong, correct it, and run {retry}. If a patch is "
    "wrong, correct the flow, delete it and apply it again.",
    StepReason.NAME_CONFLICT: "",
    StepReason.PROBE_UNSATISFIABLE: "Correct the probe, or the job that it checks.",
    StepReason.OUTPUTS_TOO_LARGE: "Write shorter termination messages: at most 4 KiB for a step "
    "and 64 KiB for a flow.",
    StepReason.EXPRESSION_ERROR: "Test first whether a value exists, such as by "
    '`has(steps["a"].outputs.x)`, and apply the flow again.',
    StepReason.UNTIL_NOT_REACHED: "",
    StepReason.NOT_TAKEN: "",
    StepReason.UPSTREAM_FAILED: "",
    StepReason.STOPPED: "",
}
"""Sentences on how to start a waiting step or prevent another failure; empty if the message says
it."""


class StepExplainer:
    """Describes the steps of one flow."""

    def __init__(self, ctx: PlanContext) -> None:
        self._ctx = ctx
        self._now = ctx.now

    def describe(self, step: int) -> Iterator[str]:
        """Yield the phase of a step, since when, why, and what to do."""
        condition = self.condition(step)
        phase = condition.phase or StepPhase.WAITING
        yield from self._BY_PHASE.get(phase, StepExplainer._describe_run)(self, step, condition)
        yield from _describe_details(self._ctx.observed[step].step, condition, self._now)
        yield from self._describe_remedy(step, condition)

    def describe_together(self, steps: Sequence[int]) -> Iterator[str]:
        """Describe steps that wait with the same reason and message."""
        if len(steps) == 1:
            yield from self.describe(steps[0])
            return
        first = self.condition(steps[0])
        names = join_names([self.name(step) for step in steps[:MAX_NAMES]], total=len(steps))
        yield f"Steps {names} are Waiting ({first.reason}){_because(first)}."
        times = [self.condition(step).next_attempt_time for step in steps]
        soonest = min((time for time in times if time is not None), default=None)
        again = msgspec.structs.replace(first, next_attempt_time=soonest)
        yield from self._describe_remedy(steps[0], again)

    def condition(self, step: int) -> StepCondition:
        """Return the condition of a step in the status."""
        return self._ctx.observed[step].stored

    def name(self, step: int) -> str:
        """Return the name of a step."""
        return self._ctx.observed[step].step.name

    def name_with_phase(self, step: int) -> str:
        """Return `c (Running)`."""
        return f"{self.name(step)} ({self.condition(step).phase or StepPhase.WAITING})"

    def since(self, step: int) -> datetime | None:
        """Return the time since which a step is in its phase, if known."""
        condition = self.condition(step)
        record = self._ctx.records.get(condition.job)
        histories = (record.running_histories if record else None) or ()
        times = [condition.last_transition_time, *(each.start_timestamp for each in histories[-1:])]
        times += [record.start_timestamp if record else None, condition.create_time]
        return next((time for time in times if time is not None), None)

    def tasks(self, step: int) -> str:
        """Return `worker 3/4 done and ps 2/2 running`, or "" if nothing is known."""
        return join_names(format_task_progress(self.condition(step).task_status_count))

    # ------------------------------------------------------------------ by phase

    def _describe_wait(self, step: int, condition: StepCondition) -> Iterator[str]:
        name, reason, message = self.name(step), condition.reason, condition.message
        if reason in TARGET_WAITS and (
            for_what := self._describe_targets(step) or ("" if message else "and starts now")
        ):
            yield f"Step {name} has been waiting{self._format_since(step)} {for_what}."
            if reason and message:
                yield f"Last result: {self._shorten_result(step, message)}."
            return
        it = "it " if message.startswith(_VERBS_OF_MESSAGES) else ""
        why = f": {it}{message}" if message else ""
        yield f"Step {name} has been Waiting{self._format_since(step, reason)}{why}."

    def _describe_targets(self, step: int) -> str:
        """Return `for c (Running) and d (Pending) to complete`, the condition of a waiting step, or
        "" if no target blocks it."""
        if step >= self._ctx.last_from:
            return "for all other steps to finish"
        targets = find_blocking_targets(self._ctx, step)
        if not targets:
            return ""
        spec = self._ctx.observed[step].step
        names = [self.name_with_phase(target) for target in targets[:MAX_NAMES]]
        last = "or" if get_strategy(spec) is Strategy.ANY else "and"
        text = join_names(names, total=len(targets), last=last)
        if get_probe(spec) is not None:
            return f"for its probe to pass on {text}"
        return f"for {text} to {_VERBS[get_condition(spec)]}"

    def _shorten_result(self, step: int, message: str) -> str:
        """Return a probe's message without the name of a single target, which is already named."""
        targets = find_blocking_targets(self._ctx, step)
        result = message.removeprefix("waits for ")
        return result.removeprefix(f"{self.name(targets[0])}: ") if len(targets) == 1 else result

    def _describe_run(self, step: int, condition: StepCondition) -> Iterator[str]:
        text = f"Step {self.name(step)} has been {condition.phase}{self._format_since(step)}"
        spec = self._ctx.observed[step].step
        if spec.for_each is not None:  # it has a job for each item
            yield f"{text}{_because(condition)}."
            return
        text += f" as the job {condition.job or self._ctx.observed[step].key}"
        if condition.attempts > 1 and spec.repeat is None:
            text += f" (attempt {condition.attempts})"
        if condition.message:
            text += f"; it {condition.message}"
        elif tasks := self.tasks(step):
            text += f": {tasks}"
        elif condition.phase == JobPhase.PENDING:
            text += f": Volcano has not started it yet; see {self._describe_job(condition)}"
        yield f"{text}."

    def _describe_completion(self, step: int, condition: StepCondition) -> Iterator[str]:
        ran = f" after {condition.running_duration}" if condition.running_duration else ""
        ago = self._format_ago(step)
        yield f"Step {self.name(step)} completed{ago}{ran}{_because(condition)}."
        if condition.outputs:
            outputs = msgspec.json.encode(condition.outputs).decode()
            if len(outputs) <= _MAX_OUTPUTS:
                yield f"Its outputs: {outputs}."

    def _describe_failure(self, step: int, condition: StepCondition) -> Iterator[str]:
        why = _because(condition) or _describe_failed_pod(condition)
        yield f"Step {self.name(step)} failed{self._format_ago(step, condition.reason)}{why}."

    def _describe_skip(self, step: int, condition: StepCondition) -> Iterator[str]:
        ago = self._format_ago(step, condition.reason)
        yield f"Step {self.name(step)} was skipped{ago}{_because(condition)}."
        if condition.reason == StepReason.NOT_TAKEN:
            targets = find_untaken_targets(self._ctx, step)[:MAX_NAMES]
            if names := join_names([self.name_with_phase(target) for target in targets]):
                why = "Steps that depend on it ignore it."
                yield f"It runs only after a failure of {names}. {why}"

    _BY_PHASE: Mapping[str, Callable[[StepExplainer, int, StepCondition], Iterator[str]]] = {
        StepPhase.WAITING: _describe_wait,
        StepPhase.COMPLETED: _describe_completion,
        StepPhase.FAILED: _describe_failure,
        StepPhase.SKIPPED: _describe_skip,
    }

    # --------------------------------------------------------------------- times

    def _format_since(self, step: int, reason: str = "") -> str:
        """Return ` for 1m15s (since 12:00:00 UTC, Starting)`, as far as known."""
        since = self.since(step)
        duration = f" for {format_elapsed(since, self._now)}" if since else ""
        start = f"since {format_time(since, self._now)}" if since else ""
        return duration + _in_brackets(start, reason)

    def _format_ago(self, step: int, reason: str = "") -> str:
        """Return ` 3m ago (12:00:02 UTC, JobFailed)`, as far as known."""
        record = self._ctx.records.get(self.condition(step).job)
        ended = record.end_timestamp if record else None
        when = self.condition(step).last_transition_time or ended
        ago = f" {format_elapsed(when, self._now)} ago" if when else ""
        return ago + _in_brackets(format_time(when, self._now) if when else "", reason)

    # ------------------------------------------------------------------ remedies

    def _describe_remedy(self, step: int, condition: StepCondition) -> Iterator[str]:
        try:
            text = REMEDIES[StepReason(condition.reason)]
        except ValueError:  # no reason, or one of a later version
            return
        spec, meta = self._ctx.observed[step].step, self._ctx.flow.metadata
        again = condition.next_attempt_time
        if text:
            wait = again - self._now if again and again > self._now else None
            yield text.format(
                template=spec.template_for(spec.case_of(condition.decisions)),
                again=f" in {format_duration(wait)}" if wait else "",
                resume=format_command("jobflow resume", meta),
                retry=format_command("jobflow retry", meta),
                look=self._describe_logs(condition),
                describe=self._describe_job(condition),
            )

    def _describe_logs(self, condition: StepCondition) -> str:
        failure, namespace = condition.failure, self._ctx.flow.metadata.namespace
        if failure is None or not failure.pod:
            return f"See {self._describe_job(condition)}."
        if failure.exit_code is None:
            return f"See `kubectl describe pod -n {namespace} {failure.pod}`."
        container = f" -c {failure.container}" if failure.container else ""
        return f"See its log: `kubectl logs -n {namespace} {failure.pod}{container}`."

    def _describe_job(self, condition: StepCondition) -> str:
        return f"`kubectl describe vcjob -n {self._ctx.flow.metadata.namespace} {condition.job}`"


def _because(condition: StepCondition) -> str:
    return f": {condition.message}" if condition.message else ""


def _in_brackets(*parts: str) -> str:
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _describe_failed_pod(condition: StepCondition) -> str:
    """Return `: pod f-b-worker-1 (task worker): exit code 3 (Error)`, if a message was dropped
    because the status was too large."""
    failure = condition.failure
    if failure is None or not failure.pod:
        return ""
    task = f" (task {failure.task})" if failure.task else ""
    return f": pod {failure.pod}{task}: {describe_end(failure)}"


# ------------------------------------------------------------------ details


def _describe_details(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    if condition.decisions is not None:
        yield from _describe_decisions(step, condition.decisions)
    yield from _describe_runs(step, condition)
    yield from _describe_attempts(step, condition, now)
    yield from _describe_timeout(step, condition, now)
    if step.daemon and has_job(condition) and condition.abort_time is None:
        yield "It is a daemon: its job is ended once all other steps have finished."
    if step.continue_on_failure and condition.phase == StepPhase.FAILED:
        yield "It may fail (continueOnFailure) without failing the flow or blocking other steps."


def _describe_decisions(step: Step, decisions: Decisions) -> Iterator[str]:
    if decisions.when and step.when is not None:
        yield f"Its condition is true: {_quote(step.when)}."
    if (case := step.case_of(decisions)) is not None:
        why = "the default" if case.when is None else _quote(case.when)
        which = f"case {(decisions.case or 0) + 1} of {len(step.switch or ())} ({why})"
        yield f"Its switch chose {which}: it runs the JobTemplate {step.template_for(case)}."
    source = step.for_each.from_ if step.for_each is not None else None
    if decisions.items is not None and source is not None:
        yield f"Its {format_count(len(decisions.items), 'item')} come from {_quote(source)}."


def _describe_runs(step: Step, condition: StepCondition) -> Iterator[str]:
    progress = format_run_progress(step, condition)
    if not progress:
        return
    if step.repeat is not None and condition.phase not in ENDED_STEP_PHASES:
        until = f", until {_quote(step.repeat.until)} is true" if step.repeat.until else ""
        yield f"It is at {progress}{until}."
    else:
        yield f"It has {progress}."
    failed = [run for run in condition.runs or () if run.phase == StepPhase.FAILED]
    # The message of a failed step is that of its first failed item.
    if step.for_each is None or len(failed) + (condition.phase != StepPhase.FAILED) < 2:
        return
    for run in failed[:MAX_NAMES]:
        yield f"Item {run.index} failed ({run.reason}): {run.message or 'the cause is unknown'}."
    if len(failed) > MAX_NAMES:
        yield f"{format_count(len(failed) - MAX_NAMES, 'more item')} failed."


def _describe_attempts(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    again = condition.next_attempt_time
    if condition.phase == StepPhase.WAITING and condition.reason == StepReason.RETRYING and again:
        nodes = condition.avoid_nodes
        avoids = f" and avoids {join_names(nodes)}, where it failed" if nodes else ""
        yield f"The next attempt starts {_format_when(again, now)}{avoids}."
    attempts = condition.attempts - condition.past_attempts
    if condition.phase == StepPhase.FAILED and attempts > 1 and not condition.runs:
        yield f"It had {attempts} attempts."


def _describe_timeout(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    deadlines = [
        run.deadline
        for run in (condition, *(condition.runs or ()))
        if run.deadline is not None and (has_job(run) or not run.phase)
    ]
    if deadlines and condition.abort_time is None:
        yield f"Its timeout of {step.timeout} expires {_format_when(min(deadlines), now)}."


def _format_when(time: datetime, now: datetime) -> str:
    if time <= now:
        return "now"
    return f"in {format_duration(time - now)} (at {format_time(time, now)})"


def _quote(expression: str) -> str:
    text = " ".join(expression.split())
    return f"`{text if len(text) <= _MAX_EXPRESSION else text[: _MAX_EXPRESSION - 1] + '…'}`"
