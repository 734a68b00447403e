"""The loop over `plan` in virtual time.

The time leaps from one event to the next. At each time all vcjobs act first, and then each flow
whose vcjobs have changed is planned until a plan has nothing to do: a controller plans again as
soon as a decision is stored, before the pods of a vcjob that it has created can run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Protocol

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.volcano import command
from jobflow.core.names import format_place
from jobflow.core.planning import actions
from jobflow.core.planning.actions import Action, CreateJob
from jobflow.core.planning.virtual_time.flow import RunningJob, VirtualFlow
from jobflow.core.spec.concurrency import Group, GroupName
from jobflow.core.timestamps import add
from jobflow.core.work import WORK

MAX_TIME = timedelta(days=3650)
MAX_EVENTS = 1_000_000
"""Flows that need more time or events count as endless."""


class Jobs(Protocol):
    """How vcjobs run."""

    def create(self, flow: VirtualFlow, action: CreateJob, now: datetime) -> RunningJob:
        """Create a vcjob of a flow."""

    def abort(self, flow: VirtualFlow, job: RunningJob) -> None:
        """Ask a vcjob of a flow to abort."""

    def act(self, time: VirtualTime) -> bool:
        """Let one vcjob act that has something to do now, and show its flow what has changed.
        Return whether there was one."""


class ConcurrencyGroups(Protocol):
    """The concurrency groups of the flows."""

    def of(self, flow: JobFlow, group: GroupName) -> Group:
        """Return a group, as a flow sees it."""

    def update(self, old: JobFlow | None, new: JobFlow | None) -> Iterable[tuple[str, str]]:
        """Take in a change of a flow. Return namespace and name of the flows that it concerns."""


class VirtualTime:
    """Runs flows from their creation to their end. `approve_after` returns after which time a step
    that waits for approval is approved; None: never."""

    def __init__(
        self,
        start: datetime,
        jobs: Jobs,
        groups: ConcurrencyGroups,
        approve_after: Callable[[str], timedelta | None],
    ) -> None:
        self.now = start
        self._limit = add(start, MAX_TIME)
        self._events_left = MAX_EVENTS
        self._jobs = jobs
        self._groups = groups
        self._approve_after = approve_after
        self.all_flows: list[VirtualFlow] = []
        """The flows and their child flows, in the order of their creation."""
        self._order = count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []

    def add(
        self,
        flow: JobFlow,
        templates: Iterable[JobTemplate],
        sources: Mapping[str, JobFlow] | None = None,
    ) -> None:
        """Create a flow now. `templates` are those of its namespace, `sources` the flows there that
        it may reuse and their child flows, by name."""
        new = self._created(flow)
        known = {each.metadata.name: each for each in templates}
        self.all_flows.append(VirtualFlow(new, known, sources or {}, group=self._groups.of))
        self._groups.update(None, new)

    def run(self, longest_pause: timedelta = MAX_TIME) -> None:
        """Run until all flows have ended, nothing happens any more or for `longest_pause`, or the
        limits are reached."""
        self._settle()
        while self._due and self._due[0][0] <= self._limit and self._events_left > 0:
            # a ttl may still be due after the last end
            if all(each.is_over for each in self.all_flows):
                return
            if self._due[0][0] - self.now > longest_pause:
                return
            self.now = self._due[0][0]
            # all that happens at one time is seen by one plan
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            self._settle()

    @property
    def flows(self) -> list[JobFlow]:
        """The flows with their present status, in the order of `add`, without child flows."""
        return [each.present for each in self.all_flows if each.parent is None]

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Act at a moment: now, if it has come."""
        if moment <= self.now:
            act()
        else:
            heapq.heappush(self._due, (moment, next(self._order), act))

    def _settle(self) -> None:
        """Let vcjobs and flows act until nothing changes at this time."""
        while self._events_left > 0:
            while self._events_left > 0 and self._jobs.act(self):
                self._events_left -= 1
            flows = [each for each in self.all_flows if each.must_plan and not each.is_deleted]
            if not flows:
                return
            for each in flows:
                while each.must_plan and not each.is_deleted and self._events_left > 0:
                    self._plan(each)

    def _plan(self, flow: VirtualFlow) -> None:
        self._events_left -= 1
        before = flow.flow
        made = flow.plan(self.now)
        self._wake_group(before, flow.flow)
        for action in made.actions:
            self._apply(flow, action)
        asked, flow.asked = flow.asked, {}
        for key in asked:
            if (after := self._approve_after(key.step)) is not None:
                self.at(add(self.now, after), partial(flow.approve, key))
        if made.requeue_after is not None and not flow.must_plan and not flow.is_over:
            self.at(add(self.now, made.requeue_after), partial(setattr, flow, "must_plan", True))

    def _wake_group(self, before: JobFlow, after: JobFlow | None) -> None:
        """Plan the flows that may start, or act, because of a change of this one."""
        for woken in self._groups.update(before, after):
            for each in self.all_flows:
                if (each.flow.metadata.namespace, each.flow.metadata.name) == woken:
                    each.must_plan = True

    def _apply(self, flow: VirtualFlow, action: Action) -> None:
        match action:
            case actions.CreateJob(name=name, kind=kind) if WORK[kind].has_steps:
                if name not in flow.children:
                    child = self._created(msgspec.convert(dict(action.manifest), JobFlow))
                    index = (child.metadata.annotations or {}).get(labels.INDEX)
                    place = f"{flow.place}{format_place(action.step, index)}/"
                    made = VirtualFlow(
                        child, flow.templates, flow.sources, flow, place, group=self._groups.of
                    )
                    self.all_flows.append(made)
                    flow.create_child(made)
            case actions.CreateJob(name=name) if name not in flow.jobs:
                flow.create_job(self._jobs.create(flow, action, self.now), action.step)
            case actions.CreateClaim(name=name) | actions.MoveClaim(name=name):
                flow.claims[name] = None
            case actions.DeleteJob(name=name, kind=kind) if WORK[kind].has_steps:
                flow.delete_child(name)
            case actions.DeleteJob(name=name, uid=uid):
                job = flow.jobs.get(name)
                if job is not None and job.metadata.uid == uid:
                    job.delete(self.now)
                    flow.delete_job(job)
            case actions.ReadPods(job=name):
                if (job := flow.jobs.get(name)) is not None:
                    flow.read_pods(job)
            case actions.ReadJob(name=name) if name not in flow.jobs:
                flow.missing.add(name)
            case _:
                self._command(flow, action)

    def _command(self, flow: VirtualFlow, action: Action) -> None:
        """Apply an action that is a Command, or about a flow as a whole."""
        match action:
            case actions.AbortJob(name=name, uid=uid):
                flow.aborts[uid] = self.now
                if (job := flow.jobs.get(name)) is not None:
                    self._jobs.abort(flow, job)
            case actions.CommandFlow(name=name):
                flow.aborts[action.key] = self.now
                if (child := flow.children.get(name)) is not None:
                    child.command(action.action, self.now)
            case actions.DeleteFlow():
                flow.is_deleted = True
                self._wake_group(flow.flow, None)
            case actions.CancelFlow(uid=uid):
                flow.cancels[uid] = self.now
                for each in self.all_flows:
                    if each.flow.metadata.uid == uid:
                        each.command(command.Action.TERMINATE_JOB, self.now, action.message)
            case actions.DeleteCommand(name=name):
                flow.delete_command(name)

    def _created(self, flow: JobFlow) -> JobFlow:
        """Return the next flow as an API server would store it now."""
        metadata = msgspec.structs.replace(
            flow.metadata,
            uid=f"flow-{len(self.all_flows)}",
            creation_timestamp=self.now,
            generation=1,
        )
        return msgspec.structs.replace(flow, metadata=metadata, status=JobFlowStatus())
