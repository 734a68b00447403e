"""Events of a flow: the changes from the stored status to the next one. Therefore each change makes
one Event, no matter which process plans next."""

from collections.abc import Iterator, Mapping, Sequence

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobPhase
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.work.end import CANNOT_START
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.step_commands import asks
from jobflow.core.text import format_count, join_names, shorten
from jobflow.core.work import is_asked

TROUBLES: frozenset[str] = frozenset(
    {StepReason.JOB_LOST, StepReason.CREATE_REFUSED, StepReason.NAME_IN_USE, StepReason.RETRYING}
)
"""Reasons of a waiting step that send one warning."""
_NOT_BEGUN = api.RunCondition()
_HALTED: Mapping[str, tuple[EventType, str]] = {
    api.CANCELLED: (EventType.NORMAL, "FlowCancelled"),
    api.TIMEOUT: (EventType.WARNING, "FlowTimedOut"),
}
"""Type and reason of the Event of a cancelled or timed out flow."""


def step_events(ctx: PlanContext, decisions: Sequence[StepDecision]) -> Iterator[Event]:
    """Yield the Events of changed steps, in spec order; at most three a step."""
    # one Event for all steps of a reason: a wide flow would send a thousand
    reuse = ctx.flow.status.reuse
    without_source = "" if reuse is None else _without_source(reuse, ctx)
    skipped: dict[str, list[str]] = {}
    troubles: dict[tuple[str, str], list[str]] = {}
    for observed, decision in zip(ctx.observed, decisions, strict=True):
        old, new = observed.stored, decision.condition
        # so is every step that had ended before
        if new is old or new.reason == StepReason.REUSED:
            continue
        name = observed.step.name
        if observed.loops:
            yield from _run_events(observed.step, old, new, without_source, ctx)
        elif new.attempts > old.attempts and new.job:
            noun = ctx.work_named(observed.step, new.job).noun
            again = f" (attempt {new.attempts})" if new.attempts > 1 else without_source
            message = f"step {name}: created {noun} {new.job}{again}"
            yield Event(EventType.NORMAL, f"{noun.title()}Created", message)
        elif new.attempts > old.attempts and asks(new):
            yield Event(EventType.NORMAL, "ApprovalRequested", f"step {name}: {new.message}")
        if new.phase not in api.ENDED_STEP_PHASES:
            if new.reason in TROUBLES and new.reason != old.reason and not new.runs:
                troubles.setdefault((new.reason, new.message), []).append(name)
            elif new.phase == JobPhase.PENDING and not new.runs and _cannot_start(old, new):
                troubles.setdefault(("PodCannotStart", new.message), []).append(name)
        elif new.phase == api.StepPhase.SKIPPED:
            skipped.setdefault(new.reason, []).append(name)
        elif new.reason == StepReason.OUTPUTS_MISSING:
            yield Event(EventType.WARNING, new.reason, f"step {name}: completed; {new.message}")
        elif new.phase == api.StepPhase.COMPLETED:
            how = (is_asked(observed.step) and new.message) or "completed"
            yield Event(EventType.NORMAL, "StepCompleted", f"step {name}: {how}")
        else:
            message = f"step {name}: {new.message or new.reason}"
            yield Event(EventType.WARNING, "StepFailed", message)
    if reuse is not None:
        yield from _reuse_events(reuse, ctx, decisions)
    for (reason, message), names in troubles.items():
        yield Event(EventType.WARNING, reason, f"{_steps(names)}: {message}")
    for reason, names in sorted(skipped.items()):
        yield Event(EventType.NORMAL, "StepSkipped", f"{_steps(names)}: {reason}")


def flow_events(
    flow: JobFlow, status: api.JobFlowStatus, reused_in_vain: str = ""
) -> Iterator[Event]:
    """Yield the Events of the flow as a whole: volume claims, cancel, timeout, suspension, end.
    `reused_in_vain`: why it starts without the results of the flow that it names."""
    if reused_in_vain:
        yield Event(EventType.WARNING, "NothingReused", f"{reused_in_vain}, so every step runs")
    phase, reason = status.state.phase, status.state.reason
    before = flow.status.volume_claims or ()
    if claims := [name for name in status.volume_claims or () if name not in before]:
        noun = "volume claim" if len(claims) == 1 else "volume claims"
        what = f"{noun} {join_names(claims)}"
        if (reuse := flow.status.reuse) is not None and reuse.moving_claims:
            message = f"{what} moved here from the flow {reuse.flow}"
            yield Event(EventType.NORMAL, "VolumeClaimMoved", message)
        else:
            yield Event(EventType.NORMAL, "VolumeClaimCreated", f"created {what}")
    if reason in _HALTED and reason != flow.status.state.reason:
        yield Event(*_HALTED[reason], status.state.message)
    if (flow.status.suspended_at is None) != (status.suspended_at is None):
        if status.suspended_at is not None:
            message = f"nothing starts until it is resumed ({status.suspended_by})"
            yield Event(EventType.NORMAL, "FlowSuspended", message)
        elif phase not in api.FINAL_PHASES:
            yield Event(EventType.NORMAL, "FlowResumed", "steps start again")
    was, group = flow.status.state.reason, FlowReason.CONCURRENCY
    if reason == group != was and phase == api.FlowPhase.PENDING:
        yield Event(EventType.NORMAL, "FlowWaiting", status.state.message)
    if was == group and flow.status.start_time is None and status.start_time:
        yield Event(EventType.NORMAL, "FlowStarted", "it has a place in its concurrency group")
    if flow.status.state.phase == phase or phase not in api.FINAL_PHASES:
        return
    if phase == api.FlowPhase.SUCCEED and reason == FlowReason.CONCURRENCY:
        yield Event(EventType.NORMAL, "FlowSkipped", status.state.message)
    elif phase == api.FlowPhase.SUCCEED:
        yield Event(EventType.NORMAL, "FlowSucceeded", f"all is done: {status.progress} steps")
    else:
        yield Event(EventType.WARNING, "FlowFailed", status.state.message)


