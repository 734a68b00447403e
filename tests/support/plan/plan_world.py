"""Worlds for tests of `plan`: a flow, the cluster as the flow sees it, and a small driver.

A world is a value; every `with_…` returns a new one. Methods take the names of steps, and
vcjobs follow from them: `flow("a", b="a").with_jobs(a="Completed")`. No decisions are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import JobFlowStatus, JobRecord
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job, JobOutline
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
    Guard,
    MoveClaim,
    ProbeResult,
    ReadPods,
)
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.identity import KnownJobs
from jobflow.core.planning.observed.view import (
    ClaimAnswer,
    Held,
    Holder,
    PodsRead,
    Refusal,
    View,
)
from jobflow.core.planning.plan import is_unjudged, judge, plan
from jobflow.core.spec.concurrency import Group, GroupMember, get_group
from jobflow.core.violations import Violation
from support.plan.foreign_jobs import owner
from support.plan.plan_pods import pods_of
from support.plan.planned import Planned
from support.plan.steps import after, template
from support.plan.world_state import FLOW_UID, NOW, WorldState, job_status


def flow(*entries: str, name: str = "f", retain: str | None = None, **steps: Any) -> World:
    """Entries have no dependencies; `b="a c"` depends on a and c; `b=after(…)` sets the condition,
    and `b=step("a", when="false")` sets other fields."""
    step_list = [Step(name=entry) for entry in entries]
    for step, depends_on in steps.items():
        if isinstance(depends_on, str):
            depends_on = after(depends_on)
        fields = depends_on if isinstance(depends_on, Step) else Step(depends_on=depends_on)
        step_list.append(msgspec.structs.replace(fields, name=step))
    return world_of(step_list, name=name, retain=retain)


def world_of(steps: list[Step], *, name: str = "f", retain: str | None = None) -> World:
    """The world of a flow with these steps, a template for each, and nothing else."""
    jobflow = JobFlow(
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
        ),
        spec=JobFlowSpec(flows=steps, job_retain_policy=retain),
    )
    names = filter(None, (step.template_for(None) for step in steps))
    templates = {name: template(name) for name in names}
    return World(jobflow, templates)


@dataclass(frozen=True)
class World(WorldState):
    """A stored flow, the cluster as its View shows it, and the time, with changes and a driver."""

    def plan(self) -> Planned:
        return Planned(plan(self.flow, self.judged_view, now=self.now), self)

    @property
    def judged_view(self) -> View:
        """The View, with the verdict of the check before the first plan."""
        view = self.view
        return (
            replace(view, violations=self._verdict) if is_unjudged(self.flow, view.jobs) else view
        )

    @cached_property
    def _verdict(self) -> Sequence[Violation]:
        return judge(self.flow) or ()

    def with_spec(self, **changes: Any) -> World:
        """Change the spec of the flow, and add a template for each new step."""
        spec = msgspec.structs.replace(self.flow.spec, **changes)
        changed = msgspec.structs.replace(self.flow, spec=spec)
        new_templates = {name: template(name) for name in changed.templates}
        return replace(self, flow=changed, templates={**new_templates, **self.templates})

    def with_finally(self, *entries: str, **steps: Step) -> World:
        last = [Step(name=entry) for entry in entries]
        last += [msgspec.structs.replace(fields, name=name) for name, fields in steps.items()]
        return self.with_spec(finally_=last)

    def job(self, step: str, phase: str, *, run: int = 0, **annotations: str) -> Job:
        """A vcjob of a step as JobFlow makes it, in `phase` since now."""
        name = self.name_of(step, run)
        known = self.jobs.get(name)
        created = known.metadata.creation_timestamp if known is not None else self.now
        metadata = ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            creation_timestamp=created,
            labels={labels.STEP: step, labels.ATTEMPT: str(run + 1)},
            annotations={labels.STEP: step, labels.TARGET_ENDS: "{}", **annotations},
            owner_references=[owner(self.flow.metadata.name, self.flow.metadata.uid)],
        )
        status = job_status(phase, self.now, since=created)
        return Job(metadata=metadata, spec=self.outline(step), status=status)

    def with_job(self, job: Job) -> World:
        name = job.metadata.name
        return replace(self, jobs={**self.jobs, name: job}, deleted=self.deleted - {name})

    def with_jobs(self, **phases: str) -> World:
        """The first vcjob of each of these steps, in this phase."""
        jobs_made = [self.job(step, phase) for step, phase in phases.items()]
        jobs = {job.metadata.name: job for job in jobs_made}
        return replace(self, jobs={**self.jobs, **jobs}, deleted=self.deleted - jobs.keys())

    def with_metadata(self, name: str, **changes: Any) -> World:
        job = self.jobs[name]
        metadata = msgspec.structs.replace(job.metadata, **changes)
        return self.with_job(msgspec.structs.replace(job, metadata=metadata))

    def with_job_status(self, name: str, **changes: Any) -> World:
        job = self.jobs[name]
        status = msgspec.structs.replace(job.status, **changes)
        return self.with_job(msgspec.structs.replace(job, status=status))

    def with_ttl(self, step: str, phase: str, seconds: object) -> World:
        return self.with_job(self.job(step, phase, run=0, **{labels.TTL_SECONDS: str(seconds)}))

    def with_deleted(self, *steps: str) -> World:
        """Delete the vcjobs of these steps. Their last objects are still known."""
        return replace(self, deleted=self.deleted | {self.name_of(step) for step in steps})

    def without_jobs(self, *steps: str) -> World:
        """Remove the vcjobs of these steps without a trace."""
        names = {self.name_of(step) for step in steps}
        return replace(self, jobs={n: job for n, job in self.jobs.items() if n not in names})

    def with_pods(self, step: str, *, run: int = 0, watched: bool = True, **tasks: str) -> World:
        """All pods of a step's vcjob: `with_pods("a", worker="Running Succeeded")`."""
        job = self.jobs[self.name_of(step, run)]
        pods = {job.metadata.uid: pods_of(job, **tasks)}
        seen = {**self.pods, **pods} if watched else self.pods
        return replace(self, live={**self.live, **pods}, pods=seen)

    def with_probe(
        self, step: str, target: str, message: str = "", *, passed: bool = False, run: int = 0
    ) -> World:
        """Set the result of the probe of a step on a target's vcjob."""
        key = (step, f"uid-{self.name_of(target, run)}")
        return replace(self, probes={**self.probes, key: ProbeResult(passed, message)})

    def with_missing(self, *names: str) -> World:
        return replace(self, missing=self.missing | frozenset(names))

    def with_holder(self, step: str, holder: Holder) -> World:
        return replace(self, holders={**self.holders, self.name_of(step): holder})

    def with_refusal(
        self,
        step: str,
        code: int,
        message: str = "no",
        *,
        retry_in: float | None = None,
        run: int = 0,
    ) -> World:
        retry_at = None if retry_in is None else self.now + timedelta(seconds=retry_in)
        refusal = Refusal(code, message, retry_at)
        return replace(self, refusals={**self.refusals, self.name_of(step, run): refusal})

    def with_claim(self, name: str, answer: ClaimAnswer) -> World:
        """Set the answer to the create of a PersistentVolumeClaim."""
        return replace(self, claims={**self.claims, name: answer})

    def with_group(self, *holders: str, before: Sequence[str] = (), moves: bool = False) -> World:
        """Set the other flows of the concurrency group, by name."""

        def members(names: Sequence[str]) -> tuple[GroupMember, ...]:
            return tuple(GroupMember(name, f"uid-{name}") for name in names)

        name = get_group(self.flow, self.flow.spec.concurrency) or "g"
        return replace(
            self, groups={(False, name): Group(members(holders), members(before), moves)}
        )

    def with_held(
        self, *tried: str, room: int = 1, retry_in: float | None = 0, why: str = "exceeded quota"
    ) -> World:
        """The namespace accepts no more vcjobs; `tried`: refused names, in this order."""
        retry_at = None if retry_in is None else self.now + timedelta(seconds=retry_in)
        return replace(self, held=Held(why, retry_at, tried, room))

    def without_template(self, name: str) -> World:
        return replace(self, templates={n: t for n, t in self.templates.items() if n != name})

    def with_template(self, name: str) -> World:
        return replace(self, templates={**self.templates, name: template(name)})

    def with_command(
        self,
        action: str = "TerminateJob",
        *,
        name: str = "c",
        uid: str | None = None,
        text: str = "",
        annotations: dict[str, str] | None = None,
    ) -> World:
        """Create a Command for the flow, or for an earlier one with this UID, now."""
        command = Command(
            metadata=ObjectMeta(
                name=name,
                namespace="ns",
                uid=f"uid-{name}",
                creation_timestamp=self.now,
                annotations=annotations,
            ),
            action=action,
            target=owner(self.flow.metadata.name, self.flow.metadata.uid if uid is None else uid),
            message=text,
        )
        return replace(self, commands={**(self.commands or {}), name: command})

    def cancelled(self) -> World:
        """Cancel the flow, and apply plans until nothing is left to do."""
        return self.with_command().settled()

    def later(self, seconds: float) -> World:
        return replace(self, now=self.now + timedelta(seconds=seconds))

    def stored(self) -> World:
        """Write the status of the plan and do nothing else."""
        return self.with_status(self.plan().status)

    def with_status(self, status: JobFlowStatus) -> World:
        """Set the status as the API server returns it: encoded as JSON and decoded."""
        status = msgspec.json.decode(msgspec.json.encode(status), type=JobFlowStatus)
        return replace(self, flow=msgspec.structs.replace(self.flow, status=status))

    def with_status_fields(self, **changes: Any) -> World:
        return self.with_status(msgspec.structs.replace(self.flow.status, **changes))

    def with_condition(self, step: str, **changes: Any) -> World:
        conditions, key = self.flow.status.conditions or {}, f"{self.flow.metadata.name}-{step}"
        changed = msgspec.structs.replace(conditions[key], **changes)
        return self.with_status_fields(conditions={**conditions, key: changed})

    def being_deleted(self) -> World:
        metadata = msgspec.structs.replace(self.flow.metadata, deletion_timestamp=self.now)
        return replace(self, flow=msgspec.structs.replace(self.flow, metadata=metadata))

    def apply(self, planned: Planned | None = None, *, write: bool = True) -> World:
        """Return the world after all actions of the plan, with its status stored if `write`."""
        planned = planned or self.plan()
        world = self
        for action in planned.plan.actions:
            world = world.apply_action(action)
        return world.with_status(planned.status) if write else world

    def apply_action(self, action: Action) -> World:
        """Return the world after one action that succeeds. A vcjob does not react to an abort."""
        match action:
            case CreateJob(guard=Guard(gone=name)) if self._has(name):
                return self
            case CreateJob():
                assert action.name not in self.jobs or action.name in self.deleted, "made twice"
                return self.with_job(self._made(action))
            case CreateClaim() | MoveClaim():
                return self.with_claim(action.name, None)
            case DeleteJob():
                assert self.jobs[action.name].metadata.uid == action.uid
                return replace(self, deleted=self.deleted | {action.name})
            case CommandFlow() | AbortJob():
                assert self.jobs[action.name].metadata.uid == action.uid
                key = action.key if isinstance(action, CommandFlow) else action.uid
                return replace(self, aborts={**self.aborts, key: self.now})
            case CancelFlow():
                return replace(self, cancels={**self.cancels, action.uid: self.now})
            case DeleteCommand():
                remaining = {n: c for n, c in (self.commands or {}).items() if n != action.name}
                return replace(self, commands=remaining)
            case ReadPods():
                found = PodsRead(tuple(self.live.get(action.uid, {}).values()))
                return replace(self, read={**self.read, action.uid: found})
            case DeleteFlow():
                assert action.uid == self.flow.metadata.uid
                return self.being_deleted()
        exists = action.name in self.jobs and action.name not in self.deleted
        return self if exists else self.with_missing(action.name)

    def _has(self, name: str) -> bool:
        """Whether a job of the flow has this name."""
        if name in self.deleted or name not in self.jobs:
            return False
        return KnownJobs(self.flow, self.jobs).owns(self.jobs[name])

    def _made(self, action: CreateJob) -> Job:
        if action.kind is WorkKind.FLOW:
            return observe(self.child_made(action))
        metadata = msgspec.convert(action.manifest["metadata"], ObjectMeta)
        return Job(
            metadata=msgspec.structs.replace(
                metadata, uid=f"uid-{action.name}", creation_timestamp=self.now
            ),
            spec=msgspec.convert(action.manifest["spec"], JobOutline),
        )

    def child_made(self, action: CreateJob) -> JobFlow:
        """The child flow as the API server stores it."""
        child = msgspec.convert(dict(action.manifest), JobFlow)
        metadata = msgspec.structs.replace(
            child.metadata, uid=f"uid-{action.name}", creation_timestamp=self.now
        )
        return msgspec.structs.replace(child, metadata=metadata)

    def settled(self) -> World:
        """Apply plans until a plan has nothing to do."""
        world = self
        for _ in range(10 + 2 * len(world.flow.steps)):
            planned = world.plan()
            if planned.nothing:
                return world
            world = world.apply(planned)
        raise AssertionError("plans without end")

    def run(self, outcome: Callable[[str], str] = lambda step: "Completed") -> World:
        """Run the flow to its end; `outcome` returns how the vcjob of a step ends."""
        world = self.settled()
        while not world.flow.final:
            live = [
                name
                for name, job in sorted(world.jobs.items())
                if name not in world.deleted and not job.ended
            ]
            world = world.later(1)
            for name in live:
                step = (world.jobs[name].metadata.annotations or {})[labels.STEP]
                world = world.ended(name, outcome(step))
            if not live and (wake := world.plan().plan.requeue_after) is not None:
                world = world.later(wake.total_seconds())
            elif not live:
                raise AssertionError(f"nothing can happen any more: {world.plan().phases}")
            world = world.settled()
        return world

    def ended(self, name: str, phase: str) -> World:
        job = self.jobs[name]
        status = job_status(phase, self.now, since=job.metadata.creation_timestamp)
        return self.with_job(msgspec.structs.replace(job, status=status))

    @property
    def end(self) -> tuple[str, str]:
        """The stored phase and reason of the flow."""
        return self.flow.status.state.phase, self.flow.status.state.reason

    @property
    def records(self) -> dict[str, JobRecord]:
        return {record.name: record for record in self.flow.status.job_status_list or ()}
