"""Reuse: which runs take the result of an ended flow, because the same was done there.

A run is compared when it would start. Its fingerprint is made of what its job does and of the
identities of the jobs that made what it depends on; it is on each vcjob, and in the status once the
run has completed. A run takes the result of a completed run of the step of the same name with an
equal fingerprint, and keeps that one's identity. So whatever is made of something that runs here
runs here too. Nothing is created in a plan that has taken a result, so that each is stored before a
job that depends on it exists (docs/decisions/reuse.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import Reuse, ReusePolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    Decisions,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.step import Step, Strategy
from jobflow.core.manifests.fingerprint import digest, ends_of, identity_of
from jobflow.core.names import format_job_name, format_latest_name, stored_condition
from jobflow.core.planning.actions import CreateJob, Guard
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Draft, RunDecision, StepDecision, wait
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep
from jobflow.core.planning.work.end import take_outputs
from jobflow.core.pods.outputs import OutputsTooLarge
from jobflow.core.reasons import StepReason
from jobflow.core.spec.compiled import compile_flow
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.items import get_items, read_bits
from jobflow.core.work import work_of


def what_it_is_made_of(run: ObservedRun, ctx: PlanContext) -> Any:
    """Return the JSON that is compared besides what the job does: the identities of the jobs that
    its targets ran, and the end of a loop, of which the first run stands for all."""
    position = ctx.layout.graph.index[run.step.name]
    targets, repeat = _targets_of(position, run.index, ctx), run.step.repeat
    if repeat is None or not run.work.has_pods:
        return [targets]
    return [targets, repeat.max, repeat.until]


def _targets_of(position: int, index: int | None, ctx: PlanContext) -> Any:
    need, names = ctx.layout.needs[position], ctx.layout.graph.names
    if need.how is Strategy.ANY:
        # which of them had ended when it started is a matter of time (`_may_reuse`)
        return sorted(names[target] for target in need.targets)
    made, targets = ctx.progress.made_of, need.targets_of(index)
    left = [*targets]
    while left:  # no recursion, because thousands of steps in a row may have no job
        target, at = left[-1]
        if (target, at) not in made:
            found = _ends_of(target, at, ctx)
            if not any(isinstance(each, str) for each in found):
                below = ctx.layout.needs[target]
                before = () if below.how is Strategy.ANY else below.targets_of(at)
                if unmade := [key for key in before if key not in made]:
                    left += unmade
                    continue
                found.append(_targets_of(target, at, ctx))
            # short, because a thousand items may depend on a thousand others
            made[target, at] = digest(found)
        left.pop()
    return {names[target]: made[target, at] for target, at in targets}


def _ends_of(position: int, index: int | None, ctx: PlanContext) -> list[Any]:
    observed, condition = ctx.observed[position], ctx.shown_to_dependants(position)
    if observed.step.daemon and observed.step.reuse_policy == ReusePolicy.IF_UNCHANGED:
        # it starts again, and counts as if it had not
        return [f"daemon {_fingerprint_of(observed, condition)}"]
    runs: Sequence[RunCondition] = (condition.runs or ()) if observed.loops else (condition,)
    if index is not None:
        runs = [run for run in (condition.run_at(index),) if run is not None]
    work = work_of(observed.step, observed.step.case_of(condition.decisions))
    return ends_of(runs, ctx.layout.keys[position], ctx.flow, has_jobs=work.has_objects)


def _ends_before(name: str, source: JobFlow) -> list[Any] | None:
    """Return what stands for a step in the flow that is reused; None if it has no such step."""
    layout, condition = compile_flow(source), stored_condition(source, name)
    position = layout.graph.index.get(name)
    if position is None or condition is None:
        return None
    runs: Sequence[RunCondition] = (condition,)
    if layout.loops[position]:
        runs = condition.runs or ()
    step = layout.steps[position]
    work = work_of(step, step.case_of(condition.decisions))
    return ends_of(runs, layout.keys[position], source, has_jobs=work.has_objects)


def _fingerprint_of(observed: ObservedStep, condition: StepCondition) -> str:
    annotations = observed.job.metadata.annotations if observed.job is not None else None
    return condition.fingerprint or (annotations or {}).get(labels.FINGERPRINT, "")


def take(run: ObservedRun, draft: Draft, ctx: PlanContext) -> RunDecision | None:
    """Return the decision that a run which would start now takes an earlier result, or is compared
    by the next plan; None if it runs here."""
    notes, source = ctx.progress.reusing, ctx.source
    if source is None or draft.compares is None or run.attempts or not run.work.has_pods:
        return None
    if run.key in notes.decided:
        return notes.decided[run.key]
    if _was_compared(run) or not _may_reuse(run, source, ctx):
        return None
    allowance, budget = ctx.progress.allowance, ctx.progress.creates
    if budget.is_spent() or (run.step.vars and allowance.spent):
        message = f"is being compared with {source.metadata.name}"
        return RunDecision(wait(run, StepReason.STARTING, message), wake_at=ctx.later)
    create = draft.build(ctx.flow, allowance)
    budget.take(draft, create)
    found: RunDecision | None = None
    if isinstance(create, CreateJob):
        notes.built[draft.name] = create
        made = create.manifest["metadata"]["annotations"].get(labels.FINGERPRINT, "")
        found = _take_result(run, made, source, ctx)
    notes.decided[run.key] = found
    if found is None:
        name = run.step.name
        notes.compared[name] = notes.compared.get(name, 0) | 1 << (run.index or 0)
    return found


def noted(decisions: Sequence[StepDecision], ctx: PlanContext) -> list[StepDecision]:
    """Return the decisions with a note of what was compared, so that each run is compared once. In
    a plan that has taken results, nothing is created before these are stored."""
    notes, index = ctx.progress.reusing, ctx.layout.graph.index
    found = list(decisions)
    for name, bits in notes.compared.items():
        decision = found[index[name]]
        condition = decision.condition
        if condition.phase in ENDED_STEP_PHASES:
            continue
        before = condition.decisions or Decisions()
        compared = f"{bits | _bits(before):x}"
        made = msgspec.structs.replace(
            condition, decisions=msgspec.structs.replace(before, compared=compared)
        )
        found[index[name]] = msgspec.structs.replace(decision, condition=made)
    if notes.has_taken:
        found = [
            msgspec.structs.replace(each, drafts=()) if each.drafts else each for each in found
        ]
    return found


def _bits(decided: Decisions | None) -> int:
    return read_bits(decided.compared) if decided is not None else 0


def guard_of(run: ObservedRun, ctx: PlanContext) -> Guard | None:
    """Return the condition for creating the first attempt of a run that may have taken a result: by
    a status whose answer was lost, before the flow that is reused or a template changed."""
    return None if _was_compared(run) else Guard(ctx.flow.metadata.uid)


def _was_compared(run: ObservedRun) -> bool:
    return bool(_bits(run.decided) >> (run.index or 0) & 1)


def not_compared(loop: ObservedStep, total: int, ctx: PlanContext) -> list[int]:
    """Return the indexes of the items for which no plan has looked for a result."""
    if ctx.source is None:
        return []
    bits = _bits(loop.decided)
    return [index for index in range(total) if not bits >> index & 1]


def rest_of_repeat(run: ObservedRun, ctx: PlanContext) -> list[RunCondition]:
    """Return the further runs of a repeat whose first run has taken its result in this plan."""
    return ctx.progress.reusing.repeats.get(run.step.name, [])


def counterpart(run: ObservedRun, ctx: PlanContext) -> Reuse | None:
    """Return the child flow whose results the child of a run reuses: that of the last attempt of
    the run with an equal item, else of the one with its index; None if there was none, or it is
    made of something else."""
    source, position = ctx.source, ctx.layout.graph.index[run.step.name]
    if source is None or run.attempts or not _lets(run.step, position, ctx):
        return None
    if not (ctx.layout.runs_steps[position] and _any_stay(position, source, ctx)):
        return None
    known = ctx.progress.reusing.child_flows
    if run.step.name not in known:
        known[run.step.name] = _child_flows(run, source)
    old = known[run.step.name].get(run.index)
    if old is None or not old.flow:
        return None
    child = ctx.view.source_children.get(old.flow)
    if child is None:
        # the child flow says that it is gone; no other flow of its name has this UID
        return Reuse(flow=old.flow, uid=source.metadata.uid)
    made = digest([None, what_it_is_made_of(run, ctx)])
    is_same = (child.annotations or {}).get(labels.FINGERPRINT) == made
    return Reuse(flow=child.name, uid=child.uid) if is_same else None


def _child_flows(run: ObservedRun, source: JobFlow) -> dict[int | None, RunCondition]:
    """Return the runs of the source that are the counterparts of those of a step, by their indexes
    here. Each is that of one equal item."""
    name = run.step.name
    before = next((each for each in compile_flow(source).steps if each.name == name), None)
    if before is None:
        return {}
    condition = stored_condition(source, name) or StepCondition()
    found = {each.index: each for each in condition.runs or (condition,)}
    equal: dict[str, deque[RunCondition]] = {}
    for index, item in enumerate(get_items(before, condition.decisions) or ()):
        if index in found:
            equal.setdefault(digest(item), deque()).append(found[index])
    for index, item in enumerate(get_items(run.step, run.decided) or ()):
        if runs := equal.get(digest(item)):
            found[index] = runs.popleft()
    return found


def _lets(step: Step, position: int, ctx: PlanContext) -> bool:
    return step.reuse_policy != ReusePolicy.NEVER and position < ctx.layout.last_from


def _may_reuse(run: ObservedRun, source: JobFlow, ctx: PlanContext) -> bool:
    position = ctx.layout.graph.index[run.step.name]
    if not _lets(run.step, position, ctx) or run.step.daemon:
        return False
    if run.step.repeat is not None and run.index != 0:
        return False
    return _any_stay(position, source, ctx)


def _any_stay(position: int, source: JobFlow, ctx: PlanContext) -> bool:
    """Whether all targets of the step are reused if it waits for any of them, and those of each
    such step without a job that it depends on through others."""
    layout, known = ctx.layout, ctx.progress.reusing.reused_targets
    if not layout.waits_for_any:
        return True
    if position not in known:
        reached = find_reachable(partial(_without_jobs, ctx), [position])
        needs = (layout.needs[each] for each in reached)
        any_of = (need.targets for need in needs if need.how is Strategy.ANY)
        known[position] = all(are_reused(each, ctx, as_before=source) for each in any_of)
    return known[position]


def _without_jobs(ctx: PlanContext, position: int) -> Iterator[int]:
    """Yield the targets without a job of a step that waits for all of its targets."""
    need = ctx.layout.needs[position]
    for target in need.targets if need.how is not Strategy.ANY else ():
        if not _runs_with_jobs(target, ctx):
            yield target


def _runs_with_jobs(position: int, ctx: PlanContext) -> list[RunCondition]:
    observed, condition = ctx.observed[position], ctx.shown_to_dependants(position)
    runs = (condition.runs or ()) if observed.loops else (condition,)
    work = work_of(observed.step, observed.step.case_of(condition.decisions))
    return [run for run in runs if run.has_attempt and work.has_objects]


def are_reused(
    targets: Iterable[int], ctx: PlanContext, *, as_before: JobFlow | None = None
) -> bool:
    """Whether all targets have ended, and no job of them, or of what they depend on if they have no
    job, has run here. `as_before`: whether all have also ended as in this flow."""
    left = list(targets)
    seen = set(left)
    while left:
        position = left.pop()
        observed, condition = ctx.observed[position], ctx.shown_to_dependants(position)
        if condition.phase not in ENDED_STEP_PHASES:
            return False
        if as_before is not None:
            before = _ends_before(observed.step.name, as_before)
            if before != _ends_of(position, None, ctx):
                return False
        with_jobs = _runs_with_jobs(position, ctx)
        if not all(run.reason == StepReason.REUSED or run.origin for run in with_jobs):
            return False
        if not with_jobs:
            left += [each for each in ctx.layout.needs[position].targets if each not in seen]
            seen.update(left)
    return True


def _take_result(
    run: ObservedRun, fingerprint: str, source: JobFlow, ctx: PlanContext
) -> RunDecision | None:
    """Take a result of this fingerprint that nothing else has taken."""
    step, notes = run.step, ctx.progress.reusing
    if step.name not in notes.left:
        notes.left[step.name] = _results(step, source, ctx)
    results = notes.left[step.name].get(fingerprint)
    if not fingerprint or not results:
        return None
    old = results[0]
    outputs = take_outputs(f"reused {run.key}", lambda: old.outputs, ctx)
    if isinstance(outputs, OutputsTooLarge):
        return None
    results.popleft()
    notes.has_taken = True
    if step.repeat is not None:
        before = stored_condition(source, step.name)
        runs = [_reused(run, each, source) for each in (before and before.runs) or ()]
        notes.repeats[step.name] = runs[1:]
    return RunDecision(_reused(run, old, source), urgent=True)


def _results(step: Step, source: JobFlow, ctx: PlanContext) -> dict[str, deque[RunCondition]]:
    """Return the results of the step of this name that are left, by fingerprint, in order."""
    found: dict[str, deque[RunCondition]] = {}
    if not any(each.name == step.name for each in source.spec.flows or ()):
        return found
    condition = stored_condition(source, step.name)
    if condition is None:
        return found
    runs: list[RunCondition] = list(condition.runs or (condition,))
    if step.repeat is not None:  # as a whole, or not at all
        runs = runs[:1] if condition.phase == StepPhase.COMPLETED else []
    key = format_job_name(source.metadata.name, step.name)
    stored = ctx.observed[ctx.layout.graph.index[step.name]].stored
    taken = {
        identity_of(each, "", ctx.flow)
        for each in stored.runs or (stored,)
        if each.reason == StepReason.REUSED
    }
    are_needed = step.name in ctx.layout.outputs_needed
    were_read = step.name in compile_flow(source).outputs_needed
    for run in runs:
        may_lack = were_read and run.reason != StepReason.OUTPUTS_MISSING  # it had none
        is_unread = are_needed and run.outputs is None and not may_lack
        is_result = run.phase == StepPhase.COMPLETED and run.fingerprint and not is_unread
        if is_result and identity_of(run, key, source) not in taken:
            found.setdefault(run.fingerprint, deque()).append(run)
    return found


def _reused(run: ObservedRun, old: RunCondition, source: JobFlow) -> RunCondition:
    """Return the condition of a run with an earlier result."""
    key = format_job_name(source.metadata.name, run.step.name)
    first = key if old.index is None else f"{key}-{old.index}"
    name = old.job or format_latest_name(first, old.attempts)
    identity = identity_of(old, key, source)
    condition = run.new_condition(
        phase=StepPhase.COMPLETED,
        reason=StepReason.REUSED,
        message=f"unchanged since {source.metadata.name}",
        job=name,
        fingerprint=old.fingerprint,
        origin="" if identity == digest([source.metadata.uid, name]) else identity,
        attempts=1,
        create_time=old.create_time,
        running_duration=old.running_duration,
        task_status_count=old.task_status_count,
        last_transition_time=old.last_transition_time,
        outputs=old.outputs,
    )
    if run.step.repeat is not None:
        condition = msgspec.structs.replace(condition, index=old.index)
    return condition
