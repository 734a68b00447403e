"""A flow in virtual time: what its plans see, and what they have asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import FlowPhase, JobRecord
from jobflow.api.flow.step import Step
from jobflow.api.resources import JOBFLOWS, ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Action, Command
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.names import stored_condition
from jobflow.core.planning.actions import CreateJob, Plan, Want
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.view import ClaimAnswer, PodsRead, View
from jobflow.core.planning.plan import is_unjudged, judge, plan
from jobflow.core.planning.virtual_time.replan import Replanner, can_replan
from jobflow.core.spec.compiled import compile_flow
from jobflow.core.spec.concurrency import NO_GROUP, Group, GroupName, get_limits
from jobflow.core.spec.step_commands import ApprovalKey, asks
from jobflow.core.work import is_asked


class RunningJob(Protocol):
    """A vcjob that exists, with its pods."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def job(self) -> Job:
        """The vcjob as a View shows it."""

    @property
    def ended(self) -> bool:
        """Whether it is in a final phase."""

    def pods(self) -> tuple[Pod, ...]:
        """Return its pods as the API server would have them."""

    def count_running(self, task: str) -> int:
        """Return the number of Running pods of a task."""

    def delete(self, now: datetime) -> None:
        """End it and its pods, because somebody deleted it."""


@dataclass(eq=False, slots=True)
class VirtualFlow:
    """One flow and its vcjobs."""

    flow: JobFlow
    templates: Mapping[str, JobTemplate]
    sources: Mapping[str, JobFlow] = field(default_factory=dict)
    """The flows that it may reuse and their child flows, by name."""
    parent: VirtualFlow | None = None
    """The flow of which it is a child."""
    place: str = ""
    """The place of its steps in the outermost flow: `train/0/`; "" for that."""
    jobs: dict[str, RunningJob] = field(default_factory=dict)
    """The vcjobs that exist."""
    children: dict[str, VirtualFlow] = field(default_factory=dict)
    """The child flows that exist."""
    missing: set[str] = field(default_factory=set)
    """Names that ReadJob did not find."""
    aborts: dict[str, datetime] = field(default_factory=dict)
    claims: dict[str, ClaimAnswer] = field(default_factory=dict)
    """The volume claims that exist, and those that cannot move to the flow."""
    group: Callable[[JobFlow, GroupName], Group] = lambda flow, group: NO_GROUP
    """Returns the other flows of one of its concurrency groups."""
    cancels: dict[str, datetime] = field(default_factory=dict)
    wants: tuple[Want, ...] = ()
    commands: dict[str, Command] = field(default_factory=dict)
    """Commands that exist, by name: answers to approvals, and cancels by flows that replace it."""
    asked: dict[ApprovalKey, None] = field(default_factory=dict)
    """Approvals that were asked for, once an attempt, and have no Command yet."""
    must_plan: bool = True
    is_deleted: bool = False
    follows_phases: bool = field(init=False)
    """Whether more than the end of a vcjob can have an effect on the flow."""
    _shown: dict[str, Job] = field(default_factory=dict)
    """The vcjobs of the View, also deleted ones, until the status holds their end."""
    _steps: dict[str, str] = field(default_factory=dict)
    """The step of each vcjob, by its name."""
    _deleted: set[str] = field(default_factory=set)
    _changed: dict[str, str] = field(default_factory=dict)
    """The steps of vcjobs that were created or have changed since the last plan, by vcjob."""
    _approvals: list[Step] = field(init=False)
    _can_replan: bool = field(init=False)
    """Whether the changes of the flow can be planned alone (`replan`)."""
    _replanner: Replanner | None = None
    _noted: set[tuple[ApprovalKey, int]] = field(default_factory=set)
    """Approvals that were asked for, and the number of the attempt."""
    _pods: dict[str, PodsRead] = field(default_factory=dict)
    """The pods of ended vcjobs, by UID."""

    def __post_init__(self) -> None:
        self._can_replan = self.parent is None and can_replan(self.flow)
        self._approvals = [step for step in self.flow.all_steps if is_asked(step)]
        layout = compile_flow(self.flow)
        of_steps = (step.timeout or step.queue_timeout for step in self.flow.all_steps)
        timeouts = (self.flow.spec.timeout, *of_steps)
        self.follows_phases = layout.has_daemons or not layout.only_ends_matter or any(timeouts)

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen to the flow."""
        return self.flow.final or self.is_deleted

    @property
    def present(self) -> JobFlow:
        """The flow with its present status."""
        return self.flow if self._replanner is None else self._replanner.flow

    def create_child(self, child: VirtualFlow) -> None:
        """Add a child flow."""
        name = child.flow.metadata.name
        self.children[name] = child
        self._shown[name] = observe(child.flow)
        self._deleted.discard(name)

    def delete_child(self, name: str) -> None:
        """Show that a child flow is gone."""
        self.children.pop(name).is_deleted = True
        self._deleted.add(name)
        self.must_plan = True

    def command(self, action: str, now: datetime, message: str = "") -> None:
        """Add a Command of another flow: the parent, or one that replaces this."""
        name = f"{self.flow.metadata.name}-{action.lower()}"
        # the UID of a second one differs: the flow has handled the first
        made = ObjectMeta(name=name, uid=f"{name}-{now}", creation_timestamp=now)
        self._send(made, action, message)

    def create_job(self, job: RunningJob, step: str) -> None:
        """Add a vcjob of a step."""
        name = job.metadata.name
        self.jobs[name] = job
        self._shown[name] = job.job
        self._changed[name] = self._steps[name] = step
        self._deleted.discard(name)
        self.missing.discard(name)

    def update_job(self, job: RunningJob) -> None:
        """Show the new status of a vcjob."""
        name = job.metadata.name
        if self.jobs.get(name) is not job:
            return
        self._shown[name] = job.job
        self._changed[name] = self._steps[name]
        # the plan would ask for it next
        if job.ended:
            self.read_pods(job)
        self.must_plan = self.must_plan or job.ended or self.follows_phases

    def delete_job(self, job: RunningJob) -> None:
        """Show that a vcjob is gone."""
        name = job.metadata.name
        del self.jobs[name]
        self._deleted.add(name)
        self._changed[name] = self._steps[name]
        self.must_plan = True

    def approve(self, key: ApprovalKey) -> None:
        """Send a Command that approves a step."""
        name = f"approve-{len(self._noted)}-{key}"
        self._send(ObjectMeta(name=name, uid=name), Action.APPROVE_STEP, str(key))

    def _send(self, made: ObjectMeta, action: str, message: str) -> None:
        meta = self.flow.metadata
        target = OwnerReference(
            api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=meta.name, uid=meta.uid
        )
        command = Command(metadata=made, action=action, target=target, message=message)
        self.commands[made.name] = command
        self.must_plan = True

    def delete_command(self, name: str) -> None:
        """Show that a Command is gone."""
        self.commands.pop(name, None)
        self.must_plan = True

    def read_pods(self, job: RunningJob) -> None:
        """Answer a ReadPods; for ended vcjobs also before it is asked, which saves a plan."""
        self._pods[job.metadata.uid] = PodsRead(job.pods())

    def plan(self, now: datetime) -> Plan:
        """Plan what has changed, and store the status."""
        made, replanner = None, self._replanner
        if replanner is not None and not replanner.all_ended:
            if (made := replanner.plan(self._view(), self._changed, now)) is not None:
                self._forget(self._changed, replanner.records)
            self._can_replan = made is not None
        made = made or self._plan_all(now)
        self._changed.clear()
        has_new_wants, self.wants = made.wants != self.wants, made.wants
        # a plan that only creates vcjobs waits for no answer: what comes next follows from them
        waits = any(not isinstance(action, CreateJob) for action in made.actions)
        all_ended = self._replanner is not None and self._replanner.all_ended
        self.must_plan = waits or has_new_wants or made.urgent or all_ended
        return made

    def _plan_all(self, now: datetime) -> Plan:
        self.flow, self._replanner = self.present, None
        view = self._view()
        if is_unjudged(self.flow, view.jobs):
            view = replace(view, violations=judge(self.flow) or ())
        made = plan(self.flow, view, now=now)
        before, self.flow = self.flow, msgspec.structs.replace(self.flow, status=made.status)
        parent, name = self.parent, self.flow.metadata.name
        if parent is not None and parent.children.get(name) is self:
            seen = observe(self.flow)
            # the parent plans if this child flow has changed for it
            if parent._shown.get(name) != seen:
                parent._shown[name] = seen
                parent.must_plan = True
        # a child flow reads from the status of its parent whether it is suspended
        if (before.status.suspended_at is None) != (made.status.suspended_at is None):
            for child in self.children.values():
                child.must_plan = True
        for step in self._approvals:
            condition = stored_condition(self.flow, step.name)
            for run in () if condition is None else condition.runs or (condition,):
                key = ApprovalKey(step.name, run.index)
                if asks(run) and (key, run.attempts) not in self._noted:
                    self._noted.add((key, run.attempts))
                    self.asked[key] = None
        records = {record.name: record for record in self.flow.status.job_status_list or ()}
        self._forget([*self._shown], records)
        # the start of a flow is planned as a whole, its end too
        if self._can_replan and self.flow.status.state.phase == FlowPhase.RUNNING:
            replanner = Replanner(self.flow, self._view(), now)
            self._replanner = None if replanner.all_ended else replanner
        return made

    def _forget(self, names: Iterable[str], records: Mapping[str, JobRecord]) -> None:
        """Forget vcjobs whose end the status holds, as if they were deleted then."""
        # plans get faster, and decide the same: they read a recorded end from the status
        for name in names:
            record, shown = records.get(name), self._shown[name]
            if record is None or record.end_timestamp is None:
                continue
            if shown.ended or name in self._deleted:
                del self._shown[name]
                self._deleted.discard(name)
                self._pods.pop(shown.metadata.uid, None)

    def context(self, now: datetime) -> PlanContext:
        """Return what its next plan would know."""
        return PlanContext.of(self.present, self._view(), now)

    def _view(self) -> View:
        reuse = self.flow.status.reuse or self.flow.spec.reuse
        source = None if reuse is None else self.sources.get(reuse.flow)
        source_children = {}
        if source is not None and compile_flow(self.flow).has_children:
            for name, flow in self.sources.items():
                owner = flow.metadata.controller
                if owner is not None and owner.uid == source.metadata.uid:
                    source_children[name] = flow.metadata
        return View(
            templates=self.templates,
            jobs=dict(self._shown),
            source=source,
            source_children=source_children,
            deleted=frozenset(self._deleted | (self.missing - self._shown.keys())),
            claims=self.claims,
            groups={name: self.group(self.flow, name) for name in dict(get_limits(self.flow))},
            cancels=self.cancels,
            aborts=self.aborts,
            parent=None if self.parent is None else self.parent.present,
            commands=self.commands,
            read=self._pods,
            answers={want.key: want.assume(self._count_running) for want in self.wants},
        )

    def _count_running(self, name: str, task: str) -> int:
        job = self.jobs.get(name)
        return 0 if job is None else job.count_running(task)
