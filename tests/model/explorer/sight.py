"""The controller's view of a state, as `store` and `Answers` build it, and its plan."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobCondition, JobState, JobStatus, TaskState
from jobflow.core.planning.actions import CreateJob, Plan
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.identity import known_runs
from jobflow.core.planning.observed.view import PodsRead, View
from jobflow.core.planning.plan import plan as real_plan
from jobflow.core.spec.concurrency import NO_GROUP, Group, GroupMember
from jobflow.store.groups import Groups
from jobflow.store.pods import entries, recorded_ends
from jobflow.store.slim import slim_job
from model.explorer import states
from model.explorer.configurations import Configuration
from model.explorer.reusing_flows import CHILDREN
from model.explorer.states import State, Vcjob
from model.explorer.statuses import Statuses
from support.plan.plan_world import World
from support.plan.world_state import NOW

Planner = Callable[[JobFlow, View, datetime], Plan]
OTHER = GroupMember("other", "uid-other")
"""The other flow of the concurrency group."""
MAX_PLANS = 20_000
"""The number of cached plans: many states look the same to the controller."""


def planned(flow: JobFlow, view: View, now: datetime) -> Plan:
    """Return the plan that `plan` makes."""
    return real_plan(flow, view, now=now)


class Sight:
    """Views and plans for the states of one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        planner: Planner = planned,
        parent: "Sight | None" = None,
    ) -> None:
        self.configuration = configuration
        self.flow_name = configuration.world.flow.metadata.name
        self.parent = parent
        """The sight of the flow of which this one is a child."""
        self.statuses = Statuses()
        self._planner = planner
        self._manifests: dict[bytes, int] = {}
        self._sent: list[bytes] = []
        """The manifests by their number."""
        self._children: dict[str, Sight] = {}
        self._jobs: dict[Hashable, Job] = {}
        self._plans: dict[Hashable, Plan] = {}

    def plan(self, state: State, *, after: int = 0) -> Plan:
        """Return the controller's plan, now or so many seconds later."""
        now = state.now + after
        jobs = tuple(
            (j.uid, j.manifest, j.phases[: j.seen], j.seen_gone, j.read, j.edited)
            + (j.child and j.child.known,)
            for j in state.jobs
            if j.seen
        )
        remembered = state.not_found, state.aborts, state.answers, state.known_claims
        beside = tuple((job.uid, job.child and job.child.flow) for job in state.beside)
        others = state.busy, state.cancelled_at, state.parent, state.source_gone, beside
        key = state.known, now, jobs, remembered, others, state.known_commands, state.missing
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) > MAX_PLANS:
                self._plans.clear()
            at = NOW + timedelta(seconds=now)
            plan = self._planner(self.flow(state.known), self.view(state), at)
            self._plans[key] = plan
        return plan

    def idles(self, state: State) -> bool:
        """Whether the controller has nothing to do."""
        plan = self.plan(state)
        return not plan.actions and plan.status == state.known.status.value

    def flow(self, known: states.Flow) -> JobFlow:
        """The JobFlow object."""
        jobflow = self.configuration.world.flow
        meta = jobflow.metadata
        if known.terminating:
            meta = msgspec.structs.replace(meta, deletion_timestamp=NOW)
        return msgspec.structs.replace(jobflow, metadata=meta, status=known.status.value)

    def view(self, state: State) -> View:
        """Everything that a plan may use."""
        flow = self.flow(state.known)
        jobs: dict[str, Job] = {}
        deleted: set[str] = set()
        for vcjob in sorted(state.jobs, key=lambda job: not job.seen_gone):
            job = self._job(vcjob) if vcjob.seen else None
            if job is not None and vcjob.edited:
                job = _without_metadata(job) if vcjob.uid in self.known_uids(state.known) else None
            if job is None or (vcjob.seen_gone and _recorded(flow, job)):
                continue
            jobs[vcjob.name] = job
            (deleted.add if vcjob.seen_gone else deleted.discard)(vcjob.name)
        templates = self.configuration.world.templates
        return View(
            templates={n: template for n, template in templates.items() if n not in state.missing},
            jobs=jobs,
            source=None if state.source_gone else self.configuration.world.source,
            source_children=self.configuration.world.source_children,
            deleted=frozenset(deleted | (state.not_found - jobs.keys())),
            parent=None
            if self.parent is None or state.parent is None
            else self.parent.flow(state.parent),
            commands={
                command.name: _command(command, flow.metadata) for command in state.known_commands
            },
            claims=dict.fromkeys(state.known_claims),
            groups={
                (False, "g"): Group((OTHER,)) if state.busy else NO_GROUP,
                (True, "g"): self._group_of_steps(state),
            },
            cancels={}
            if state.cancelled_at is None
            else {OTHER.uid: NOW + timedelta(seconds=state.cancelled_at)},
            aborts={uid: NOW + timedelta(seconds=at) for uid, at in state.aborts},
            read={job.uid: PodsRead() for job in state.jobs if self._is_read(job)},
            answers=dict(state.answers),
        )

    def _group_of_steps(self, state: State) -> Group:
        """The group of the steps. The flows beside this one are there as stored, because the leader
        notes what it gives away before an answer shows it."""
        if state.busy:
            return Group((OTHER,))
        groups = Groups()
        for job in state.beside:
            assert self.parent is not None and job.child is not None
            groups.update(None, self.parent.of_child(job).flow(job.child.flow))
        return groups.of(self.flow(state.known), (True, "g"))

    def known_uids(self, flow: states.Flow) -> frozenset[str]:
        """Return the UIDs of the jobs that a status knows; no UUIDs, so it has them as they are."""
        return frozenset(run.uid for _, run in known_runs(self.flow(flow)))

    def _is_read(self, job: Vcjob) -> bool:
        ended = job.seen and job.phases[job.seen - 1][0] in ENDED_PHASES
        return bool(ended) and (job.read or not self.configuration.reads)

    # ------------------------------------------------------------------------ vcjobs and children

    def of_child(self, job: Vcjob) -> "Sight":
        """Return the sight of a child flow."""
        sight = self._children.get(job.uid)
        if sight is None:
            child = msgspec.json.decode(self._sent[job.manifest], type=JobFlow)
            meta = msgspec.structs.replace(child.metadata, uid=job.uid, creation_timestamp=NOW)
            child = msgspec.structs.replace(child, metadata=meta)
            source = None if child.spec.reuse is None else CHILDREN[child.spec.reuse.flow]
            world = World(child, self.configuration.world.templates, source=source)
            configuration = replace(self.configuration, world=world)
            sight = self._children[job.uid] = Sight(configuration, self._planner, self)
        return sight

    def manifest(self, action: CreateJob) -> int:
        """Return the number of the manifest of a vcjob or child flow that is being created."""
        sent = msgspec.json.encode(action.manifest)
        if sent not in self._manifests:
            self._manifests[sent] = len(self._sent)
            self._sent.append(sent)
        return self._manifests[sent]

    def _job(self, job: Vcjob) -> Job:
        """A vcjob or child flow as the controller last saw it."""
        if job.child is not None:
            return observe(self.of_child(job).flow(job.child.known))
        phases = job.phases[: job.seen]
        key = job.uid, job.manifest, phases
        found = self._jobs.get(key)
        if found is None:
            parsed = msgspec.json.decode(self._sent[job.manifest], type=Job)
            first = NOW + timedelta(seconds=phases[0][1])
            meta = msgspec.structs.replace(parsed.metadata, uid=job.uid, creation_timestamp=first)
            full = msgspec.structs.replace(parsed, metadata=meta, status=_status(phases))
            found = self._jobs[key] = slim_job(full)
        return found


