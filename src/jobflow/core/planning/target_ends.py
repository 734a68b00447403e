"""Ends of targets, as recorded in an annotation of the vcjobs that started after them.

A create and the status that holds its reason are sent together, so a crash can leave only the
create. Therefore a vcjob carries the ends of its step's targets as an annotation. It is read only
while the stored status does not know that vcjob: the status that first knows it holds these ends
too. Everyone who can create vcjobs of the flow can write the annotation, so entries that are not
about a target of the step, or that no step can end as, are ignored.
"""

from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Condition, Strategy
from jobflow.core.names import format_latest_name
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import TargetEnd
from jobflow.core.planning.observed.steps import NOTHING, ObservedRun, ObservedStep, has_begun
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import get_condition_for, get_probe, get_strategy

MOST_BYTES = 16 * 1024
"""Most bytes of the annotation's value."""
MOST_ATTEMPTS = 10**9

_rank = attrgetter("attempts", "phase", "reason")
"""Order of ends: the one after more attempts counts."""
_REASONS = frozenset({"", *StepReason})
_BY_CONDITION: Mapping[Condition, TargetEnd] = {
    Condition.COMPLETED: TargetEnd(StepPhase.COMPLETED, StepReason.JOB_LOST),
    Condition.FAILED: TargetEnd(StepPhase.FAILED, StepReason.JOB_FAILED),
}
"""How a target must have ended if a dependant that waits for this has started."""


def encode_ends(ends: Mapping[str, RunCondition]) -> str:
    """Return the annotation's value: the ends of targets by name as JSON, without the last ones if
    it would be longer than MOST_BYTES."""
    entries: list[bytes] = []
    size = len("{}")
    for name, condition in sorted(ends.items()):
        if condition.phase not in ENDED_STEP_PHASES:
            continue
        end = TargetEnd(condition.phase, condition.reason, condition.attempts)
        entry = msgspec.json.encode({name: end})[1:-1]
        # an API server takes 256 KiB of annotations of an object, those of others too
        size += len(entry) + len(",")
        if size > MOST_BYTES:
            break
        entries.append(entry)
    return f"{{{b','.join(entries).decode()}}}"


def parse_ends(text: str) -> Mapping[str, TargetEnd]:
    """Return the ends in an annotation's value, by target; empty if it is not in this form."""
    if not text or len(text) > MOST_BYTES:
        return {}
    ends: dict[str, TargetEnd] = {}
    with suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
        for name, entry in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
            with suppress(msgspec.MsgspecError):  # the other entries may be in order
                end = msgspec.json.decode(entry, type=TargetEnd)
                known = end.phase in ENDED_STEP_PHASES and end.reason in _REASONS
                has_reason = end.reason or end.phase == StepPhase.COMPLETED
                if known and has_reason and 0 <= end.attempts < MOST_ATTEMPTS:
                    ends[name] = end
    return ends


def ends_of_targets(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the annotation's value for a vcjob of this run that is made now. An item of a target
    is named like `train/3`."""
    name = run.step.name
    # all runs of a step have the same targets, and so the same annotation
    need = ctx.layout.needs[ctx.layout.graph.index[name]]
    if need.matched:
        name = f"{name}/{run.index}"
    text = ctx.progress.target_ends.get(name)
    if text is None:
        found: dict[str, RunCondition] = {}
        for target in need.targets:
            condition: RunCondition = ctx.progress.standing[target]
            found[ctx.layout.graph.names[target]] = condition
            if target in need.matched:
                for item in ctx.progress.standing[target].runs or ():
                    if item.index == run.index:
                        found[f"{ctx.layout.graph.names[target]}/{run.index}"] = item
        text = ctx.progress.target_ends[name] = encode_ends(found)
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
    position of the target."""
    if ctx.progress.recorded_ends is not None:
        return ctx.progress.recorded_ends
    found = ctx.progress.recorded_ends = dict[int, TargetEnd]()
    of_items = ctx.progress.recorded_item_ends
    graph, in_status = ctx.layout.graph, ctx.layout.ends_in_status
    for position, observed in enumerate(ctx.observed):
        if not observed.jobs or observed.stored.phase in ENDED_STEP_PHASES:
            continue
        targets = frozenset(graph.targets[position])
        # all items of a step usually have the same value
        metas = (job.metadata for _, job in observed.list_unknown())
        for text in {(meta.annotations or {}).get(labels.TARGET_ENDS, "") for meta in metas}:
            for name, end in parse_ends(text).items():
                target = graph.index.get(name, -1)
                if target in in_status and end.phase != StepPhase.SKIPPED:
                    continue  # the status has it before a dependant starts: this one is forged
                if target in targets and (target not in found or _rank(end) > _rank(found[target])):
                    found[target] = end
        # an item names the items that it has waited for too
        if position in ctx.layout.matching:
            for run, job in observed.list_unknown():
                ends = parse_ends((job.metadata.annotations or {}).get(labels.TARGET_ENDS, ""))
                for target in ctx.layout.needs[position].matched:
                    of_item = ends.get(f"{graph.names[target]}/{run.index}")
                    if of_item is not None and run.index is not None:
                        known = of_items.setdefault(target, {})
                        known[run.index] = max(known.get(run.index, of_item), of_item, key=_rank)
    return found


def recorded_item_ends(ctx: PlanContext) -> Mapping[int, Mapping[int, TargetEnd]]:
    """Return `recorded_ends` of items, by the position of the target and by index."""
    recorded_ends(ctx)
    return ctx.progress.recorded_item_ends


def known_or_inferred_end(position: int, ctx: PlanContext) -> TargetEnd | None:
    """Return how a step that has begun ended. If no annotation names it (an earlier version made
    the vcjob, or not all ends fitted), return the one end that a started dependant must have waited
    for (docs/decisions/lost-jobs.md)."""
    if (end := recorded_end(position, ctx)) is not None:
        return end
    step = ctx.layout.steps[position]
    if step.continue_on_failure or position in recorded_ends(ctx):
        return None  # dependants start after either end, or their record is void
    for dependant in ctx.layout.graph.dependants[position]:
        other = ctx.observed[dependant]
        if not other.jobs or any(has_begun(run.stored) for run in other.each):
            continue  # the status knows it, or it has not begun
        if all(run.job is None for run in other.each):
            continue
        if position in ctx.layout.needs[dependant].matched:
            continue  # an item does not show that all items of its target have ended
        if get_probe(other.step) is not None:
            continue  # a probe does not show that its target has ended
        alone = len(ctx.layout.graph.targets[dependant]) == 1
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
    return StepCondition(
        **_fields_of(end, observed),
        past_attempts=stored.past_attempts,
        failed_attempts=stored.failed_attempts,
        requested_hours=stored.requested_hours,
        decisions=stored.decisions,
    )


def run_ended_as_recorded(end: TargetEnd, run: ObservedRun) -> RunCondition:
    """Return the condition of a run of which nothing but its end is known."""
    return RunCondition(index=run.index, **_fields_of(end, run))


def _fields_of(end: TargetEnd, run: ObservedRun) -> dict[str, Any]:
    job = format_latest_name(run.key, end.attempts) if end.attempts else ""
    return {
        "phase": end.phase,
        "reason": end.reason,
        "message": recorded_end_message(run, job),
        "job": job,
        "attempts": end.attempts,
        "last_transition_time": run.now,
    }


def recorded_end_message(run: ObservedRun, job: str) -> str:
    """Return the message of a step or run of which only its end is known; "" for no vcjob."""
    gone = f"the {run.work.noun} {job} is gone; " if job else ""
    return f"{gone}a step that started after it recorded its end"
