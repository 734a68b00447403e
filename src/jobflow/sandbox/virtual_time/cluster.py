"""Flows and their vcjobs in virtual time.

The cluster leaps from one event to the next. At each time all vcjobs act first, and then each flow
whose vcjobs have changed is planned until a plan has nothing to do: a controller plans again as
soon as a decision is stored, before the pods of a vcjob that it has created can run. `plan` and
Volcano's rules are those of the controller and of the sandbox; this package only applies what they
decide.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.jobtemplate import JobTemplate
from jobflow.api.flow.status import JobFlowStatus
from jobflow.controller.apply.commands import cancel_command
from jobflow.core.planning.actions import (
    AbortJob,
    Action,
    CancelFlow,
    CommandFlow,
    CreateClaim,
    CreateJob,
    DeleteCommand,
    DeleteFlow,
    DeleteJob,
    ReadJob,
    ReadPods,
)
from jobflow.core.spec.approvals import ApprovalKey
from jobflow.core.timestamps import add
from jobflow.core.work import WORK
from jobflow.kube.cache import key_of
from jobflow.sandbox.jobs.policies import BusAction, BusEvent, JobRequest
from jobflow.sandbox.nodes.simulation_script import annotations_of
from jobflow.sandbox.virtual_time.capacity import Room
from jobflow.sandbox.virtual_time.flow import VirtualFlow
from jobflow.sandbox.virtual_time.job import Due, VirtualJob
from jobflow.store.groups import Groups

MAX_TIME = timedelta(days=3650)
MAX_EVENTS = 1_000_000
"""Flows that need more time or events count as endless."""
_ABORT = JobRequest(event=BusEvent.COMMAND_ISSUED, action=BusAction.ABORT)

Annotate = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Returns the annotations of a vcjob, from its step and the annotations of its manifest."""


@dataclass(frozen=True, slots=True)
class StepJob:
    """A vcjob and the step that it belongs to."""

    flow: VirtualFlow
    step: str
    """Its name; of a child flow `train/fit`, or `train/0/fit` with an item."""
    index: int | None
    """Index of the item or repeat."""
    job: VirtualJob


