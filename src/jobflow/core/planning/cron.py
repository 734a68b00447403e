"""plan_cron: which flows a CronJobFlow starts, cancels and deletes now, and when to look again.

The rules are those of the `batch/v1` CronJob controller (k8s.io/kubernetes,
pkg/controller/cronjob/cronjob_controllerv2.go), with two differences: Replace cancels flows and
waits for their end, and flows of a backfill stay out of the history limits.
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
from jobflow.api.resources import JOBFLOWS
from jobflow.core import cron as schedules
from jobflow.core.admission.changes import still_reused
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.text import join_names

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


CronAction = CreateFlow | ReplaceFlow | RemoveFlow


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
    requeue_after = None if cron.suspended else start.decide()
    status = replace(
        status, last_schedule_time=start.last_schedule_time, replacing_for=start.replacing_for
    )
    actions = start.actions
    if status == cron.status:  # a flow is deleted only after the status has recorded its end
        actions += _surplus(cron, flows, reused_by)
    events = tuple(_events(cron, flows, status))
    return CronPlan(status, tuple(actions), events, tuple(start.notices), requeue_after)


def _succeeded(flow: JobFlow) -> bool:
    return flow.status.state.phase == FlowPhase.SUCCEED


def _age(flow: JobFlow) -> tuple[datetime, str]:
    created = flow.metadata.creation_timestamp
    return created or datetime.max.replace(tzinfo=UTC), flow.metadata.name


def _surplus(
    cron: api.CronJobFlow, flows: Sequence[JobFlow], reused_by: Callable[[JobFlow], Sequence[str]]
) -> Iterator[RemoveFlow]:
    """Yield the finished flows that exceed the history limits, the oldest first, without those that
    are reused."""
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
            if meta.deletion_timestamp is None and not still_reused(meta, reused_by(flow)):
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
    actions: list[CronAction] = field(default_factory=list)
    notices: list[Event] = field(default_factory=list)

    def decide(self) -> timedelta | None:
        """Note what to do; return when to plan again, None if only an edit changes anything."""
        spec = self.cron.spec
        try:
            schedule = schedules.parse_schedule(spec.schedule or "", spec.time_zone)
        except schedules.ScheduleFault as fault:
            self._note("ScheduleInvalid", f"no flow starts: {fault}")
            return None
        if (due := self._due(schedule)) is not None:
            self._handle(due)
        following = schedule.next(max(self.now, self.last_schedule_time or self.now))
        return min(following - self.now, LONGEST_WAIT) if following is not None else LONGEST_WAIT

    def _due(self, schedule: schedules.Schedule) -> datetime | None:
        """Return the last scheduled time without a flow, as long as a flow may start for it."""
        created = self.cron.metadata.creation_timestamp
        since = self.cron.status.last_schedule_time or created or self.now
        begin = None
        deadline = self.cron.spec.starting_deadline_seconds
        if deadline is not None and deadline <= _MOST_DEADLINE:
            # scheduled times at or before it are too late; admission refuses a negative one
            begin = self.now - timedelta(seconds=max(deadline, 0))
        missed = schedule.missed(since if begin is None else max(since, begin), self.now)
        if missed is None:
            if (decided := self._stored_replacing_for) is not None and decided > since:
                return decided
            if begin is not None and (late := schedule.missed(since, begin)) is not None:
                at = schedules.format_scheduled_time(late.last)
                why = "because that is too long ago (spec.startingDeadlineSeconds)"
                self._note("ScheduleMissed", f"no flow starts for {at}, {why}")
            return None
        # as batch/v1 does: the clock or the deadline is probably wrong
        if missed.count > (most := schedules.MAX_MISSED):
            self._note(
                "TooManyMissedTimes",
                f"more than {most} scheduled times were missed; only the last one starts a flow: "
                "set or decrease spec.startingDeadlineSeconds, or check the clock",
            )
        return missed.last

    @property
    def _policy(self) -> str:
        return self.cron.spec.concurrency_policy or api.ConcurrencyPolicy.ALLOW

    @property
    def _stored_replacing_for(self) -> datetime | None:
        """The scheduled time for which flows are being cancelled. Its deadline does not count."""
        replaces = self._policy == api.ConcurrencyPolicy.REPLACE
        return self.cron.status.replacing_for if replaces else None

    def _handle(self, due: datetime) -> None:
        name = schedules.scheduled_name(self.cron.metadata.name, due)
        # the name has the scheduled time: this flow was created for it, maybe by another leader
        if any(flow.metadata.name == name for flow in self.flows):
            self.last_schedule_time = due
            return
        active = [flow for flow in self.flows if _is_replaced(flow)]
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

    def _note(self, reason: str, message: str) -> None:
        self.notices.append(Event(EventType.WARNING, reason, message))


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
    if status.replacing_for is not None and status.replacing_for != stored.replacing_for:
        names = join_names(flow.metadata.name for flow in flows if _is_replaced(flow))
        name = schedules.scheduled_name(cron.metadata.name, status.replacing_for)
        yield Event(EventType.NORMAL, "FlowsReplaced", f"{names}: cancelled for {name}")


def _is_replaced(flow: JobFlow) -> bool:
    return not flow.final and schedules.is_scheduled(flow)