def _without_metadata(job: Job) -> Job:
    meta = msgspec.structs.replace(
        job.metadata, labels=None, annotations=None, owner_references=None
    )
    return msgspec.structs.replace(job, metadata=meta)


def _status(phases: tuple[tuple[str, int], ...]) -> JobStatus:
    """Return the status as Volcano writes it: it counts pods only while a vcjob is Running."""
    conditions = [
        JobCondition(status=phase, last_transition_time=NOW + timedelta(seconds=at))
        for phase, at in phases
    ]
    phase = phases[-1][0]
    return JobStatus(
        state=JobState(phase=phase, last_transition_time=conditions[-1].last_transition_time),
        conditions=conditions,
        task_status_count={"t": TaskState(phase={phase: 1})} if phase == "Running" else None,
    )


def _command(command: states.Command, flow: ObjectMeta) -> Command:
    meta = ObjectMeta(name=command.name, namespace="ns", uid=command.uid, creation_timestamp=NOW)
    target = OwnerReference(
        api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=flow.name, uid=flow.uid
    )
    return Command(metadata=meta, action=command.action, target=target, message=command.message)


def _recorded(flow: JobFlow, last: Job) -> bool:
    """Whether the store forgets a deleted vcjob, because the flow's status knows it."""
    name = last.metadata.name
    if last.ended:
        return name in recorded_ends(flow)
    records = [record.name for record in flow.status.job_status_list or ()]
    known = [job for job, entry in entries(flow) if entry.job or entry.attempts]
    return name in (*records, *known)
