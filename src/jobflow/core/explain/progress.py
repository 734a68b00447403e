"""What there is to tell of a step besides how it stands: its decisions, runs, attempts and time.

In plain sentences, from status and spec alone. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    Decisions,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.job import TaskState
from jobflow.api.jobflow import Step
from jobflow.api.pod import PodPhase
from jobflow.core.limits import MAX_RUNS
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.text import MAX_NAMES, format_count, format_duration, format_time, join_names

_LONGEST = 120
"""Characters of an expression that are repeated."""


def describe_details(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
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
        yield f"Its {format_count(len(made.items), 'item')} came from {_quoted(step.for_each.from_)}."


def _runs(step: Step, condition: StepCondition) -> Iterator[str]:
    said = format_run_progress(step, condition)
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
    for run in failed[:MAX_NAMES]:
        yield f"Item {run.index} failed ({run.reason}): {run.message or 'nothing more is known'}."
    if len(failed) > MAX_NAMES:
        yield f"{format_count(len(failed) - MAX_NAMES, 'more item')} failed."


def _attempts(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    again = condition.next_attempt_time
    if condition.phase == StepPhase.WAITING and condition.reason == StepReason.RETRYING and again:
        when = (
            f"in {format_duration(again - now)} (at {format_time(again, now)})"
            if again > now
            else "now"
        )
        yield f"The next attempt starts {when}{_keeps_off(condition)}."
    tried = condition.attempts - condition.past_attempts
    if condition.phase == StepPhase.FAILED and tried > 1 and not condition.runs:
        yield f"It was tried {tried} times."


def _keeps_off(condition: RunCondition) -> str:
    nodes = condition.avoid_nodes or ()
    return f" and keeps off {join_names(list(nodes))}, where it failed" if nodes else ""


def _time(step: Step, condition: StepCondition, now: datetime) -> Iterator[str]:
    """When the next of its jobs is out of time."""
    deadlines = [
        run.deadline
        for run in (condition, *(condition.runs or ()))
        if run.deadline is not None and run.phase not in (*ENDED_STEP_PHASES, StepPhase.WAITING)
    ]
    if deadlines and condition.abort_time is None:
        first = min(deadlines)
        left = (
            f"in {format_duration(first - now)} (at {format_time(first, now)})"
            if first > now
            else "now"
        )
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


def format_run_progress(step: Step, condition: StepCondition, *, brief: bool = False) -> str:
    """`12/40 items done, 3 running, 1 failed` and, once all are over, `40 items`, or `1/8 items
    done, 1 failed, 6 not started`; of a repeat `run 3 of at most 10` and, once it is over, `3
    runs`. Empty for any other step, and before the first run. `brief`: `12/40 items`, `run 3`."""
    runs = condition.runs or ()
    over = condition.phase in ENDED_STEP_PHASES
    if step.repeat is not None and runs:
        return _repeat(step, len(runs), over=over, brief=brief)
    items = get_items(step, condition.decisions)
    if items is None or (over and not runs):
        return "no items" if items is not None and not items and over else ""
    return _items(len(items), runs, over=over, brief=brief) if runs else ""


def _repeat(step: Step, number: int, *, over: bool, brief: bool) -> str:
    if over:
        return format_count(number, "run")
    most = step.repeat.max if step.repeat is not None else None
    return f"run {number}" if brief else f"run {number} of at most {most or MAX_RUNS}"


def _items(total: int, runs: Sequence[RunCondition], *, over: bool, brief: bool) -> str:
    done = sum(run.phase == StepPhase.COMPLETED for run in runs)
    if over and done == total:
        return format_count(total, "item")
    share = f"{done:,}/{format_count(total, 'item')}"
    if brief:
        return share
    counts = {
        "running": sum(_has_job(run) for run in runs),
        "to run again": sum(_runs_again(run) for run in runs),
        "failed": sum(run.phase == StepPhase.FAILED for run in runs),
        "not started": total - sum(run.phase in ENDED_STEP_PHASES for run in runs) if over else 0,
    }
    said = (f", {count:,} {what}" for what, count in counts.items() if count)
    return f"{share} done{''.join(said)}"


def _has_job(run: RunCondition) -> bool:
    return run.phase not in ENDED_STEP_PHASES and run.phase not in ("", StepPhase.WAITING)


def _runs_again(run: RunCondition) -> bool:
    return run.phase == StepPhase.WAITING and run.reason in (
        StepReason.RETRYING,
        StepReason.JOB_LOST,
    )


def format_case(step: Step, condition: StepCondition) -> str:
    """`case 2 of 3: price-large`, the case of its switch that was taken and the template; empty
    where there is no switch, or none was taken."""
    decided = condition.decisions
    if decided is None or (case := step.case_of(decided)) is None:
        return ""
    which = f"case {(decided.case or 0) + 1} of {len(step.switch or ())}"
    return f"{which}: {case.template}" if case.template else which


def format_task_progress(
    counts: Mapping[str, TaskState] | None, *, brief: bool = False
) -> list[str]:
    """A text a task, those on their way first: of all its pods how many are done, or, while none
    is, how many run; `worker 1/4 done, 1 failed`, and `worker 1/4` where it is to be `brief`. Of a
    job of one pod that runs there is nothing to tell."""
    if not counts or _is_one_pod_that_runs(counts):
        return []
    ranked = sorted((_rank(state), task) for task, state in counts.items() if _total(state))
    return [f"{task} {_said(counts[task], brief=brief)}" for _, task in ranked]


def _is_one_pod_that_runs(counts: Mapping[str, TaskState]) -> bool:
    running = sum(_count(state, PodPhase.RUNNING) for state in counts.values())
    return running == 1 == sum(_total(state) for state in counts.values())


def _said(state: TaskState, *, brief: bool) -> str:
    total, done = _total(state), _count(state, PodPhase.SUCCEEDED)
    failed = _count(state, PodPhase.FAILED)
    over = done or failed == total
    share = f"{done if over else _count(state, PodPhase.RUNNING)}/{total}"
    if brief:
        return share
    return f"{share} {'done' if over else 'running'}" + (f", {failed} failed" if failed else "")


def _rank(state: TaskState) -> int:
    """0: some of its pods are done. 1: some do not run yet. 2: all run. 3: all are done."""
    total, done = _total(state), _count(state, PodPhase.SUCCEEDED)
    if done:
        return 3 if done == total else 0
    return 2 if _count(state, PodPhase.RUNNING) == total else 1


def _count(state: TaskState, phase: str) -> int:
    return (state.phase or {}).get(phase, 0)


def _total(state: TaskState) -> int:
    return sum((state.phase or {}).values())
