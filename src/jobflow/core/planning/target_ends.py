"""Ends of targets, as recorded in an annotation of the vcjobs that started after them.

A create and the status that holds its reason are sent together, so a crash can leave only the
create. Therefore a vcjob carries the ends of its step's targets as an annotation. It is read only
while the stored status does not know that vcjob: the status that first knows it holds these ends
too. Everyone who can create vcjobs of the flow can write the annotation, so entries that are not
about a target of the step, or that no step can end as, are ignored.

If a vcjob does not name a target (an earlier version made it, or not all ends fitted), it proves
only the one end that its step must have waited for.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from jobflow.api import labels
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.jobflow import Condition, Step, Strategy
from jobflow.core.names import format_latest_name
from jobflow.core.planning.context import PlanContext, TargetEnd
from jobflow.core.planning.observed import NOTHING, ObservedStep
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import get_condition_for, get_probe, get_strategy

T = TypeVar("T")

MOST_BYTES = 16 * 1024
"""Most bytes of the annotation's value."""
MOST_ATTEMPTS = 10**9

_REASONS = frozenset({"", *StepReason})
_BY_CONDITION: Mapping[Condition, TargetEnd] = {
    Condition.COMPLETED: TargetEnd(StepPhase.COMPLETED, StepReason.JOB_LOST),
    Condition.FAILED: TargetEnd(StepPhase.FAILED, StepReason.JOB_FAILED),
}
"""How a target must have ended if a dependant that waits for this has started."""


def encode_ends(ends: Mapping[str, StepCondition]) -> str:
    """Return the annotation's value for targets by name: the ends as JSON, in the order of the
    names, without the last ones if it would be longer than MOST_BYTES."""
    entries: list[bytes] = []
    size = len("{}")
    for name, condition in sorted(ends.items()):
        if condition.phase not in ENDED_STEP_PHASES:
            continue
        end = TargetEnd(condition.phase, condition.reason, condition.attempts)
        entry = msgspec.json.encode({name: end})[1:-1]
        size += len(entry) + len(",")
        if size > MOST_BYTES:
            break
        entries.append(entry)
    return f"{{{b','.join(entries).decode()}}}"


def parse_ends(text: str) -> Mapping[str, TargetEnd]:
    """Return the ends in an annotation's value, by target; empty if it is not in this form."""
    if not text or len(text) > MOST_BYTES:
        return {}
    entries = _decode(text, dict[str, msgspec.Raw]) or {}
    ends = {name: _decode(entry, TargetEnd) for name, entry in entries.items()}
    return {name: end for name, end in ends.items() if end is not None and _is_possible(end)}


def _decode(text: str | msgspec.Raw, form: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _is_possible(end: TargetEnd) -> bool:
    if end.phase not in ENDED_STEP_PHASES or end.reason not in _REASONS:
        return False
    return 0 <= end.attempts < MOST_ATTEMPTS and bool(
        end.reason or end.phase == StepPhase.COMPLETED
    )


def ends_of_targets(step: Step, ctx: PlanContext) -> str:
    """Return the annotation's value for a vcjob of this step that is made now."""
    text = ctx.progress.target_ends.get(step.name)
    if text is None:
        graph = ctx.graph
        targets = graph.targets[graph.index[step.name]]
        text = encode_ends({graph.names[target]: ctx.standing[target] for target in targets})
        ctx.progress.target_ends[step.name] = text
    return text


def recorded_end(position: int, ctx: PlanContext) -> TargetEnd | None:
    """Return how the step ended according to annotations of its dependants' vcjobs, or None.

    The end after the most attempts counts, unless a later attempt is known. An end without an
    attempt, such as Skipped, counts only if nothing else is known of the step, because it may be
    from before a retry of the flow; the step's own targets lead to it again.
    """
    end = recorded_ends(ctx).get(position)
    if end is None:
        return None
    observed = ctx.observed[position]
    if end.phase == StepPhase.SKIPPED or not end.attempts:
        return end if observed.stored is NOTHING and not observed.attempts else None
    return end if end.attempts >= observed.attempts else None


def recorded_ends(ctx: PlanContext) -> Mapping[int, TargetEnd]:
    """Return the ends in the annotations of vcjobs that the stored status does not know, by the
    position of the target; gathered once a plan."""
    if ctx.progress.recorded_ends is not None:
        return ctx.progress.recorded_ends
    found = ctx.progress.recorded_ends = dict[int, TargetEnd]()
    graph = ctx.graph
    for position, observed in enumerate(ctx.observed):
        if not observed.jobs or observed.stored.phase in ENDED_STEP_PHASES:
            continue
        targets = frozenset(graph.targets[position])
        # all items of a step usually have the same value
        metas = (job.metadata for run in observed.each for job in run.unheard_of)
        for text in {(meta.annotations or {}).get(labels.TARGET_ENDS, "") for meta in metas}:
            for name, end in parse_ends(text).items():
                target = graph.index.get(name, -1)
                if target in targets and (target not in found or _rank(end) > _rank(found[target])):
                    found[target] = end
    return found


def _rank(end: TargetEnd) -> tuple[int, str, str]:
    return end.attempts, end.phase, end.reason


def known_or_inferred_end(position: int, ctx: PlanContext) -> TargetEnd | None:
    """Return how a step that has begun ended. If no annotation names it, return the one end that a
    started dependant must have waited for (docs/decisions/lost-jobs.md)."""
    if (end := recorded_end(position, ctx)) is not None:
        return end
    step = ctx.steps[position]
    if step.continue_on_failure or position in recorded_ends(ctx):
        return None  # dependants start after either end, or their record is void
    for dependant in ctx.graph.dependants[position]:
        other = ctx.observed[dependant]
        if not other.jobs or any(run.stored_as_started for run in other.each):
            continue  # the status knows it, or it has not begun
        if all(run.job is None for run in other.each):
            continue
        if get_probe(other.step) is not None:
            continue  # a probe does not show that its target has ended
        alone = len(ctx.graph.targets[dependant]) == 1
        if alone or get_strategy(other.step) is Strategy.ALL:
            end = _BY_CONDITION.get(get_condition_for(other.step, step))
            if end is not None:
                return end
    return None


def end_beyond_all_known(position: int, ctx: PlanContext) -> TargetEnd | None:
    """Return a recorded end that is later than all that status and vcjobs say about the step, or
    None. The known runs of a loop are judged by themselves."""
    end, observed = recorded_end(position, ctx), ctx.observed[position]
    if end is None or end.phase == StepPhase.SKIPPED:
        return end
    is_later = end.attempts > observed.attempts or not observed.attempts
    return end if is_later and not observed.loops else None


def ended_as_recorded(end: TargetEnd, observed: ObservedStep) -> StepCondition:
    """Return the condition of a step of which nothing but its end is known."""
    stored = observed.stored
    job = format_latest_name(observed.key, end.attempts) if end.attempts else ""
    return StepCondition(
        phase=end.phase,
        reason=end.reason,
        message=recorded_end_message(job),
        job=job,
        attempts=end.attempts,
        past_attempts=stored.past_attempts,
        last_transition_time=observed.now,
        requested_hours=stored.requested_hours,
        decisions=stored.decisions,
    )


def recorded_end_message(job: str) -> str:
    """Return the message of a step or run of which only its end is known; "" for no vcjob."""
    gone = f"the job {job} is gone; " if job else ""
    return f"{gone}a job that started after it recorded its end"
