"""`plan`: what to do now about one flow. The table of contents of the rules, and none of them.

The theory. What holds for the flow as a whole is its `lifecycle`: as its status has it, changed by
Commands (`read_commands`) and by time (`flow_timeout`). A step that has begun is judged by what its
vcjobs and the status say (`runs`), one that has not by its targets (`unstarted`), in the order of
the dependencies; what they come to may ask for others to be aborted (`failure_policy`, `daemons`):
then all is decided anew. Of the vcjobs that are to be made those that there is room for are built
(`parallelism`); where one cannot be, all is decided anew, too. The status is put together from
these decisions (`status`), the events are its difference from the stored one (`events`), and what
is deleted is judged by the stored one alone (`retention`, `expiry`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from jobflow.api.control import FailurePolicy
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import Action, DeleteFlow, Event, EventType, Plan
from jobflow.core.planning.context import PlanContext, StepDecision, timed
from jobflow.core.planning.flow import finally_and_daemons
from jobflow.core.planning.flow.cleanup import expires, retention
from jobflow.core.planning.flow.commands import CommandResult, read_commands
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.flow.parallelism import in_room
from jobflow.core.planning.flow.restart import restarted
from jobflow.core.planning.lifecycle import Lifecycle, deadline, stored_course, untouched
from jobflow.core.planning.runs.abort import brings_to_end, left_over, unheard_of
from jobflow.core.planning.runs.step_runs import begun_steps
from jobflow.core.planning.status.events import flow_events, step_events
from jobflow.core.planning.status.flow_state import is_over
from jobflow.core.planning.status.status import flow_status, invalid_status
from jobflow.core.planning.steps.pending import PendingSteps
from jobflow.core.planning.view import View
from jobflow.core.timestamps import truncate_to_second


def plan(flow: JobFlow, view: View, *, now: datetime) -> Plan:
    """What to do about `flow`, as it was read, seeing `view`, at `now` (aware, UTC).

    Pure, deterministic and independent of the order of what it is given; linear in steps, targets
    and vcjobs. Planning again after a plan was carried out and its status stored does nothing.
    """
    if flow.final:
        return _final(flow, view, now)
    ctx = PlanContext(flow, view, now)
    if not view.jobs and not ctx.terminating and untouched(flow):
        if violations := validate_flow(flow, Known()).violations:
            status = invalid_status(ctx, violations)
            events = tuple(flow_events(flow, status))
            return Plan(actions=(), status=status, urgent=True, events=events)
    return _carried_on(ctx)


# ------------------------------------------------------------------------ a flow that is over


def _final(flow: JobFlow, view: View, now: datetime) -> Plan:
    """How it ended is left as it is, unless it is to be retried; vcjobs may still have to go, and
    in the end the flow itself."""
    second = truncate_to_second(now)
    given = read_commands(flow, view, stored_course(flow, second), second, over=lambda: True)
    if given.retry:
        return _retried(flow, given, now)
    kept = retention(flow, view, now)
    lives = any(not job.ended for job in view.jobs.values())
    strays = unheard_of(PlanContext(flow, view, now)) if lives else ()
    status = flow.status
    if given.handled != status.handled_commands:
        status = msgspec.structs.replace(status, handled_commands=given.handled)
    goes, until = _expired(flow, now)
    return Plan(
        actions=(*kept.deletes, *strays, *given.deletes, *goes),
        status=status,
        urgent=given.urgent,
        events=given.events,
        requeue_after=_until((kept.wake_at, until), now),
    )


def _retried(flow: JobFlow, given: CommandResult, now: datetime) -> Plan:
    status = restarted(flow, now, given.handled)
    again = Event(EventType.NORMAL, "FlowRetried", "the flow goes on from the steps that failed")
    return Plan(given.deletes, status, urgent=True, events=(*given.events, again))


def _expired(flow: JobFlow, now: datetime) -> tuple[tuple[Action, ...], datetime | None]:
    """The deletion of the flow if it is due, else when that will be."""
    until = expires(flow)
    if until is None or now < until:
        return (), until
    return (DeleteFlow(flow.metadata.uid),), None


# ------------------------------------------------------------------------ a flow that goes on


def _carried_on(at_first: PlanContext) -> Plan:
    flow, view, now = at_first.flow, at_first.view, at_first.now
    ctx, decisions = _decide(at_first)
    given = read_commands(
        flow, view, ctx.lifecycle, ctx.second, over=lambda: is_over(ctx, decisions)
    )
    course, until = _in_time(given.course, ctx, decisions)
    turns = course != ctx.lifecycle
    if turns:
        ctx, decisions = _decide(replace(at_first, going=course))
    status = flow_status(ctx, decisions, given.handled)
    kept = retention(flow, view, now)
    made = [action for decision in decisions for action in decision.actions]
    reads = dict.fromkeys(read for decision in decisions for read in decision.reads)
    strays = left_over(ctx) if brings_to_end(ctx) else unheard_of(ctx)
    urgent = (
        status.state.phase != flow.status.state.phase
        or kept.urgent
        or given.urgent
        or turns
        or any(decision.urgent for decision in decisions)
        or finally_and_daemons.wait_for_status(ctx, decisions)
    )
    return Plan(
        actions=(*made, *reads, *kept.deletes, *strays, *given.deletes),
        status=status,
        urgent=urgent and status is not flow.status,
        events=(*given.events, *step_events(ctx, decisions), *flow_events(flow, status)),
        requeue_after=_until((kept.wake_at, until, *(d.wake_at for d in decisions)), now),
        probes=tuple(probe for decision in decisions for probe in decision.probes),
    )


def _in_time(
    course: Lifecycle, ctx: PlanContext, decisions: Sequence[StepDecision]
) -> tuple[Lifecycle, datetime | None]:
    """Return the course as the timeout changes it, and when the timeout will be over; None: it
    cannot change anything any more."""
    timeout = ctx.flow.spec.timeout
    until = deadline(timeout, course)
    if timeout is None or until is None or is_over(ctx, decisions):
        return course, None
    return (course, until) if ctx.now < until else (course.timed_out(timeout), None)


def _decide(ctx: PlanContext) -> tuple[PlanContext, list[StepDecision]]:
    """One decision a step, by position, and the ctx in which they were made.

    Which of the vcjobs cannot be made shows when they are built, and may make others fail, stop or
    start; what still cannot then is left to the next plan.
    """
    known, decisions = _judged(ctx)
    made = in_room(known, decisions)
    if made.faults:
        known, decisions = _judged(replace(ctx, faults=made.faults))
        made = in_room(known, decisions)
    return known, timed(known, made.decisions)


def _judged(ctx: PlanContext) -> tuple[PlanContext, list[StepDecision]]:
    """The same with nothing made yet."""
    steps = PendingSteps(ctx, begun_steps(ctx))
    decisions = steps.run()
    if steps.stopping.failed and policy_of(ctx.flow) is FailurePolicy.ABORT:
        spared = steps.stopping.spared(decisions)
        ctx = replace(ctx, aborted_for=steps.stopping.why, spared=spared)
        decisions = _once_more(ctx, steps.known, decisions)
    if ctx.layout.has_daemons and finally_and_daemons.are_done(ctx, decisions):
        ctx = replace(ctx, daemons_done=True)
        decisions = _once_more(ctx, steps.known, decisions)
    return ctx, decisions


def _once_more(
    ctx: PlanContext, begun: Sequence[StepDecision | None], before: Sequence[StepDecision]
) -> list[StepDecision]:
    """The same with more of the ctx known. What has ended after it had begun, and what has failed
    or completed without, is why more is known, and has ended so."""
    known = begun_steps(ctx)
    for position, decision in enumerate(before):
        phase = decision.condition.phase
        ended = phase in ENDED_STEP_PHASES and begun[position] is not None
        if ended or phase in (StepPhase.FAILED, StepPhase.COMPLETED):
            known[position] = decision
            ctx.standing[position] = decision.condition
    return PendingSteps(ctx, known).run()


def _until(moments: Iterable[datetime | None], now: datetime) -> timedelta | None:
    """Return the time until the first moment after `now`. This plan has decided what the others
    change already: another plan at once would decide the same."""
    first = min((moment for moment in moments if moment is not None and now < moment), default=None)
    return None if first is None else first - now
