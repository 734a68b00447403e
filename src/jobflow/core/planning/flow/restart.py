"""Retry of an ended flow: which steps run again, and the status from which it continues.

By itself, everything runs again that did not end well, and so does `finally`. Whatever depends on
something that runs again, directly or through others, runs again too, under any condition; with
`items: Matching` only the same items. By itself stays what has completed, what was not taken, and a
failure that continueOnFailure tolerates, unless the flow ended the run (a cancel, its timeout,
Abort) or tolerated failures are to run again. A rejected approval asks again. A daemon that was
ended with its flow is started again if a step that runs again needs it, and makes nothing else run
again.

Steps that run again go back to Waiting, without their decisions. Nothing is started here.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Condition, Step
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.lifecycle import deadline
from jobflow.core.planning.observed.children import goes_on, hours_of
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import WITH_THE_FLOW, StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import StepEnd, get_end
from jobflow.core.text import format_progress
from jobflow.core.work import is_asked, work_of_object

C = TypeVar("C", bound=api.RunCondition)
_NONE: frozenset[int] = frozenset()
_PASSED_OVER = frozenset({StepReason.NOT_TAKEN, StepReason.NOT_TARGETED})


class Again(NamedTuple):
    """The extent to which a step runs again."""

    kept: frozenset[int]
    """Indices of the items or repeats that stay."""
    unaffected: frozenset[int] | None
    """Indices of the runs before which nothing runs again; None: that is so for all of them."""

    def goes_on(self, index: int | None) -> bool:
        """Return whether a child flow of this run is retried instead of made anew."""
        return self.unaffected is None or index in self.unaffected


_ANEW = Again(_NONE, _NONE)


def find_runs_again(
    ctx: PlanContext, jobs: Mapping[str, Job], *, tolerated: bool = False
) -> dict[int, Again]:
    """Return the steps of an ended flow that a retry runs again, by position. `jobs`: its vcjobs
    and child flows, by name; `tolerated`: tolerated failures run again too."""
    found: dict[int, Again] = {}
    judge = _Judge(ctx, jobs, tolerated=tolerated)
    for position in ctx.layout.order:
        if (again := judge.decide(position, found)) is not None:
            found[position] = again
    # daemons that ended with the flow, and that these need running, directly or through others
    seen, work = set(found), list(found)
    while work:
        need = ctx.layout.needs[work.pop()]
        for target, want in zip(need.targets, need.wants, strict=True):
            may_be_over = need.probe is None and want is not Condition.RUNNING
            if target in seen or (ctx.layout.steps[target].daemon and may_be_over):
                continue
            seen.add(target)
            work.append(target)
            if ctx.observed[target].stored.reason == StepReason.DAEMON_ENDED:
                found[target] = Again(_NONE, None)
    return {position: found[position] for position in sorted(found)}


class _Judge:
    """Decides about one step after another, in the order of their dependencies."""

    def __init__(self, ctx: PlanContext, jobs: Mapping[str, Job], *, tolerated: bool) -> None:
        self._ctx = ctx
        self._jobs = jobs
        self._tolerated = tolerated
        running = replace(ctx.facts.lifecycle, ending_reason="")
        self._deadline = deadline(ctx.flow.spec.timeout, running)
        """When the timeout of the flow has ended it, if it has."""

    def decide(self, position: int, before: Mapping[int, Again]) -> Again | None:
        """Return how a step runs again, or None if it stays. `before`: those before it that do."""
        ctx, observed = self._ctx, self._ctx.observed[position]
        if position in ctx.layout.left_out:
            return None
        # `finally` runs once for each end of the flow
        if position >= ctx.layout.last_from:
            return _ANEW
        unaffected: frozenset[int] | None = None
        need = ctx.layout.needs[position]
        for target in need.targets:
            if target not in before:
                continue
            if target not in need.matched:
                return _ANEW
            # an item is made anew only if its own item upstream is
            same = before[target].kept
            unaffected = same if unaffected is None else unaffected & same
        if observed.step.fan_out is not None:
            return self._items(observed, unaffected)
        if unaffected is not None:
            return _ANEW
        # a repeat runs again from the first run that does not stay, or from its first run if there
        # is none; so does a step without runs of its own
        step, stored = observed.step, observed.stored
        runs = stored.runs or ()
        first = next((run.index or 0 for run in runs if not self._stays(step, run)), None)
        if first is None:
            return None if self._stays(step, stored) else Again(_NONE, None)
        return Again(frozenset(range(first)), frozenset(range(first + 1)))

    def _items(self, observed: ObservedStep, unaffected: frozenset[int] | None) -> Again | None:
        step, stored = observed.step, observed.stored
        runs = stored.runs or ()
        kept = frozenset(run.index or 0 for run in runs if self._stays(step, run))
        if stored.phase == api.StepPhase.FAILED:
            items = get_items(step, stored.decisions)
            stays = bool(items) and kept.issuperset(range(len(items or ())))
        else:
            stays = self._stays(step, stored) and len(kept) == len(runs)
        if unaffected is None:
            return None if stays else Again(kept, None)
        return Again(kept & unaffected, unaffected)

    def _stays(self, step: Step, run: api.RunCondition) -> bool:
        """Return whether a step or a run stays, if nothing that it depends on runs again."""
        if run.phase == api.StepPhase.COMPLETED:
            return not goes_on(self._jobs.get(run.job), tolerated=self._tolerated)
        if run.phase == api.StepPhase.SKIPPED:
            return run.reason in _PASSED_OVER
        if self._tolerated or is_asked(step):
            return False
        is_tolerated = get_end(step, run, is_cancelled=False) is StepEnd.TOLERATED
        if not is_tolerated or run.reason in WITH_THE_FLOW:
            return False
        if run.reason != api.TIMEOUT or self._ctx.facts.lifecycle.ending_reason != api.TIMEOUT:
            return True
        # the timeout of a step and that of the flow have the same reason
        ended = run.last_transition_time
        return ended is not None and self._deadline is not None and ended < self._deadline


def restarted(
    flow: JobFlow, view: View, now: datetime, handled: list[str] | None, *, tolerated: bool = False
) -> api.JobFlowStatus:
    """Return the status from which an ended flow continues. `handled`: UIDs of Commands."""
    # by the status alone: it holds the end of every run
    ctx = PlanContext.of(flow, View(), now)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    for position, again in find_runs_again(ctx, view.jobs, tolerated=tolerated).items():
        last = ctx.observed[position].stored
        runs = [
            msgspec.structs.replace(run, past_attempts=run.attempts)
            if run.index in again.kept
            else api.RunCondition(index=run.index, **_kept_fields(run))
            for run in last.runs or ()
            if run.attempts or run.index in again.kept
        ]
        condition = api.StepCondition(
            last_transition_time=ctx.second, runs=runs or None, **_kept_fields(last)
        )
        if ctx.layout.runs_steps[position] and not runs:
            condition = _with_child(condition, view, again, tolerated=tolerated)
        elif ctx.layout.runs_steps[position]:
            retried = [_with_child(run, view, again, tolerated=tolerated) for run in runs]
            total = condition.requested_hours
            for before, after in zip(runs, retried, strict=True):
                total = replace_hours(total, before.requested_hours, after.requested_hours)
            condition = msgspec.structs.replace(condition, runs=retried, requested_hours=total)
        conditions[ctx.observed[position].key] = condition
    conditions = {
        key: with_job_as_child(condition, step, ctx)
        for step, (key, condition) in zip(ctx.layout.steps, conditions.items(), strict=True)
    }
    stored = flow.status
    # by this number, child flows know whether a retry is about them too
    retries = stored.retries
    if view.parent is not None:
        retries = view.parent.status.retries
    elif ctx.layout.has_children:
        retries += 1
    waits = flow.spec.concurrency is not None
    records = () if waits else stored.job_status_list or ()
    begun = any(record.state != JobPhase.PENDING for record in records) or (
        not waits and any(not work_of_object(job).is_recorded for job in view.jobs.values())
    )
    return msgspec.structs.replace(
        stored,
        state=api.FlowState(phase=api.FlowPhase.RUNNING if begun else api.FlowPhase.PENDING),
        progress=format_progress(conditions.values()),
        queued_time=ctx.second if waits else None,
        start_time=None if waits else ctx.second,
        completion_time=None,
        duration="",
        observed_generation=flow.metadata.generation,
        conditions=conditions,
        next_jobs=None,
        suspended_seconds=None,
        suspended_at=None,
        suspended_by="",
        finally_cancelled=False,
        volume_claims=None,
        outputs=None,
        retries=retries,
        tolerated_retried=tolerated,
        tolerated_in_children=False,
        handled_commands=handled,
    )


def _with_child(run: C, view: View, again: Again, *, tolerated: bool) -> C:
    child = view.jobs.get(run.job)
    if run.phase != api.StepPhase.WAITING or child is None or not work_of_object(child).has_steps:
        return run
    if not (again.goes_on(run.index) and goes_on(child, tolerated=tolerated)):
        return msgspec.structs.replace(run, job="")  # without its name, a child is made anew
    # the hours of the child are added again when it ends
    hours = replace_hours(run.requested_hours, hours_of(child), None)
    return msgspec.structs.replace(run, requested_hours=hours)


def is_retried_with(child: JobFlow, parent: JobFlow | None) -> bool:
    """Return whether the stored status of the parent lets a child flow that has ended run again."""
    if parent is None or parent.final or parent.status.retries == child.status.retries:
        return False
    return any(
        run.flow == child.metadata.name
        and run.phase == api.StepPhase.WAITING
        and run.attempts == run.past_attempts
        for condition in (parent.status.conditions or {}).values()
        for run in condition.runs or (condition,)
    )


def _kept_fields(stored: api.RunCondition) -> dict[str, Any]:
    return {
        "phase": api.StepPhase.WAITING,
        "message": "runs again, because the flow was retried",
        "job": stored.job,
        "attempts": stored.attempts,
        "past_attempts": stored.attempts,
        "requested_hours": stored.requested_hours,
    }
