"""Worlds for tests of `plan`: a flow, the cluster as the flow sees it, and a small driver.

A world is a value; every `with_…` returns a new one. Methods take the names of steps, and
vcjobs follow from them: `flow("a", b="a").with_jobs(a="Completed")`. No decisions are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.jobtemplate import JobTemplate
from jobflow.api.flow.status import JobFlowStatus, JobRecord
from jobflow.api.flow.step import Step
from jobflow.api.meta import ObjectMeta
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job, JobCondition, JobOutline, JobState, JobStatus, TaskState
from jobflow.api.volcano.pod import Pod
from jobflow.core.names import format_attempt_name, format_job_name
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
    ReadPods,
)
from jobflow.core.planning.children import observe
from jobflow.core.planning.observed import FAILURES
from jobflow.core.planning.plan import plan
from jobflow.core.planning.view import (
    ClaimHolder,
    Held,
    Holder,
    PodsRead,
    ProbeResult,
    Refusal,
    View,
)
from jobflow.core.spec.concurrency import NO_GROUP, Group, Member
from support.plan.foreign_jobs import owner
from support.plan.plan_pods import pods_of
from support.plan.planned import Planned
from support.plan.steps import TEMPLATE_SPEC, after, template

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
FLOW_UID = "uid-f"
PHASES_BEFORE = {
    "": (),
    "Pending": ("Pending",),
    "Running": ("Pending", "Running"),
    "Restarting": ("Pending", "Running", "Restarting"),
}


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


def job_status(phase: str, at: datetime, *, since: datetime | None = None) -> JobStatus:
    """Every phase with its time, a second apart, as Volcano writes it; the last one is at `at`."""
    if not phase:
        return JobStatus()
    phases = PHASES_BEFORE.get(phase, ("Pending", "Running", phase))
    times = [max(since or NOW, at - timedelta(seconds=n)) for n in range(len(phases))][::-1]
    return JobStatus(
        state=JobState(phase=phase, last_transition_time=times[-1]),
        conditions=[
            JobCondition(status=word, last_transition_time=time)
            for word, time in zip(phases, times, strict=True)
        ],
        task_status_count={"t": TaskState(phase={phase: 1})} if phase == "Running" else None,
    )


@dataclass(frozen=True)
class World:
    """A stored flow, the cluster as its View shows it, and the time."""

    flow: JobFlow
    templates: Mapping[str, JobTemplate]
    jobs: Mapping[str, Job] = field(default_factory=dict)
    parent: JobFlow | None = None
    deleted: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Names of vcjobs that ReadJob did not find."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    claims: Mapping[str, Refusal | ClaimHolder | None] = field(default_factory=dict)
    """Answers to CreateClaim; None: the claim exists."""
    group: Group = NO_GROUP
    """The other flows of the concurrency group."""
    cancels: Mapping[str, datetime] = field(default_factory=dict)
    held: Held | None = None
    commands: Mapping[str, Command] | None = field(default_factory=dict)
    aborts: Mapping[str, datetime] = field(default_factory=dict)
    pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Watched pods, by the UID of their vcjob and by name."""
    live: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Current pods, which ReadPods finds."""
    read: Mapping[str, PodsRead] = field(default_factory=dict)
    probes: Mapping[tuple[str, str], ProbeResult] = field(default_factory=dict)
    failed_pods_read: bool = True
    """Whether the pods of failed vcjobs have been read already. If a test sets none, there are
    none."""
    now: datetime = NOW

    @property
    def view(self) -> View:
        return View(
            templates=self.templates,
            jobs=self.jobs,
            parent=self.parent,
            deleted=self.deleted | (self.missing - self.jobs.keys()),
            holders=self.holders,
            refusals=self.refusals,
            claims=self.claims,
            group=self.group,
            cancels=self.cancels,
            held=self.held,
            commands=self.commands,
            aborts=self.aborts,
            pods=self.pods,
            read={**self._failed_pods_read(), **self.read},
            probes=self.probes,
        )

    def _failed_pods_read(self) -> dict[str, PodsRead]:
        failed = [job.metadata.uid for job in self.jobs.values() if job.phase in FAILURES]
        known = self.live.keys() | self.pods.keys()
        return {uid: PodsRead() for uid in failed if uid not in known and self.failed_pods_read}

    def plan(self) -> Planned:
        return Planned(plan(self.flow, self.view, now=self.now), self)

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

    def name_of(self, step: str, run: int = 0, index: int | None = None) -> str:
        return format_attempt_name(format_job_name(self.flow.metadata.name, step, index=index), run)

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

    def outline(self, step: str) -> JobOutline:
        """Return the part of a vcjob's spec that a View keeps. Patches are ignored."""
        found = self.templates.get(self._template_names.get(step, ""))
        return msgspec.convert(found.spec if found else TEMPLATE_SPEC, JobOutline)

    @cached_property
    def _template_names(self) -> dict[str, str]:
        return {step.name: step.template_for(None) for step in reversed(self.flow.steps)}

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

    def with_claim(self, name: str, answer: Refusal | ClaimHolder | None) -> World:
        """Set the answer to the create of a PersistentVolumeClaim."""
        return replace(self, claims={**self.claims, name: answer})

    def with_group(self, *holders: str, before: Sequence[str] = (), moves: bool = False) -> World:
        """Set the other flows of the concurrency group, by name."""

        def members(names: Sequence[str]) -> tuple[Member, ...]:
            return tuple(Member(name, f"uid-{name}") for name in names)

        return replace(self, group=Group(members(holders), members(before), moves))

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
            case CreateJob(guard=Guard(gone=name)) if name in self.jobs.keys() - self.deleted:
                return self
            case CreateJob():
                assert action.name not in self.jobs or action.name in self.deleted, "made twice"
                return self.with_job(self._made(action))
            case CreateClaim():
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

    def _made(self, action: CreateJob) -> Job:
        if action.is_flow:
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
