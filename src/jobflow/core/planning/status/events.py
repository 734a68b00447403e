"""Events of a flow: the changes from the stored status to the next one.

Therefore each change makes one Event, no matter which process plans next. Steps that are skipped
for the same reason share an Event, and so do steps that cannot start for the same cause, so that a
failure in a large flow does not send a thousand Events.
"""

from collections.abc import Iterator, Mapping, Sequence

from jobflow.api.flow_status import (
    CANCELLED,
    ENDED_STEP_PHASES,
    FINAL_PHASES,
    TIMEOUT,
    FlowPhase,
    JobFlowStatus,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.reasons import StepReason
from jobflow.core.text import join_names, shorten

TROUBLES: frozenset[str] = frozenset(
    {StepReason.JOB_LOST, StepReason.CREATE_REFUSED, StepReason.NAME_IN_USE, StepReason.RETRYING}
)
"""Reasons of a waiting step that send one warning."""
_NOT_BEGUN = RunCondition()

_HALTED: Mapping[str, tuple[EventType, str]] = {
    CANCELLED: (EventType.NORMAL, "FlowCancelled"),
    TIMEOUT: (EventType.WARNING, "FlowTimedOut"),
}
"""Type and reason of the Event of a cancelled or timed out flow."""


def step_events(ctx: PlanContext, decisions: Sequence[StepDecision]) -> Iterator[Event]:
    """Yield the Events of changed steps, in spec order; at most three a step."""
    skipped: dict[str, list[str]] = {}
    troubles: dict[tuple[str, str], list[str]] = {}
    for observed, decision in zip(ctx.observed, decisions, strict=True):
        old, new = observed.stored, decision.condition
        if new is old:  # so is every step that had ended before
            continue
        name = observed.step.name
        if observed.loops:
            yield from _run_events(observed.step, old, new)
        elif new.attempts > old.attempts and new.job:
            again = f" (attempt {new.attempts})" if new.attempts > 1 else ""
            message = f"step {name}: created job {new.job}{again}"
            yield Event(EventType.NORMAL, "JobCreated", message)
        if new.phase in ENDED_STEP_PHASES:
            if new.phase == StepPhase.SKIPPED:
                skipped.setdefault(new.reason, []).append(name)
            else:
                yield _ended(name, new)
        elif new.reason in TROUBLES and new.reason != old.reason and not new.runs:
            troubles.setdefault((new.reason, new.message), []).append(name)
    for (reason, message), names in troubles.items():
        yield Event(EventType.WARNING, reason, f"{_steps(names)}: {message}")
    for reason, names in sorted(skipped.items()):
        yield Event(EventType.NORMAL, "StepSkipped", f"{_steps(names)}: {reason}")


def flow_events(flow: JobFlow, status: JobFlowStatus) -> Iterator[Event]:
    """Yield the Events of the flow as a whole: cancel, timeout, suspension and end."""
    phase, reason = status.state.phase, status.state.reason
    if reason in _HALTED and reason != flow.status.state.reason:
        yield Event(*_HALTED[reason], status.state.message)
    if (flow.status.suspended_at is None) != (status.suspended_at is None):
        if status.suspended_at is not None:
            message = f"nothing starts until it is resumed ({status.suspended_by})"
            yield Event(EventType.NORMAL, "FlowSuspended", message)
        elif phase not in FINAL_PHASES:
            yield Event(EventType.NORMAL, "FlowResumed", "steps start again")
    if flow.status.state.phase == phase or phase not in FINAL_PHASES:
        return
    if phase == FlowPhase.SUCCEED:
        yield Event(EventType.NORMAL, "FlowSucceeded", f"all is done: {status.progress} steps")
    else:
        yield Event(EventType.WARNING, "FlowFailed", status.state.message)


def _steps(names: Sequence[str]) -> str:
    return f"{'step' if len(names) == 1 else 'steps'} {join_names(names)}"


def _ended(name: str, new: StepCondition) -> Event:
    if new.reason == StepReason.OUTPUTS_MISSING:
        return Event(EventType.WARNING, new.reason, f"step {name}: completed; {new.message}")
    if new.phase == StepPhase.COMPLETED:
        return Event(EventType.NORMAL, "StepCompleted", f"step {name}: completed")
    return Event(EventType.WARNING, "StepFailed", f"step {name}: {new.message or new.reason}")


def _run_events(step: Step, old: StepCondition, new: StepCondition) -> Iterator[Event]:
    """Yield the Events of changed runs: created jobs, runs that failed while others continue, and
    new troubles."""
    before: Mapping[int | None, RunCondition] = {run.index: run for run in old.runs or ()}
    created: list[str] = []
    warnings: dict[str, list[RunCondition]] = {}
    for run in new.runs or ():
        was = before.get(run.index, _NOT_BEGUN)
        if run is was:
            continue
        if run.attempts > was.attempts and run.job:
            created.append(run.job)
        if run.phase == StepPhase.FAILED != was.phase and new.phase not in ENDED_STEP_PHASES:
            warnings.setdefault("RunFailed", []).append(run)
        elif run.phase == StepPhase.WAITING and run.reason in TROUBLES - {was.reason}:
            warnings.setdefault(run.reason, []).append(run)
    if created:
        jobs = f"{'job' if len(created) == 1 else 'jobs'} {join_names(created)}"
        yield Event(EventType.NORMAL, "JobCreated", f"step {step.name}: created {jobs}")
    noun = "item" if step.for_each is not None else "run"
    for reason, runs in sorted(warnings.items()):
        more = f", and {len(runs) - 1} more" if len(runs) > 1 else ""
        message = shorten(runs[0].message or runs[0].reason)
        which = f"{noun} {runs[0].index}{more}"
        yield Event(EventType.WARNING, reason, f"step {step.name}: {which}: {message}")
