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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.by_hand import ByHand, HandedDown
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Condition, Step
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.lifecycle import deadline
from jobflow.core.planning.observed.children import goes_on, hours_of
from jobflow.core.planning.observed.failed_attempts import keep_newest, with_failed_attempt
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import WITH_THE_FLOW, StepReason
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import StepEnd, get_end, is_bad_skip
from jobflow.core.text import format_progress
from jobflow.core.work import is_asked, may_run_steps, work_of_object

C = TypeVar("C", bound=api.RunCondition)
_NONE: frozenset[int] = frozenset()
_RETRIED = "the flow was retried"


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
Named = Mapping[int, frozenset[int] | None]
"""The steps that a user names, by position: the indices of items; None: the whole step."""


class ByHandScope(NamedTuple):
    """What a Command on steps runs again or settles in a flow."""

    named: Named
    """What runs again."""
    settled: Mapping[int, api.StepCondition] = {}
    """The conditions of steps that are settled, by position."""
    continued: frozenset[str] = frozenset()
    """The child flows that go on, because steps of them run again or are settled."""
    why: str = ""
    """Why steps run again, as a clause."""
    is_running: bool = False
    """Whether the flow has not ended."""


def find_runs_again(
    ctx: PlanContext,
    jobs: Mapping[str, Job],
    *,
    tolerated: bool = False,
    scope: ByHandScope | None = None,
) -> dict[int, Again]:
    """Return the steps that a retry runs again, by position. `jobs`: the vcjobs and child flows of
    the flow, by name; `tolerated`: tolerated failures run again too; `scope`: by itself runs only
    what a user names, and what was skipped because of that."""
    found: dict[int, Again] = {}
    judge = _Judge(ctx, jobs, tolerated=tolerated, scope=scope)
    for position in ctx.layout.order:
        if (again := judge.decide(position, found)) is not None:
            found[position] = again
    # daemons that ended with the flow, and that these need running, directly or through others
    for position in find_reachable(partial(_needed, ctx), found).difference(found):
        if ctx.observed[position].stored.reason == StepReason.DAEMON_ENDED:
            found[position] = Again(_NONE, None)
    return {position: found[position] for position in sorted(found)}


def _needed(ctx: PlanContext, position: int) -> Iterator[int]:
    """Yield the targets of a step, without the daemons that it needs not to run."""
    need = ctx.layout.needs[position]
    for target, want in zip(need.targets, need.wants, strict=True):
        if not ctx.layout.steps[target].daemon or need.probe or want is Condition.RUNNING:
            yield target


