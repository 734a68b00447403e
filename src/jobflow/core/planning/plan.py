"""`plan`: what to do now about one flow. The table of contents of the rules.

Steps are decided in the order of their dependencies: one that has begun by its vcjobs and the
status (`started`), any other by its targets (`pending`). Decisions may show facts about the flow as
a whole, such as a failure; `_decide` decides all steps again as long as these facts grow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec

from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FINAL_PHASES, JobFlowStatus
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job
from jobflow.core.admission.changes import still_reused
from jobflow.core.admission.validate import find_violations
from jobflow.core.manifests.volume_claims import why_spent
from jobflow.core.planning import reuse
from jobflow.core.planning.actions import DeleteFlow, Event, EventType, Plan
from jobflow.core.planning.context import PlanContext, with_times
from jobflow.core.planning.decision import StepDecision, collect
from jobflow.core.planning.flow import concurrency, finally_and_daemons
from jobflow.core.planning.flow.cleanup import expires, retention
from jobflow.core.planning.flow.commands import CommandResult, read_commands
from jobflow.core.planning.flow.parallelism import in_room
from jobflow.core.planning.flow.restart import restarted
from jobflow.core.planning.flow.volume_claims import ClaimMoves, moves
from jobflow.core.planning.forecast import next_jobs
from jobflow.core.planning.lifecycle import deadline, stored_lifecycle, untouched
from jobflow.core.planning.observed.children import with_facts_of_children
from jobflow.core.planning.observed.identity import without_namesakes
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.pending.step import PendingSteps
from jobflow.core.planning.progress import Facts
from jobflow.core.planning.started.steps import begun_steps, end_strays
from jobflow.core.planning.status.events import flow_events, step_events
from jobflow.core.planning.status.status import (
    flow_status,
    has_ended,
    invalid_status,
    never_begun_status,
)
from jobflow.core.planning.work.approval import open_approvals
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.compiled import compile_flow
from jobflow.core.spec.reuse import find_obstacle, lacks_fingerprints
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.violations import Violation


def plan(flow: JobFlow, view: View, *, now: datetime) -> Plan:
    """Return what to do about `flow`, as it was read, at `now` (aware, UTC).

    The result depends only on the arguments, not on their order. The time is linear in steps,
    targets and vcjobs. After a plan was applied and its status stored, the next plan is empty.
    """
    if flow.final:
        view = without_namesakes(flow, view)
        return _final(with_facts_of_children(flow, view.jobs), view, now)
    ctx = PlanContext.of(flow, view, now)
    # only a flow without a status is judged: rules of a newer version must not end a flow that runs
    if view.violations and is_unjudged(flow, view.jobs):
        status = invalid_status(ctx, view.violations)
        events = tuple(flow_events(flow, status))
        return Plan(actions=(), status=status, urgent=True, events=events)
    at_start, in_vain = ctx, ""
    if flow.spec.reuse is not None or flow.spec.volume_claims:
        bound = _bound(ctx)
        if isinstance(bound, Plan):
            return bound
        at_start, in_vain = bound
    starts, ctx = at_start is not ctx, at_start
    flow, view = ctx.flow, ctx.view  # with params resolved, and without namesakes
    ctx, decisions = _decide(ctx)
    commands = read_commands(
        flow,
        view,
        ctx.facts.lifecycle,
        ctx.second,
        has_ended=lambda: has_ended(ctx, decisions),
        find_open=lambda: open_approvals(ctx, decisions),
        find_condition=lambda name: decisions[ctx.layout.graph.index[name]].condition,
    )
    if commands.status is not None:
        return _by_hand(commands, commands.status)
    lifecycle = commands.lifecycle
    if view.parent is not None or lifecycle.suspended_at is not None:
        lifecycle = lifecycle.with_parent(view.parent, ctx.second)
    times_out_at = deadline(flow.spec.timeout, lifecycle) if flow.spec.timeout else None
    if times_out_at is not None and has_ended(ctx, decisions):
        times_out_at = None
    if times_out_at is not None and times_out_at <= now:
        lifecycle, times_out_at = lifecycle.timed_out(flow.spec.timeout or ""), None
    if lifecycle.waits:
        lifecycle = concurrency.with_place(ctx, lifecycle)
    # Commands and timeouts read the decisions, and may change them: decide once more
    changes = lifecycle != ctx.facts.lifecycle or bool(commands.answers)
    if changes:
        ctx, decisions = _decide(ctx.with_facts(Facts(lifecycle, commands.answers)))
    claims = ClaimMoves(names=flow.status.reused_claims)
    if flow.status.reuse is not None:
        claims = moves(ctx)
    status = flow_status(ctx, decisions, claims, next_jobs(ctx, decisions), commands.handled)
    # deletes follow from the stored status, not from the one of this plan
    kept = retention(flow, view, now)
    # a flow that waits for a place may cancel those that have one
    replaced = concurrency.replace_others(ctx) if lifecycle.waits else concurrency.Replaced()
    is_final = status.state.phase in FINAL_PHASES
    continues = (
        kept.urgent
        or commands.urgent
        or changes
        or claims.are_under_way
        or any(map(attrgetter("urgent"), decisions))
        or (ctx.layout.finally_names and finally_and_daemons.wait_for_status(ctx, decisions))
        or is_final  # the cleanup follows
    )
    # without a new status nothing can wait for its write
    is_news = status is not flow.status
    # other flows wait for places, and for the phase those who follow the flow
    is_awaited = (status.state.phase, status.places) != (
        flow.status.state.phase,
        flow.status.places,
    )
    moments = [kept.wake_at, times_out_at, replaced.again_at, claims.retry_at]
    moments += filter(None, map(attrgetter("wake_at"), decisions))
    if flow.spec.outputs and not is_final and not ctx.terminating and has_ended(ctx, decisions):
        moments.append(ctx.later)  # this plan could not evaluate the outputs any more
    return Plan(
        actions=(
            *(() if starts else claims.actions),
            *collect(decisions, "actions"),
            *dict.fromkeys(collect(decisions, "reads")),
            *kept.deletes,
            *end_strays(ctx),
            *commands.deletes,
            *replaced.cancels,
        ),
        status=status,
        urgent=is_news and (continues or is_awaited),
        continues=is_news and continues,
        events=(
            *commands.events,
            *claims.events,
            *step_events(ctx, decisions),
            *flow_events(flow, status, in_vain),
        ),
        requeue_after=time_until(moments, now),
        wants=collect(decisions, "wants"),
        only_ends_matter=ctx.layout.only_ends_matter,
    )


def _bound(ctx: PlanContext) -> tuple[PlanContext, str] | Plan:
    """Decide, when a flow starts, which flow it reuses and how its volume claims are named. Return
    the context, and why nothing is reused, or ""; the plan of its end if it must not start."""
    flow, view, source, in_vain = ctx.flow, ctx.view, None, ""
    if _is_bound(flow, view):
        return ctx, ""
    if flow.spec.reuse is not None:
        spent = "" if view.source is None else why_spent(view.source, view.claim_takers)
        obstacle = find_obstacle(flow, view.source, spent)
        # a status that was lost is made anew, whatever has become of that flow
        if obstacle and not (flow.is_child or view.jobs):
            status = never_begun_status(ctx, FlowReason.REUSE_NOT_FOUND, f"spec.reuse: {obstacle}")
            return Plan((), status, urgent=True, events=tuple(flow_events(flow, status)))
        source = None if obstacle else view.source
        if obstacle is not None:
            in_vain = obstacle.why
        elif source is not None and lacks_fingerprints(source):
            in_vain = f"the status of flow {source.metadata.name} has no fingerprints"
    if source is None and not flow.spec.volume_claims:
        return ctx, in_vain
    return ctx.at_start(source), in_vain


def _is_bound(flow: JobFlow, view: View) -> bool:
    """Whether it is decided which flow this one reuses. A retry of one that has failed because of
    that, so that nothing has begun, decides again."""
    if flow.spec.reuse is None or flow.status.reuse is not None or flow.is_child or view.jobs:
        return not untouched(flow)
    return any(condition.attempts for condition in (flow.status.conditions or {}).values())


def is_unjudged(flow: JobFlow, jobs: Mapping[str, Job]) -> bool:
    """Whether a flow has not begun, so that the View for its plan needs the verdict of `judge`."""
    return not jobs and flow.metadata.deletion_timestamp is None and untouched(flow)


def judge(flow: JobFlow, most: float = math.inf) -> Sequence[Violation] | None:
    """Return the violations of a flow that may have been stored without review; None if it is more
    effort to find them than `most`."""
    return find_violations(flow, compile_flow(flow).outline_of_flows, most)


def _final(flow: JobFlow, view: View, now: datetime) -> Plan:
    """Retry an ended flow if a Command says so, else delete vcjobs that are due, last the flow."""
    second = truncate_to_second(now)
    lifecycle = stored_lifecycle(flow, second)
    commands = read_commands(flow, view, lifecycle, second, has_ended=lambda: True)
    if commands.retry is not None:
        tolerated = commands.retry is Action.RETRY_TOLERATED
        status = restarted(flow, view, now, commands.handled, tolerated=tolerated)
        message = "the steps that failed run again, and all that depends on them"
        events = (*commands.events, Event(EventType.NORMAL, "FlowRetried", message))
        return Plan(commands.deletes, status, urgent=True, continues=True, events=events)
    if commands.status is not None:
        return _by_hand(commands, commands.status)
    kept = retention(flow, view, now)
    # most ended flows have no job that runs
    lives = any(not job.ended for job in view.jobs.values())
    strays = end_strays(PlanContext.of(flow, view, now)) if lives else ()
    status = flow.status
    if commands.handled != status.handled_commands:
        status = msgspec.structs.replace(status, handled_commands=commands.handled)
    is_kept = view.is_awaited or still_reused(flow.metadata, view.reused_by)
    until = None if is_kept else expires(flow)
    expired = until is not None and until <= now
    deletes = (DeleteFlow(flow.metadata.uid),) if expired else ()
    return Plan(
        actions=(*kept.deletes, *strays, *commands.deletes, *deletes),
        status=status,
        urgent=commands.urgent,
        continues=commands.urgent,
        events=commands.events,
        requeue_after=time_until((kept.wake_at, until), now),
    )


def _by_hand(commands: CommandResult, status: JobFlowStatus) -> Plan:
    """Store what a Command on steps says; the next plan acts on it."""
    status = msgspec.structs.replace(status, handled_commands=commands.handled)
    return Plan(commands.deletes, status, urgent=True, continues=True, events=commands.events)


def _decide(ctx: PlanContext) -> tuple[PlanContext, list[StepDecision]]:
    """Return one decision a step, by position, and the context with all facts.

    Every step is decided again while the facts grow. That ends: a round adds a step that fails to
    `ended`, or sets one of four fields that are set once. Vcjobs that the last round finds to be
    impossible are left to the next plan.
    """
    while True:
        steps = PendingSteps(ctx, begun_steps(ctx))
        decisions = steps.run()
        facts, stop, layout = ctx.facts, steps.stopping, ctx.layout
        aborts = stop.is_active and stop.policy is FailurePolicy.ABORT
        daemons = frozenset[int]()
        if layout.has_daemons and not facts.ending_daemons:
            daemons = finally_and_daemons.ending_daemons(ctx, decisions)
        if steps.failing:
            grown = facts
        elif aborts and stop.failed and not facts.aborted_for:
            grown = replace(facts, aborted_for=stop.why, spared=stop.spared())
        elif aborts and not (stop.failed or facts.failing):
            grown = replace(facts, failing=stop.pause)
        elif daemons:
            names = frozenset(layout.steps[position].name for position in daemons)
            grown = replace(facts, ending_daemons=names)
        else:
            if ctx.source is not None:
                decisions = reuse.noted(decisions, ctx)
            made = in_room(ctx, decisions)
            if not made.faults or facts.faults:
                return ctx, with_times(ctx, made.decisions)
            grown = replace(facts, faults=made.faults)
        ctx = ctx.with_facts(replace(grown, ended=steps.ended()))


def time_until(moments: Iterable[datetime | None], now: datetime) -> timedelta | None:
    """Return the time until the first moment after `now`; this plan decides all before."""
    first = min((moment for moment in moments if moment is not None and now < moment), default=None)
    return None if first is None else first - now
