"""Explanations of `jobflow why cjf/NAME`: when the next flow starts, and what prevents it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.core.cron import (
    MAX_MISSED,
    ScheduleFault,
    format_scheduled_time,
    parse_schedule,
    parse_zone,
    scheduled_name,
)
from jobflow.core.planning.cron import CreateFlow, CronPlan, plan_cron
from jobflow.core.text import format_command, format_count, format_duration, join_names, to_sentence


@dataclass(frozen=True, slots=True)
class CronExplanation:
    """An explanation of a CronJobFlow."""

    next: datetime | None
    """The next scheduled time; None while it is suspended, or if its schedule is invalid."""
    reasons: tuple[str, ...]
    """Why no flow starts at present, as in its Events."""
    sentences: tuple[str, ...]


def explain_cron(cron: CronJobFlow, flows: Sequence[JobFlow], now: datetime) -> CronExplanation:
    """Explain a CronJobFlow by its status and the flows that it controls."""
    plan, following = plan_cron(cron, flows, now), _next(cron, now)
    reasons = tuple(notice.reason for notice in plan.notices)
    return CronExplanation(
        following,
        ("Suspended",) if cron.suspended else reasons,
        tuple(_describe(cron, flows, plan, following, now)),
    )


def _next(cron: CronJobFlow, now: datetime) -> datetime | None:
    if cron.suspended or cron.metadata.deletion_timestamp is not None:
        return None
    try:
        schedule = parse_schedule(cron.spec.schedule or "", cron.spec.time_zone)
    except ScheduleFault:
        return None
    # a time that was scheduled already is not due again
    found = schedule.next(max(now, cron.status.last_schedule_time or now))
    return None if found is None else found.astimezone(schedule.zone)


def _describe(
    cron: CronJobFlow,
    flows: Sequence[JobFlow],
    plan: CronPlan,
    following: datetime | None,
    now: datetime,
) -> Iterator[str]:
    name = f"CronJobFlow {cron.metadata.name}"
    if cron.metadata.deletion_timestamp is not None:
        yield f"{name} is being deleted."
    elif cron.suspended:
        resume = format_command("jobflow resume", cron.metadata, kind="cjf")
        yield f"{name} is suspended, so no flow starts: {resume} resumes it."
    elif following is not None:
        time = format_scheduled_time(following)
        yield f"{name} is next due at {time}, in {format_duration(following - now)}."
    for notice in plan.notices:
        yield to_sentence(notice.message)
    if 1 < plan.due <= MAX_MISSED:  # of more, a notice says so
        yield f"{plan.due} scheduled times are due, and get their flows one after the other."
    if (replacing := plan.status.replacing_for) is not None:
        name = scheduled_name(cron.metadata.name, replacing)
        yield f"Flow {name} starts when the flows that are cancelled for it have finished."
    starting = [action.name for action in plan.actions if isinstance(action, CreateFlow)]
    known = {cron.status.waits_for, *(flow.metadata.name for flow in flows)}
    if (announced := plan.status.waits_for) is not None and announced not in known:
        starting.append(announced)
    for name in starting:
        events = format_command("kubectl describe cjf", cron.metadata)
        yield (
            f"Flow {name} is due and starts now; if it does not, {events} shows why, "
            "and `jobflow doctor` whether a replica runs."
        )
    active = [flow.metadata.name for flow in flows if not flow.final]
    if active:
        yield f"{format_count(len(active), 'flow')} active: {join_names(sorted(active))}."
    last, success = cron.status.last_schedule_time, cron.status.last_successful_time
    if last is None:
        yield "No flow has been scheduled yet."
    else:
        try:
            last = last.astimezone(parse_zone(cron.spec.time_zone))
        except ScheduleFault:
            pass  # the faults of the schedule are among the notices of the plan
        succeeded = "no flow has succeeded yet"
        if success is not None:
            succeeded = f"a flow last succeeded {format_duration(now - success)} ago"
        time = format_scheduled_time(last)
        yield f"The last scheduled time with a flow was {time}; {succeeded}."
    ended = [flow for flow in flows if flow.final]
    newest = max(ended, key=lambda flow: flow.status.completion_time or now, default=None)
    if newest is not None and newest.status.state.phase == FlowPhase.FAILED:
        why = format_command("jobflow why", newest.metadata)
        yield f"The flow that ended last has failed: {why} explains it."
