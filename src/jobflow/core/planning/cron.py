"""plan_cron: which flows a CronJobFlow starts, cancels and deletes now, and when to look again.

The rules are those of the `batch/v1` CronJob controller (k8s.io/kubernetes,
pkg/controller/cronjob/cronjob_controllerv2.go), with three differences: Replace cancels flows and
waits for their end, flows of a backfill stay out of the history limits, and there is Wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from jobflow.api.flow import cronjobflow as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import CANCELLED, FlowPhase
from jobflow.api.labels import SKIP
from jobflow.api.resources import JOBFLOWS
from jobflow.core import cron as schedules
from jobflow.core.admission.changes import still_reused
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.reasons import FlowReason
from jobflow.core.text import format_command, join_names

LONGEST_WAIT = timedelta(minutes=1)
"""Longest time until the next plan: somebody may set the clock in the meantime."""
MAX_ACTIVE = 100
"""Active flows that a status names, the oldest first; a backfill may start a thousand."""
_MOST_DEADLINE = 1_000 * 365 * 24 * 3600
"""Seconds beyond which a deadline is none."""


@dataclass(frozen=True, slots=True)
class CreateFlow:
    """Create this flow, if the CronJobFlow has not changed since the plan was made."""

    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplaceFlow:
    """Send TerminateJob to this flow."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RemoveFlow:
    """Delete this finished flow if it has not changed since the plan was made."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ForgetSkip:
    """Remove the annotation SKIP: the status has what follows from it."""


CronAction = CreateFlow | ReplaceFlow | RemoveFlow | ForgetSkip


@dataclass(frozen=True, slots=True)
class CronPlan:
    """Everything to do now for one CronJobFlow."""

    status: api.CronJobFlowStatus
    actions: tuple[CronAction, ...] = ()
    events: tuple[Event, ...] = ()
    """Changes from the stored status."""
    notices: tuple[Event, ...] = ()
    """Conditions that last: each plan has them again."""
    requeue_after: timedelta | None = None
    """None: only an event can change anything."""
    due: int = 0
    """With Wait: scheduled times that are due and have no flow yet, MAX_MISSED + 1 at most."""


def plan_cron(
    cron: api.CronJobFlow,
    flows: Sequence[JobFlow],
    now: datetime,
    reused_by: Callable[[JobFlow], Sequence[str]] = lambda flow: (),
) -> CronPlan:
    """Return what to do at `now` for a CronJobFlow and the flows that it controls. `reused_by`: the
    flows that have not ended and reuse a flow."""
    # the oldest first: only some of a large backfill are named
    active = sorted((flow for flow in flows if not flow.final), key=_age)
    named = [
        api.FlowReference(
            api_version=JOBFLOWS.api_version,
            kind=JOBFLOWS.kind,
            namespace=flow.metadata.namespace,
            name=flow.metadata.name,
            uid=flow.metadata.uid,
        )
        for flow in active[:MAX_ACTIVE]
    ]
    ends = [flow.status.completion_time for flow in flows if _succeeded(flow)]
    known = [end for end in (*ends, cron.status.last_successful_time) if end is not None]
    status = replace(
        cron.status,
        active=named or None,
        active_count=len(active),
        last_successful_time=max(known, default=None),
    )
    if cron.metadata.deletion_timestamp is not None:
        return CronPlan(status, events=tuple(_events(cron, flows, status)))
    start = _Start(cron, flows, now, cron.status.last_schedule_time)
    requeue_after = start.decide()
    status = replace(
        status,
        last_schedule_time=start.last_schedule_time,
        replacing_for=start.replacing_for,
        waits_for=start.waits_for,
    )
    actions = start.actions
    if status == cron.status:  # a flow is deleted only after the status has recorded its end
        actions += _surplus(cron, flows, reused_by)
        actions += [ForgetSkip()] if _skipped(cron) else []
    events = tuple(_events(cron, flows, status))
    notices = tuple(start.notices)
    return CronPlan(status, tuple(actions), events, notices, requeue_after, start.due)


def _succeeded(flow: JobFlow) -> bool:
    return flow.status.state.phase == FlowPhase.SUCCEED


def why_held(cron: api.CronJobFlow, ended: JobFlow) -> str:
    """Return why no flow starts after one that has ended, and what to do; "" if one may start."""
    meta, state = ended.metadata, ended.status.state
    # a flow that its own concurrency policy has ended did nothing
    has_succeeded = _succeeded(ended) and state.reason != FlowReason.CONCURRENCY
    if has_succeeded or not _requires_success(cron, meta.name):
        return ""
    how = f"{state.phase} ({state.reason})" if state.reason else state.phase
    return (
        f"no flow starts until flow {meta.name} has succeeded, which is {how}: "
        f"retry it ({format_command('jobflow retry', meta)}), "
        f"or delete it, then its time is made again ({format_command('jobflow delete', meta)}), "
        f"or go on without it ({format_command('jobflow skip', cron.metadata, kind='cjf')})"
    )


def _requires_success(cron: api.CronJobFlow, name: str) -> bool:
    return bool(cron.spec.require_previous_success) and _skipped(cron) != name


def _skipped(cron: api.CronJobFlow) -> str:
    """Return the flow without whose success the schedule goes on, by `jobflow skip`."""
    return (cron.metadata.annotations or {}).get(SKIP, "")


def _age(flow: JobFlow) -> tuple[datetime, str]:
    created = flow.metadata.creation_timestamp
    return created or datetime.max.replace(tzinfo=UTC), flow.metadata.name


def _surplus(
    cron: api.CronJobFlow, flows: Sequence[JobFlow], reused_by: Callable[[JobFlow], Sequence[str]]
) -> Iterator[RemoveFlow]:
    """Yield the finished flows that exceed the history limits, the oldest first, without those that
    are reused or waited for."""
    spec = cron.spec
    kept, kept_failed = spec.successful_jobs_history_limit, spec.failed_jobs_history_limit
    limits = {
        True: api.DEFAULT_SUCCESSFUL_HISTORY if kept is None else kept,
        False: api.DEFAULT_FAILED_HISTORY if kept_failed is None else kept_failed,
    }
    for succeeded, limit in limits.items():
        finished = [
            flow
            for flow in flows
            if flow.final and _succeeded(flow) == succeeded and not schedules.is_backfilled(flow)
        ]
        finished.sort(
            key=lambda flow: (flow.status.start_time or _age(flow)[0], flow.metadata.name)
        )
        # admission refuses a negative limit
        for flow in finished[: max(0, len(finished) - max(limit, 0))]:
            meta = flow.metadata
            is_needed = meta.name == cron.status.waits_for or still_reused(meta, reused_by(flow))
            if meta.deletion_timestamp is None and not is_needed:
                yield RemoveFlow(meta.name, meta.uid, meta.resource_version)


@dataclass(slots=True)
class _Start:
    cron: api.CronJobFlow
    flows: Sequence[JobFlow]
    now: datetime
    last_schedule_time: datetime | None
    """That of the new status."""
    replacing_for: datetime | None = None
    """That of the new status."""
    waits_for: str | None = None
    """That of the new status."""
    due: int = 0
    """That of the plan."""
    actions: list[CronAction] = field(default_factory=list)
    notices: list[Event] = field(default_factory=list)

    def decide(self) -> timedelta | None:
        """Note what to do; return when to plan again, None if only an edit changes anything."""
        spec = self.cron.spec
        if self._waits:
            self.waits_for = self._awaited()
        if self.cron.suspended:
            return None
        try:
            schedule = schedules.parse_schedule(spec.schedule or "", spec.time_zone)
        except schedules.ScheduleFault as fault:
            self._note("ScheduleInvalid", f"no flow starts: {fault}")
            return None
        if self._waits:
            self._take_turns(schedule)
        elif (due := self._due(schedule)) is not None:
            self._handle(due)
        following = schedule.next(max(self.now, self.last_schedule_time or self.now))
        return min(following - self.now, LONGEST_WAIT) if following is not None else LONGEST_WAIT

    @property
    def _since(self) -> datetime:
        return self.last_schedule_time or self.cron.metadata.creation_timestamp or self.now

    @property
    def _begin(self) -> datetime | None:
        deadline = self.cron.spec.starting_deadline_seconds
        if deadline is None or deadline > _MOST_DEADLINE:
            return None
        return self.now - timedelta(seconds=max(deadline, 0))  # admission refuses a negative one

    def _due(self, schedule: schedules.Schedule) -> datetime | None:
        """Return the last scheduled time without a flow, with Wait the first, as long as a flow may
        start for it."""
        since, begin, waits = self._since, self._begin, self._waits
        floor = since if begin is None else max(since, begin)
        missed, decided = schedule.missed(floor, self.now), self._stored_replacing_for
        if missed is None and decided is not None and decided > since:
            return decided
        if begin is not None and (waits or missed is None):
            if (late := schedule.missed(since, begin)) is not None:
                at = schedules.format_scheduled_time(late.last)
                why = "because that is too long ago (spec.startingDeadlineSeconds)"
                self._note("ScheduleMissed", f"no flow starts for {at}, {why}")
        if missed is None:
            return None
        # as batch/v1 does: the clock or the deadline is probably wrong
        if missed.count > (most := schedules.MAX_MISSED):
            which = "each of them starts a flow, one after the other"
            which = which if waits else "only the last one starts a flow"
            self._note(
                "TooManyMissedTimes",
                f"more than {most} scheduled times were missed; {which}: "
                "set or decrease spec.startingDeadlineSeconds, or check the clock",
            )
        self.due = missed.count if waits else 0
        return schedule.next(floor) if waits else missed.last

    @property
    def _policy(self) -> str:
        return self.cron.spec.concurrency_policy or api.ConcurrencyPolicy.ALLOW

    @property
    def _waits(self) -> bool:
        return self._policy == api.ConcurrencyPolicy.WAIT

    @property
    def _stored_replacing_for(self) -> datetime | None:
        """The scheduled time for which flows are being cancelled. Its deadline does not count."""
        replaces = self._policy == api.ConcurrencyPolicy.REPLACE
        return self.cron.status.replacing_for if replaces else None

    def _handle(self, due: datetime) -> None:
        name = schedules.scheduled_name(self.cron.metadata.name, due)
        # the name has the scheduled time: this flow was created for it, maybe by another leader
        if self._flow(name) is not None:
            self.last_schedule_time = due
            return
        active = [flow for flow in self.flows if _is_active(flow)]
        if active and self._policy == api.ConcurrencyPolicy.FORBID:
            names = join_names(flow.metadata.name for flow in active)
            self._note("ConcurrencyForbidden", f"no flow starts while {names} is active")
        elif active and self._policy == api.ConcurrencyPolicy.REPLACE:
            self.replacing_for = due
            if self._stored_replacing_for == due:  # the decision to cancel them is stored
                self.actions += (
                    ReplaceFlow(flow.metadata.name, flow.metadata.uid)
                    for flow in active
                    if flow.status.state.reason != CANCELLED
                )
        else:
            self.replacing_for = self._stored_replacing_for
            self.actions.append(CreateFlow(name, schedules.build_flow(self.cron, due)))

    def _awaited(self) -> str | None:
        """Return the flow after which the next one starts, and record the time of one that was only
        announced. It was announced before its create, so no crash makes or loses a time."""
        stored, last = self.cron.status.waits_for, self.last_schedule_time
        latest = schedules.scheduled_name(self.cron.metadata.name, last) if last else None
        flow = self._flow(stored or latest)
        if stored is None:
            return latest if flow is not None and not flow.final else None
        if flow is None:  # deleted, or not created yet
            return stored if stored == latest and _requires_success(self.cron, stored) else None
        if (time := schedules.time_of(stored)) is not None:
            self.last_schedule_time = max(time, last or time)
        return stored if self._is_awaited(flow) else None

    def _is_awaited(self, flow: JobFlow) -> bool:
        if flow.final and (why := why_held(self.cron, flow)):
            self._note("WaitsForFlow", why)
            return True
        return not flow.final

    def _take_turns(self, schedule: schedules.Schedule) -> None:
        """Start the flow of the first time that has none, if no other one is waited for."""
        awaited = self._flow(self.waits_for)
        is_gone = self.waits_for is not None and awaited is None
        due = self.last_schedule_time if is_gone else self._due(schedule)
        if due is None:
            return
        name = schedules.scheduled_name(self.cron.metadata.name, due)
        active = {f.metadata.name for f in self.flows if _is_active(f)}
        active |= {awaited.metadata.name} if awaited is not None and not awaited.final else set()
        if active:
            end = "succeeded" if self.cron.spec.require_previous_success else "finished"
            message = f"flow {name} starts when {join_names(sorted(active))} has {end}"
            self._note("WaitsForFlow", message, EventType.NORMAL)
        elif awaited is not None:
            pass  # it has not succeeded, which is noted
        elif (flow := self._flow(name)) is not None:  # of a backfill, or of another policy
            self.last_schedule_time = due
            self.waits_for = name if self._is_awaited(flow) else None
        else:
            self.waits_for = name
            if self.cron.status.waits_for == name:  # the announcement is stored
                self.actions.append(CreateFlow(name, schedules.build_flow(self.cron, due)))

    def _flow(self, name: str | None) -> JobFlow | None:
        return next((flow for flow in self.flows if flow.metadata.name == name), None)

    def _note(self, reason: str, message: str, kind: EventType = EventType.WARNING) -> None:
        self.notices.append(Event(kind, reason, message))


def _events(
    cron: api.CronJobFlow, flows: Sequence[JobFlow], status: api.CronJobFlowStatus
) -> Iterator[Event]:
    stored = cron.status
    time = status.last_schedule_time
    if time is not None and time != stored.last_schedule_time:
        name = schedules.scheduled_name(cron.metadata.name, time)
        if any(flow.metadata.name == name and schedules.is_scheduled(flow) for flow in flows):
            yield Event(EventType.NORMAL, "FlowCreated", f"created flow {name}")
    finished = {flow.metadata.uid: flow for flow in flows if flow.final}
    for reference in stored.active or ():
        if (flow := finished.get(reference.uid)) is not None:
            kind = EventType.NORMAL if _succeeded(flow) else EventType.WARNING
            message = f"flow {reference.name} has finished: {flow.status.state.phase}"
            yield Event(kind, "FlowFinished", message)
    if stored.waits_for not in (None, status.waits_for) and stored.waits_for == _skipped(cron):
        message = f"the schedule goes on without the success of flow {stored.waits_for}"
        yield Event(EventType.NORMAL, "FlowSkipped", message)
    if status.replacing_for is not None and status.replacing_for != stored.replacing_for:
        names = join_names(flow.metadata.name for flow in flows if _is_active(flow))
        name = schedules.scheduled_name(cron.metadata.name, status.replacing_for)
        yield Event(EventType.NORMAL, "FlowsReplaced", f"{names}: cancelled for {name}")


def _is_active(flow: JobFlow) -> bool:
    """Whether a flow counts for the concurrency policy."""
    return not flow.final and schedules.is_scheduled(flow)
