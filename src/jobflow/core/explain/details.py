"""Details of a step in sentences: its decisions, runs, attempts, timeout and kind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from jobflow.api.flow_status import ENDED_STEP_PHASES, Decisions, StepCondition, StepPhase
from jobflow.api.jobflow import Step
from jobflow.core.explain.progress import format_run_progress, has_job
from jobflow.core.reasons import StepReason
from jobflow.core.text import MAX_NAMES, format_count, format_duration, format_time, join_names

_MAX_EXPRESSION = 120
"""Characters of an expression in a sentence."""


def describe_details(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    """Yield at most nine sentences."""
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
