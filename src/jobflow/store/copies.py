"""The store: indexed copies of flows, templates, CronJobFlows, jobs, pods, Commands and queues.
Reflectors (`feeds`) and the answers to the controller's writes (`Cache.learn`) change it."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, ObjectMeta, Struct
from jobflow.api.volcano.command import Command, targets
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.cron import belongs_to
from jobflow.core.manifests.volume_claims import may_have_taken
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.work import work_of_object
from jobflow.kube.cache import Cache, Key
from jobflow.store.groups import Groups
from jobflow.store.indexes import Owners, Reusers, TemplateJobs, discard, find_owner
from jobflow.store.pods import Pods, is_recorded, recorded_ends
from jobflow.store.slim import slim_job

EMPTY: Mapping[str, Any] = {}


class QueueStatus(Struct):
    state: str = ""


class Queue(Struct):
    """`scheduling.volcano.sh/v1beta1` Queue."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class Listener:
    """Called after the store has applied a change: (None, new) is an addition, (last, None) a
    deletion. Each method does nothing unless it is overridden."""

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """A flow has changed."""

    def group_changed(self, flows: Sequence[Key]) -> None:
        """These flows may start, or act, because another of their concurrency group has changed."""

    def cron_changed(self, old: CronJobFlow | None, new: CronJobFlow | None) -> None:
        """A CronJobFlow has changed."""

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """A template has changed."""

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """A job, or a child flow as its parent sees it, has changed."""

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that the store keeps has changed (`store.pods`)."""

    def command_changed(self, command: Command) -> None:
        """A Command on a flow was added, changed or deleted."""


class Store:
    """A cache of each kind, and its indexes. A method takes time in proportion to its result."""

    def __init__(self, *, pods: bool = True) -> None:
        """`pods`: whether pods are followed, which only a controller needs."""
        self.has_pods = pods
        self.synced = asyncio.Event()
        """Set once flows, templates and jobs have been listed, and the API server has answered for
        every other kind, with a list or an error."""
        self.listed = asyncio.Event()
        """Set once flows, templates and jobs have been listed: then the flow of a pod is known."""
        self.listeners: list[Listener] = []
        self.flows = Cache[JobFlow](self._flow_changed)
        self.templates = Cache[JobTemplate](self._template_changed)
        self.crons = Cache[CronJobFlow](self._cron_changed)
        self.jobs = Cache[Job](self._job_changed, slim=slim_job)
        self.commands = Cache[Command](self._command_changed)
        self.queues = Cache[Queue]()
        self.owners = Owners()
        """The flow of each job."""
        self.pods = Pods(self.flows, self.jobs, self.owners, self._pod_changed)
        self.template_jobs = TemplateJobs(self.jobs)
        self.groups = Groups(self.parent_of)
        """The concurrency groups of flows."""
        self.reusers = Reusers()
        """The flows that reuse each flow."""
        self._templates: dict[str, dict[str, JobTemplate]] = {}
        self._users: dict[Key, dict[str, None]] = {}
        self._flows_of: dict[str, dict[str, JobFlow]] = {}
        self._takers: dict[str, dict[str, JobFlow]] = {}
        self._jobs_of: dict[str, dict[str, Job]] = {}
        self._gone: dict[str, dict[str, Job]] = {}
        self._commands: dict[Key, dict[str, Command]] = {}
        self._commands_hidden = False
        """Whether plans may have ignored Commands that the copy holds."""
        self.started_over = asyncio.Event()
        """Set when a copy was replaced because the API server went back in time: what is known from
        before, here and elsewhere, may not be true."""
        followed = (self.flows, self.templates, self.jobs, self.queues, self.crons, self.commands)
        copies: set[Cache[Any]] = {*followed, self.pods.cache}
        for each in copies:
            # any of them may be the last that was missing
            each.on_state = self._update_synced
            each.on_start_over = partial(self._start_over, copies - {each})
        self.commands.on_state = self._commands_state_changed

    def templates_in(self, namespace: str) -> Mapping[str, JobTemplate]:
        """Return all templates of a namespace by name: a view that changes with the store."""
        return self._templates.get(namespace, EMPTY)

    def queue_states(self) -> Mapping[str, str] | None:
        """Return the state of each queue by name ("" if Volcano has not set one yet). None if
        queues cannot be read at present."""
        if not self.queues.served or self.queues.failing:
            return None
        return {queue.metadata.name: queue.status.state for queue in self.queues}

    def flows_using(self, namespace: str, template: str) -> list[JobFlow]:
        """Return the flows of the namespace with a step that may use this template, also in a case
        of its switch or in `finally`. Ended flows are included."""
        names = self._users.get((namespace, template), EMPTY)
        # the index has names only, so that it keeps no old objects
        found = (self.flows.get(namespace, name) for name in names)
        return [flow for flow in found if flow is not None]

    def reused_by(self, flow: JobFlow) -> list[str]:
        """Return the names of the flows that have not ended and reuse a flow."""
        return self.reusers.of(flow.metadata.namespace, flow.metadata.name, flow.metadata.uid)

    def is_awaited(self, flow: JobFlow) -> bool:
        """Whether the CronJobFlow of a flow waits for it, or may do so, because it is not known."""
        owner = flow.metadata.controller
        if owner is None or owner.kind != CRONJOBFLOWS.kind:
            return False
        cron = self.crons.get(flow.metadata.namespace, owner.name)
        if cron is None:
            return not self.crons.synced
        return cron.status.waits_for == flow.metadata.name and belongs_to(flow, cron.metadata)

    def flows_of(self, cron: CronJobFlow) -> list[JobFlow]:
        """Return the flows that a CronJobFlow controls."""
        found = self._flows_of.get(cron.metadata.uid, EMPTY).values()
        return [flow for flow in found if belongs_to(flow, cron.metadata)]

    def jobs_of(self, flow_uid: str) -> Mapping[str, Job]:
        """Return the jobs and child flows of a flow by name, and the last state of those that were
        deleted before the flow's status recorded them (`deleted_of`)."""
        live = self._jobs_of.get(flow_uid, EMPTY)
        return {**self._gone.get(flow_uid, EMPTY), **live}

    def deleted_of(self, flow_uid: str) -> frozenset[str]:
        """Return the names in `jobs_of` that were deleted."""
        gone = self._gone.get(flow_uid)
        if not gone:
            return frozenset()
        return frozenset(gone.keys() - self._jobs_of.get(flow_uid, EMPTY).keys())

    def unrecorded(self) -> Iterator[Job]:
        """Yield the jobs whose end is not recorded in the status of their flow. Looks at every
        flow, so call it once a term."""
        for flow in self.flows:
            jobs = self._jobs_of.get(flow.metadata.uid, EMPTY)
            if jobs and not flow.final:
                recorded = recorded_ends(flow)
                for name, job in jobs.items():
                    if job.ended and name not in recorded and work_of_object(job).has_pods:
                        yield job

    def commands_of(self, namespace: str, flow: str) -> Mapping[str, Command] | None:
        """Return the Commands by name whose target is a flow of this name, with any UID; None if
        Commands are not known."""
        # a Command that is not known yet may be the one that cancels the flow
        if not self.commands.synced:
            return None
        return self._commands.get((namespace, flow), EMPTY)

    @property
    def follows_pods(self) -> bool:
        """Whether the copy of pods is up to date; if not, a job may have pods that it lacks. True
        if pods are forbidden, because then no pod can be read at all."""
        cache = self.pods.cache
        return cache.served is False or (cache.synced and not cache.failing)

    @property
    def is_followed(self) -> bool:
        """Whether flows, templates and jobs can be followed at present. While they cannot, the API
        server may go back in time unnoticed."""
        needed = (self.flows, self.templates, self.jobs)
        return not any(cache.failing or cache.served is False for cache in needed)

    def children_of(self, flow_uid: str) -> Iterator[Key]:
        """Yield the keys of the child flows of a flow that exist."""
        for name, job in self._jobs_of.get(flow_uid, EMPTY).items():
            if work_of_object(job).has_steps:
                yield job.metadata.namespace, name

    def claim_takers(self, namespace: str) -> Collection[JobFlow]:
        """Return the flows of a namespace that may have taken volume claims of others."""
        return self._takers.get(namespace, EMPTY).values()

    def parent_of(self, flow: JobFlow) -> JobFlow | None:
        """Return the parent of a flow; None if the flow is no child, or its parent is gone."""
        owner = self.owners.of(flow)
        parent = self.flows.get(flow.metadata.namespace, owner.name) if owner else None
        return parent if parent and owner and parent.metadata.uid == owner.uid else None

    def _flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        assert flow is not None
        namespace, uid = flow.metadata.namespace, flow.metadata.uid
        self._index_templates(old, new)
        before = old.metadata.controller if old is not None else None
        if old is not None and before is not None:
            discard(self._flows_of, before.uid, old.metadata.name)
        after = new.metadata.controller if new is not None else None
        if new is not None and after is not None:
            self._flows_of.setdefault(after.uid, {})[new.metadata.name] = new
        if new is not None and may_have_taken(new):
            self._takers.setdefault(namespace, {})[new.metadata.name] = new
        elif takers := self._takers.get(namespace):
            takers.pop(flow.metadata.name, None)  # a deletion may show more than was known
        # jobs whose UID the flow has got or lost, if it is not their controller
        for name in self.owners.flow_changed(old, new):
            child, job = self.flows.get(namespace, name), self.jobs.get(namespace, name)
            for found in (job, observe(child) if child is not None else None):
                if found is not None and not found.metadata.is_owned_by(flow.metadata):
                    self._move(found, uid)
        if new is None:
            self._gone.pop(uid, None)
        elif gone := self._gone.get(uid):
            for name in [name for name, last in gone.items() if is_recorded(new, last)]:
                discard(self._gone, uid, name)
        self.pods.flow_changed(old, new)
        self.reusers.flow_changed(old, new)
        # flows that wait for the places of this one
        others = self.groups.update(old, new) + self._order_children(old, new)
        # a child flow is among the jobs of its parent, as a plan of the parent sees it
        old_child = observe(old) if old is not None and self.owners.of(old) else None
        new_child = observe(new) if new is not None and self.owners.of(new) else None
        if old_child != new_child:
            self._index_job(old_child, new_child)
            for listener in self.listeners:
                listener.job_changed(old_child, new_child)
        for listener in self.listeners:
            listener.flow_changed(old, new)
            if others:
                listener.group_changed(others)

    def _order_children(self, old: JobFlow | None, new: JobFlow | None) -> list[Key]:
        """Take in that the child flows of a flow wait in its order, if that has changed."""
        if new is None or (old is not None and old.status.queued_time == new.status.queued_time):
            return []
        found: list[Key] = []
        for key in self.children_of(new.metadata.uid):
            if (child := self.flows.get(*key)) is not None:
                found += self.groups.update(child, child) + self._order_children(None, child)
        return found

    def _index_templates(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        assert flow is not None
        if old is not None and new is not None and old.metadata.generation is not None:
            # most events change only metadata and status
            one, other = old.metadata, new.metadata
            if (one.uid, one.generation) == (other.uid, other.generation):
                return
        # a step that may use a template needs it as much as one that does
        before = set(old.templates) if old is not None else set()
        after = set(new.templates) if new is not None else set()
        namespace, name = flow.metadata.namespace, flow.metadata.name
        for template in after - before:
            self._users.setdefault((namespace, template), {})[name] = None
        for template in before - after:
            discard(self._users, (namespace, template), name)

    def _cron_changed(self, old: CronJobFlow | None, new: CronJobFlow | None) -> None:
        for listener in self.listeners:
            listener.cron_changed(old, new)

    def _template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        if new is not None:
            meta = new.metadata
            self._templates.setdefault(meta.namespace, {})[meta.name] = new
        elif old is not None:
            discard(self._templates, old.metadata.namespace, old.metadata.name)
        for listener in self.listeners:
            listener.template_changed(old, new)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        self._index_job(old, new)
        self.pods.job_changed(old, new)
        self.template_jobs.job_changed(old, new)
        for listener in self.listeners:
            listener.job_changed(old, new)

    def _index_job(self, old: Job | None, new: Job | None) -> None:
        before = self.owners.of(old) if old is not None else None
        after = self.owners.of(new) if new is not None else None
        held = None
        if old is not None and before:
            held = self._jobs_of[before.uid].get(old.metadata.name)
            if before != after:
                discard(self._jobs_of, before.uid, old.metadata.name)
        if new is not None and after:
            jobs = self._jobs_of.setdefault(after.uid, {})
            jobs[new.metadata.name] = with_counts_of(held, new)
        if new is None and old is not None and before:
            # its flow may not have recorded yet how it ended
            last = with_counts_of(held, old)
            flow = self.flows.get(last.metadata.namespace, before.name)
            is_current = flow is not None and flow.metadata.uid == before.uid
            if flow is not None and is_current and not is_recorded(flow, last):
                self._gone.setdefault(before.uid, {})[last.metadata.name] = last

    def _move(self, job: Job, flow_uid: str) -> None:
        """Index a job below its owner, and not below this flow if that is another one."""
        name, named = job.metadata.name, find_owner(job)
        # it may be below several flows until its owner is known
        for uid in {flow_uid, flow_uid if named is None else named.uid}:
            held = self._jobs_of.get(uid, EMPTY).get(name)
            if held is not None and held.metadata.uid == job.metadata.uid:
                discard(self._jobs_of, uid, name)
        if (owner := self.owners.of(job)) is not None:
            self._jobs_of.setdefault(owner.uid, {})[name] = job

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for listener in self.listeners:
            listener.pod_changed(old, new)

    def _command_changed(self, old: Command | None, new: Command | None) -> None:
        if old is not None and (flow := flow_of(old)) is not None:
            discard(self._commands, flow, old.metadata.name)
        if new is not None and (flow := flow_of(new)) is not None:
            self._commands.setdefault(flow, {})[new.metadata.name] = new
        for command in (old, new):
            if command is not None and flow_of(command) is not None:
                for listener in self.listeners:
                    listener.command_changed(command)

    def _commands_state_changed(self) -> None:
        """Call listeners for every Command once Commands are known again."""
        # plans read no Commands while the copy may lack some
        hidden, self._commands_hidden = self._commands_hidden, not self.commands.synced
        if hidden and not self._commands_hidden:
            for command in list(self.commands):
                self._command_changed(None, command)
        self._update_synced()

    def _start_over(self, others: Set[Cache[Any]], expected: bool) -> None:
        """Forget deleted jobs: they may be lost, and their flows may not have run them yet. Let the
        other copies start over too, if one shows that the server went back in time."""
        self._gone.clear()
        self.started_over.set()
        if not expected:
            for each in others:
                each.suspect = True

    def _update_synced(self) -> None:
        if not all(cache.synced for cache in (self.flows, self.templates, self.jobs)):
            return
        self.listed.set()
        answered = [self.commands.answered, self.queues.answered, self.crons.answered]
        answered += [self.pods.cache.answered] if self.has_pods else []
        if all(answered):
            self.synced.set()


def flow_of(command: Command) -> Key | None:
    """Return the namespace and name of a Command's flow; None if its target is not a flow."""
    target = command.target
    if target is None or not targets(command, JOBFLOWS.api_version, JOBFLOWS.kind):
        return None
    return command.metadata.namespace, target.name


def with_counts_of(last: Job | None, job: Job) -> Job:
    """Return the job with its last known task counts: Volcano drops them 10 ms after the end, and
    both changes may come before a plan."""
    if last is None or job.status.task_status_count or last.metadata.uid != job.metadata.uid:
        return job
    counts = last.status.task_status_count
    if not counts:
        return job
    status = msgspec.structs.replace(job.status, task_status_count=counts)
    return msgspec.structs.replace(job, status=status)