class _Judge:
    """Decides about one step after another, in the order of their dependencies."""

    def __init__(
        self,
        ctx: PlanContext,
        jobs: Mapping[str, Job],
        *,
        tolerated: bool,
        scope: ByHandScope | None,
    ) -> None:
        self._ctx = ctx
        self._scope = scope
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
        scope = self._scope
        # `finally` runs once for each end of the flow
        if position >= ctx.layout.last_from and not (scope and scope.is_running):
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
        if observed.step.fan_out is not None and scope is not None:
            return self._named_items(observed, scope, position, unaffected)
        if observed.step.fan_out is not None:
            return self._items(observed, unaffected)
        if unaffected is not None:
            return _ANEW
        if scope is not None:
            runs_again = position in scope.named or self._was_skipped_for_it(
                position, observed.stored
            )
            return Again(_NONE, None) if runs_again else None
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
        completed = stored.phase == api.StepPhase.COMPLETED
        kept = frozenset(
            run.index or 0
            for run in runs
            # a step that has completed tolerates what is missing
            if self._stays(step, run)
            or (completed and run.phase == api.StepPhase.SKIPPED)
            or (completed and run.phase == api.StepPhase.FAILED and not self._tolerated)
        )
        if stored.phase == api.StepPhase.FAILED:
            items = get_items(step, stored.decisions)
            stays = bool(items) and kept.issuperset(range(len(items or ())))
        else:
            stays = self._stays(step, stored) and len(kept) == len(runs)
        if unaffected is None:
            return None if stays else Again(kept, None)
        return Again(kept & unaffected, unaffected)

    def _named_items(
        self,
        observed: ObservedStep,
        scope: ByHandScope,
        position: int,
        unaffected: frozenset[int] | None,
    ) -> Again | None:
        stored, named = observed.stored, scope.named.get(position, _NONE)
        if named is None or self._was_skipped_for_it(position, stored):
            return Again(_NONE, unaffected)
        runs = {run.index or 0: run for run in stored.runs or ()}
        again = named.union(i for i, run in runs.items() if self._was_skipped_for_it(position, run))
        items = get_items(observed.step, stored.decisions)
        kept = frozenset(range(len(items or ()))).union(runs) - again
        if unaffected is None:
            return Again(kept, None) if again else None
        return Again(kept & unaffected, unaffected)

    def _was_skipped_for_it(self, position: int, run: api.RunCondition) -> bool:
        """Return whether a run was skipped for what a user settles now, or for any failure."""
        if run.phase != api.StepPhase.SKIPPED or self._scope is None:
            return False
        settled = self._scope.settled
        is_settled = position in settled or any(
            target in settled for target in self._ctx.layout.needs[position].targets
        )
        return run.reason == StepReason.STOPPED or (
            run.reason == StepReason.UPSTREAM_FAILED and is_settled
        )

    def _stays(self, step: Step, run: api.RunCondition) -> bool:
        """Return whether a step or a run stays, if nothing that it depends on runs again."""
        if run.phase == api.StepPhase.COMPLETED:
            return not goes_on(self._jobs.get(run.job), tolerated=self._tolerated)
        if run.phase == api.StepPhase.SKIPPED:
            return not is_bad_skip(run)
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
    flow: JobFlow,
    view: View,
    now: datetime,
    handled: list[str] | None,
    *,
    tolerated: bool = False,
    scope: ByHandScope | None = None,
) -> api.JobFlowStatus:
    """Return the status from which an ended flow continues. `handled`: UIDs of Commands; `scope`:
    what a user has named."""
    # by the status alone: it holds the end of every run
    ctx = PlanContext.of(flow, View(), now)
    found = find_runs_again(ctx, view.jobs, tolerated=tolerated, scope=scope)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    if scope is not None:
        conditions |= {ctx.layout.keys[p]: each for p, each in scope.settled.items()}
    for position, again in found.items():
        condition = reset(ctx, position, again, view, tolerated=tolerated, scope=scope)
        conditions[ctx.layout.keys[position]] = condition
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
        queued_time=ctx.second if ctx.layout.queues else None,
        start_time=None if waits else ctx.second,
        completion_time=None,
        duration="",
        observed_generation=flow.metadata.generation,
        conditions=keep_newest(conditions),
        next_jobs=None,
        suspended_seconds=None,
        suspended_at=None,
        suspended_by="",
        finally_cancelled=False,
        volume_claims=None,
        outputs=None,
        places=None,
        retries=retries,
        tolerated_retried=tolerated,
        tolerated_in_children=False,
        by_hand=kept_orders(ctx, found),
        handed_down=None if scope is None else stored.handed_down,
        handled_commands=handled,
    )


def handed_down_to(child: JobFlow, parent: JobFlow | None) -> Iterator[HandedDown]:
    """Yield the Commands on steps that a child flow has to take over from its parent."""
    for entry in (parent.status.handed_down if parent is not None else None) or ():
        if entry.flow == child.metadata.name and entry.number > child.status.taken_over:
            yield entry


def kept_orders(ctx: PlanContext, found: Mapping[int, Again]) -> list[ByHand] | None:
    """Return what users have done by hand to steps and items that do not run again."""
    names = ctx.layout.graph.names
    again = {names[position]: how.kept for position, how in found.items()}
    scaled = [each for each in ctx.flow.status.by_hand or () if each.action == Action.SCALE_FLOW]
    left = [
        order
        for key, order in ctx.orders.items()
        if key.step not in again or key.index in again[key.step]
    ]
    return [*scaled, *left] or None