def _without_source(reuse: api.ReusedFlow, ctx: PlanContext) -> str:
    """Return, for the Event of a job, that the flow which is reused is gone."""
    if ctx.source is not None:
        return ""
    return f" (flow {reuse.flow} is gone, so nothing of it is reused any more)"


def _reuse_events(
    reuse: api.ReusedFlow, ctx: PlanContext, decisions: Sequence[StepDecision]
) -> Iterator[Event]:
    pairs = zip(ctx.observed, decisions, strict=True)
    found = (_taken(each.step, each.stored, decision.condition) for each, decision in pairs)
    if names := [name for name in found if name]:
        message = f"{_steps(names)}: unchanged since {reuse.flow}"
        yield Event(EventType.NORMAL, "StepReused", message)


def _taken(step: Step, old: api.StepCondition, new: api.StepCondition) -> str:
    """Return the name of a step that has taken earlier results, with their number; "" if none."""
    before = {run.index for run in old.runs or (old,) if _is_reused(run)}
    taken = [run for run in new.runs or (new,) if _is_reused(run) and run.index not in before]
    if not taken or not new.runs:
        return step.name if taken else ""
    return f"{step.name} ({format_count(len(taken), 'item' if step.fan_out else 'run')})"


def _cannot_start(old: api.RunCondition, new: api.RunCondition) -> bool:
    return new.message.startswith(CANNOT_START) and not old.message.startswith(CANNOT_START)


def _is_reused(run: api.RunCondition) -> bool:
    return run.reason == StepReason.REUSED


def _steps(names: Sequence[str]) -> str:
    return f"{'step' if len(names) == 1 else 'steps'} {join_names(names)}"


def _run_events(
    step: Step,
    old: api.StepCondition,
    new: api.StepCondition,
    without_source: str,
    ctx: PlanContext,
) -> Iterator[Event]:
    """Yield the Events of runs: created, failed while others continue, and new troubles.
    `without_source`: that the flow which is reused is gone, or ""."""
    # a run that begins has no condition yet
    before: Mapping[int | None, api.RunCondition] = {run.index: run for run in old.runs or ()}
    created: list[str] = []
    asked: list[api.RunCondition] = []
    warnings: dict[str, list[api.RunCondition]] = {}
    for run in new.runs or ():
        was = before.get(run.index, _NOT_BEGUN)
        if run is was:
            continue
        if run.attempts > was.attempts and run.job and not _is_reused(run):
            created.append(run.job)
        elif run.attempts > was.attempts and asks(run):
            asked.append(run)
        if (
            run.phase == api.StepPhase.FAILED != was.phase
            and new.phase not in api.ENDED_STEP_PHASES
        ):
            warnings.setdefault("RunFailed", []).append(run)
        elif run.phase == api.StepPhase.WAITING and run.reason in TROUBLES - {was.reason}:
            warnings.setdefault(run.reason, []).append(run)
        elif _cannot_start(was, run):
            warnings.setdefault("PodCannotStart", []).append(run)
    if created:
        noun = ctx.work_named(step, created[0]).noun
        plural = "" if len(created) == 1 else "s"
        names = f"{join_names(created)}{without_source}"
        message = f"step {step.name}: created {noun}{plural} {names}"
        yield Event(EventType.NORMAL, f"{noun.title()}Created", message)
    if asked:
        more = f", and {len(asked) - 1} more" if len(asked) > 1 else ""
        message = f"step {step.name}: item {asked[0].index}{more}: {asked[0].message}"
        yield Event(EventType.NORMAL, "ApprovalRequested", message)
    noun = "item" if step.for_each is not None else "run"
    for reason, runs in sorted(warnings.items()):
        more = f", and {len(runs) - 1} more" if len(runs) > 1 else ""
        message = shorten(runs[0].message or runs[0].reason)
        which = f"{noun} {runs[0].index}{more}"
        yield Event(EventType.WARNING, reason, f"step {step.name}: {which}: {message}")