class VirtualCluster:
    """Runs flows from their creation to their end.

    `room_of` returns the room of a queue. `annotate` may set how long vcjobs run. `approve_after`
    returns after which time a step that waits for approval is approved; None: never.
    """

    def __init__(
        self,
        start: datetime,
        *,
        room_of: Callable[[str], Room] = lambda queue: Room({}),
        annotate: Annotate = lambda step, annotations: annotations,
        approve_after: Callable[[str], timedelta | None] = lambda step: timedelta(),
    ) -> None:
        self.now = start
        self.jobs: list[StepJob] = []
        """All vcjobs by their creation."""
        self._limit = add(start, MAX_TIME)
        self._events_left = MAX_EVENTS
        self._room_of = room_of
        self._annotate = annotate
        self._approve_after = approve_after
        self._flows: list[VirtualFlow] = []
        self._groups = Groups()
        self._order = count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._changed: dict[VirtualJob, VirtualFlow] = {}
        """Vcjobs that have something to do now."""
        self._without_room: dict[VirtualJob, VirtualFlow] = {}

    def add(self, flow: JobFlow, templates: Iterable[JobTemplate]) -> None:
        """Create a flow now. `templates` are those of its namespace."""
        uid = f"flow-{len(self._flows)}"
        metadata = msgspec.structs.replace(
            flow.metadata, uid=uid, creation_timestamp=self.now, generation=1
        )
        new = msgspec.structs.replace(flow, metadata=metadata, status=JobFlowStatus())
        known = {each.metadata.name: each for each in templates}
        self._flows.append(VirtualFlow(new, known, group=self._groups.of))
        self._groups.update(None, new)

    def run(self) -> None:
        """Run until all flows have ended, nothing happens any more, or the limits are reached."""
        self._settle()
        while self._due and self._due[0][0] <= self._limit and self._events_left > 0:
            if all(each.is_over for each in self._flows):
                return
            self.now = self._due[0][0]
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            self._settle()

    @property
    def flows(self) -> list[JobFlow]:
        """The flows with their present status, in the order in which they were added, without
        child flows."""
        return [each.present for each in self._flows if each.parent is None]

    @property
    def all_flows(self) -> list[VirtualFlow]:
        """The flows and their child flows, in the order of their creation."""
        return self._flows

    def too_large(self) -> list[tuple[StepJob, list[str]]]:
        """Return the vcjobs that can never start, and the resources that they ask too much of."""
        waiting = (each for each in self.jobs if each.job in self._without_room)
        pairs = ((each, each.job.room.excess(each.job.gang)) for each in waiting)
        return [(each, names) for each, names in pairs if names]

    # ------------------------------------------------------------------ one moment

    def _settle(self) -> None:
        """Let vcjobs and flows act until nothing changes at this time."""
        while self._events_left > 0:
            self._run_jobs()
            flows = [each for each in self._flows if each.must_plan and not each.is_deleted]
            if not flows:
                return
            for each in flows:
                while each.must_plan and not each.is_deleted and self._events_left > 0:
                    self._plan(each)

    def _run_jobs(self) -> None:
        while (self._changed or self._give_room()) and self._events_left > 0:
            job = next(iter(self._changed))
            flow = self._changed.pop(job)
            self._events_left -= 1
            before = job.status
            job.run(self.now)
            if job.next_due is not None:
                self._at(job.next_due, lambda job=job, flow=flow: self._wake(job, flow))  # type: ignore[misc]
            if job.waits_for_room:
                self._without_room[job] = flow
            if job.status is not before:
                flow.update_job(job)

    def _give_room(self) -> bool:
        """Start what has room, in the order of creation; return whether anything did."""
        for job, flow in list(self._without_room.items()):
            if job.start is None and job.end is None:
                if job.admit(self.now):
                    self._wake(job, flow)
                    return True
                continue
            for due in job.start_pods(self.now):
                self._at(due.at, lambda due=due, job=job, flow=flow: self._move(job, flow, due))  # type: ignore[misc]
            if not job.waits_for_room:
                del self._without_room[job]
            if self._changed:
                return True
        return False

    def _at(self, at: datetime, act: Callable[[], None]) -> None:
        if at <= self.now:
            act()
        else:
            heapq.heappush(self._due, (at, next(self._order), act))

    def _move(self, job: VirtualJob, flow: VirtualFlow, due: Due) -> None:
        job.change_pod(due, self.now)
        self._wake(job, flow)

    def _wake(self, job: VirtualJob, flow: VirtualFlow) -> None:
        self._changed[job] = flow

    # -------------------------------------------------------------------- the plan

    def _plan(self, flow: VirtualFlow) -> None:
        self._events_left -= 1
        before = flow.flow
        made = flow.plan(self.now)
        self._wake_group(before, flow.flow)
        for action in made.actions:
            self._apply(flow, action)
        while flow.asked:
            self._approve(flow, next(iter(flow.asked)))
        if made.requeue_after is not None and not flow.must_plan and not flow.is_over:
            self._at(add(self.now, made.requeue_after), lambda: self._wake_flow(flow))

    def _wake_group(self, before: JobFlow, after: JobFlow | None) -> None:
        """Plan the flows that may start, or act, because of a change of this one."""
        for woken in self._groups.update(before, after):
            for each in self._flows:
                if key_of(each.flow) == woken:
                    each.must_plan = True

    def _approve(self, flow: VirtualFlow, key: ApprovalKey) -> None:
        del flow.asked[key]
        if (after := self._approve_after(key.step)) is not None:
            self._at(add(self.now, after), lambda: flow.approve(key))

    def _wake_flow(self, flow: VirtualFlow) -> None:
        flow.must_plan = True

    def _apply(self, flow: VirtualFlow, action: Action) -> None:
        match action:
            case CreateJob():
                self._create(flow, action)
            case CreateClaim(name=name):
                flow.claims[name] = None
            case DeleteJob():
                self._delete(flow, action)
            case AbortJob() | CommandFlow():
                self._command(flow, action)
            case ReadPods(job=name):
                if (job := flow.jobs.get(name)) is not None:
                    flow.read_pods(job)
            case ReadJob(name=name) if name not in flow.jobs:
                flow.missing.add(name)
            case _:
                self._apply_to_flows(flow, action)

    def _apply_to_flows(self, flow: VirtualFlow, action: Action) -> None:
        match action:
            case DeleteFlow():
                flow.is_deleted = True
                self._wake_group(flow.flow, None)
            case CancelFlow():
                self._cancel(flow, action)
            case DeleteCommand(name=name):
                flow.delete_command(name)

    def _delete(self, flow: VirtualFlow, action: DeleteJob) -> None:
        if WORK[action.kind].has_steps:
            flow.delete_child(action.name)
            return
        job = flow.jobs.get(action.name)
        if job is not None and job.metadata.uid == action.uid:
            job.delete(self.now)
            flow.delete_job(job)

    def _command(self, flow: VirtualFlow, action: AbortJob | CommandFlow) -> None:
        if isinstance(action, CommandFlow):
            flow.aborts[action.key] = self.now
            if (child := flow.children.get(action.name)) is not None:
                child.command(action.action, self.now)
            return
        flow.aborts[action.uid] = self.now
        if (job := flow.jobs.get(action.name)) is not None:
            job.offer(_ABORT)
            self._wake(job, flow)

    def _cancel(self, flow: VirtualFlow, action: CancelFlow) -> None:
        flow.cancels[action.uid] = self.now
        command = cancel_command(flow.flow, action)
        for each in self._flows:
            if each.flow.metadata.uid == action.uid:
                name = command.metadata.name
                metadata = msgspec.structs.replace(
                    command.metadata, uid=f"{name}-{self._events_left}"
                )
                each.commands[name] = msgspec.structs.replace(command, metadata=metadata)
                each.must_plan = True

    def _create_child(self, flow: VirtualFlow, action: CreateJob) -> None:
        if action.name in flow.children:
            return
        child = msgspec.convert(dict(action.manifest), JobFlow)
        metadata = msgspec.structs.replace(
            child.metadata,
            uid=f"flow-{len(self._flows)}",
            creation_timestamp=self.now,
            generation=1,
        )
        child = msgspec.structs.replace(child, metadata=metadata)
        index = (metadata.annotations or {}).get(labels.INDEX)
        step = action.step if index is None else f"{action.step}/{index}"
        made = VirtualFlow(child, flow.templates, parent=flow, place=f"{flow.place}{step}/")
        self._flows.append(made)
        flow.create_child(made)

    def _create(self, flow: VirtualFlow, action: CreateJob) -> None:
        if WORK[action.kind].has_steps:
            self._create_child(flow, action)
            return
        if action.name in flow.jobs:
            return
        manifest = action.manifest
        own = manifest["metadata"].get("annotations")
        tasks = manifest["spec"].get("tasks") or [{}]
        of_job = annotations_of(own, tasks[0].get("template"))
        annotations = self._annotate(action.step, of_job)
        metadata = {**manifest["metadata"], "annotations": annotations}
        queue = manifest["spec"].get("queue") or "default"
        job = VirtualJob.create(
            {**manifest, "metadata": metadata},
            f"job-{len(self.jobs)}",
            self.now,
            self._room_of(queue),
        )
        index = annotations.get(labels.INDEX)
        step, number = flow.place + action.step, None if index is None else int(index)
        self.jobs.append(StepJob(flow, step, number, job))
        flow.create_job(job)
        self._without_room[job] = flow
        self._wake(job, flow)