def reset(
    ctx: PlanContext,
    position: int,
    again: Again,
    view: View,
    *,
    tolerated: bool = False,
    scope: ByHandScope | None = None,
) -> api.StepCondition:
    """Return the condition of a step that runs again, with the runs that stay."""
    last, why = ctx.observed[position].stored, _RETRIED if scope is None else scope.why
    condition = step_again(last, ctx.second, again.kept, why)
    # tolerated items run again although enough others have completed
    is_tolerant = ctx.observed[position].step.tolerates_items
    is_named = tolerated and is_tolerant and last.phase == api.StepPhase.COMPLETED
    if condition.runs and again.kept and (scope is not None or is_named):
        runs = [
            run if run.index in again.kept else msgspec.structs.replace(run, retried_by_hand=True)
            for run in condition.runs
        ]
        condition = msgspec.structs.replace(condition, runs=runs)
    if not ctx.layout.runs_steps[position]:
        return condition
    with_child = partial(_with_child, view=view, again=again, tolerated=tolerated, scope=scope)
    if not condition.runs:
        return with_child(condition)
    retried = [with_child(run) for run in condition.runs]
    total = condition.requested_hours
    for before, after in zip(condition.runs, retried, strict=True):
        total = replace_hours(total, before.requested_hours, after.requested_hours)
    return msgspec.structs.replace(condition, runs=retried, requested_hours=total)


def step_again(
    last: api.StepCondition,
    now: datetime,
    kept: frozenset[int] = _NONE,
    why: str = "",
    *,
    anew: bool = False,
) -> api.StepCondition:
    """Return the condition of a step that runs again, after `last`. `kept`: the runs that stay;
    `anew`: whether the names of its objects are dropped, so that no child flow goes on."""
    runs = [
        msgspec.structs.replace(run, past_attempts=run.attempts)
        if run.index in kept
        else api.RunCondition(index=run.index, **_kept_fields(run, why, anew=anew))
        for run in last.runs or ()
        if run.attempts or run.index in kept
    ]
    fields = _kept_fields(last, why, anew=anew)
    return api.StepCondition(last_transition_time=now, runs=runs or None, **fields)


def run_again(run: ObservedRun, last: api.RunCondition) -> api.RunCondition:
    """Return the condition of a run that runs again after it was ended. `last`: its end."""
    fields = _kept_fields(last, "", anew=may_run_steps(run.step))
    is_item = run.index is not None
    return type(run.stored)(
        index=run.index, last_transition_time=run.now, retried_by_hand=is_item, **fields
    )


def runs_again_by_hand(run: api.RunCondition) -> bool:
    """Return whether an item has yet to run again because a user wants it to."""
    return run.retried_by_hand and run.is_left_over and run.phase == api.StepPhase.WAITING


def _with_child(
    run: C, view: View, again: Again, *, tolerated: bool, scope: ByHandScope | None
) -> C:
    child = view.jobs.get(run.job)
    if run.phase != api.StepPhase.WAITING or child is None or not work_of_object(child).has_steps:
        return run
    goes = again.goes_on(run.index) and goes_on(child, tolerated=tolerated)
    if scope is not None:
        # while their flow runs, only those go on of which a user has named steps
        goes = run.job in scope.continued or (goes and not scope.is_running)
    if not goes:
        return msgspec.structs.replace(run, job="")  # without its name, a child is made anew
    # the hours of the child are added again when it ends
    hours = replace_hours(run.requested_hours, hours_of(child), None)
    return msgspec.structs.replace(run, requested_hours=hours)


def is_retried_with(child: JobFlow, parent: JobFlow | None) -> bool:
    """Return whether the stored status of the parent lets a child flow that has ended run again."""
    if parent is None or parent.final:
        return False
    if parent.status.retries == child.status.retries and not any(handed_down_to(child, parent)):
        return False
    return any(
        run.flow == child.metadata.name
        and run.phase == api.StepPhase.WAITING
        and run.attempts == run.past_attempts
        for condition in (parent.status.conditions or {}).values()
        for run in condition.runs or (condition,)
    )


def _kept_fields(stored: api.RunCondition, why: str, *, anew: bool) -> dict[str, Any]:
    return {
        "phase": api.StepPhase.WAITING,
        "message": f"runs again, because {why}" if why else "runs again",
        "job": "" if anew else stored.job,
        "attempts": stored.attempts,
        "past_attempts": stored.attempts,
        "failed_attempts": with_failed_attempt(stored),
        "requested_hours": stored.requested_hours,
    }
