"""What there is to tell of a step besides how it stands: its decisions, runs, attempts and time.

In plain sentences, from status and spec alone. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    Decisions,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.jobflow import Step
from jobflow.core.explain.run_counts import run_progress
from jobflow.core.reasons import StepReason
from jobflow.core.text import SHOWN, clock, counted, listed, span

_LONGEST = 120
"""Characters of an expression that are repeated."""


def facts(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    """The sentences, at most nine."""
    if condition.decisions is not None:
        yield from _decisions(step, condition.decisions)
    yield from _runs(step, condition)
    yield from _attempts(step, condition, now)
    yield from _time(step, condition, now)
    yield from _kind(step, condition)


def _decisions(step: Step, made: Decisions) -> Iterator[str]:
    if made.when and step.when is not None:
        yield f"Its condition held: {_quoted(step.when)}."
    if (case := step.case_of(made)) is not None:
        why = "the default" if case.when is None else _quoted(case.when)
        which = f"case {(made.case or 0) + 1} of {len(step.switch or ())} ({why})"
        yield f"Of its switch {which} was taken: it runs the JobTemplate {step.template_for(case)}."
    if made.items is not None and step.for_each is not None and step.for_each.from_ is not None:
        yield f"Its {counted(len(made.items), 'item')} came from {_quoted(step.for_each.from_)}."


def _runs(step: Step, condition: StepCondition) -> Iterator[str]:
    said = run_progress(step, condition)
    if not said:
        return
    if step.repeat is not None and condition.phase not in ENDED_STEP_PHASES:
        until = f", until {_quoted(step.repeat.until)} holds" if step.repeat.until else ""
        yield f"It is at {said}{until}."
    else:
        yield f"It has {said}." if "done" not in said else f"Of its runs: {said}."
    yield from _failed_items(step, condition)


def _failed_items(step: Step, condition: StepCondition) -> Iterator[str]:
    """Which items failed, and by what; of the first that is the step's own message at its end."""
    failed = [run for run in condition.runs or () if run.phase == StepPhase.FAILED]
    if step.for_each is None or len(failed) + (condition.phase != StepPhase.FAILED) < 2:
        return
    for run in failed[:SHOWN]:
        yield f"Item {run.index} failed ({run.reason}): {run.message or 'nothing more is known'}."
    if len(failed) > SHOWN:
        yield f"{counted(len(failed) - SHOWN, 'more item')} failed."


def _attempts(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    again = condition.next_attempt_time
    if condition.phase == StepPhase.WAITING and condition.reason == StepReason.RETRYING and again:
        when = f"in {span(again - now)} (at {clock(again, now)})" if again > now else "now"
        yield f"The next attempt starts {when}{_keeps_off(condition)}."
    tried = condition.attempts - condition.past_attempts
    if condition.phase == StepPhase.FAILED and tried > 1 and not condition.runs:
        yield f"It was tried {tried} times."


def _keeps_off(condition: RunCondition) -> str:
    nodes = condition.avoid_nodes or ()
    return f" and keeps off {listed(list(nodes))}, where it failed" if nodes else ""


def _time(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    """When the next of its jobs is out of time."""
    deadlines = [
        run.deadline
        for run in (condition, *(condition.runs or ()))
        if run.deadline is not None and run.phase not in (*ENDED_STEP_PHASES, StepPhase.WAITING)
    ]
    if deadlines and condition.abort_time is None:
        first = min(deadlines)
        left = f"in {span(first - now)} (at {clock(first, now)})" if first > now else "now"
        yield f"Its timeout of {step.timeout} is over {left}."


def _kind(step: Step, condition: StepCondition) -> Iterator[str]:
    under_way = condition.phase not in ("", StepPhase.WAITING, *ENDED_STEP_PHASES)
    if step.daemon and under_way and condition.abort_time is None:
        yield "It is a service (daemon): it is ended once all other steps are over."
    if step.continue_on_failure and condition.phase == StepPhase.FAILED:
        yield "It may fail (continueOnFailure): that neither fails the flow nor holds anything up."


def _quoted(expression: str) -> str:
    """An expression in one line, cut where it is long."""
    text = " ".join(expression.split())
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"
