"""The store: indexed copies of flows, templates, vcjobs, their pods, Commands and queues.

Webhook and controller read it. It talks to nobody: reflectors (`feeds`) and the controller's own
writes (`learn_…`) bring it the objects, its listeners are told what changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from jobflow.api.command import Command, targets
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.pod import Pod
from jobflow.api.resources import JOBFLOWS
from jobflow.kube.cache import Cache, Key
from jobflow.store.pods import Pods, entries, recorded_ends
from jobflow.store.products import Products
from jobflow.store.slim import slim_job

EMPTY: Mapping[str, Any] = {}


class Store:
    """The copies and their indexes. All methods are O(answer); none waits."""

    def __init__(self, *, pods: bool = True) -> None:
        """`pods`: whether pods are followed, which only who carries flows out has a use for."""
        self.has_pods = pods
        self.flows = Cache[JobFlow](self._flow_changed)
        self.templates_cache = Cache[JobTemplate](self._template_changed)
        self.jobs = Cache[Job](self._job_changed, slim=slim_job)
        self.commands_cache = Cache[Command](self._command_changed)
        self.queues_cache = Cache[Queue](self._queue_changed)
        self.pods = Pods(self.flows, self.jobs, self._pod_changed)
        self.products = Products(self.jobs)
        self._templates: dict[str, dict[str, JobTemplate]] = {}
        self._users: dict[Key, dict[str, None]] = {}
        self._jobs_of: dict[str, dict[str, Job]] = {}
        self._gone: dict[str, dict[str, Job]] = {}
        self._commands: dict[Key, dict[str, Command]] = {}
        self._queues: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._synced, self._listed = asyncio.Event(), asyncio.Event()
        self._commands_hidden = False
        """Whether plans may have gone on without Commands that the copy holds."""
        self.flows.on_state = self.templates_cache.on_state = self.jobs.on_state = self._look
        self.commands_cache.on_state = self._look_at_commands
        self.queues_cache.on_state = self._look
        self.pods.cache.on_state = self._look

    # ------------------------------------------------------------------ reading

    @property
    def synced(self) -> bool:
        """Whether flows, templates and vcjobs have been listed once, and the API server has
        answered for every other kind, with a list or an error."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return as soon as `synced`."""
        await self._synced.wait()

    @property
    def listed(self) -> bool:
        """Whether flows, templates and vcjobs have been listed once: only then it can be said of a
        pod whether it is one of ours."""
        return self._listed.is_set()

    async def wait_listed(self) -> None:
        """Return as soon as `listed`."""
        await self._listed.wait()

    def flow(self, namespace: str, name: str) -> JobFlow | None:
        """The copy of a flow."""
        return self.flows.get(namespace, name)

    def template(self, namespace: str, name: str) -> JobTemplate | None:
        """The copy of a template."""
        return self.templates_cache.get(namespace, name)

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        """All templates of a namespace by name. Not to be kept: it changes with the store."""
        return self._templates.get(namespace, EMPTY)

    def queues(self) -> Mapping[str, str] | None:
        """State by queue name (`Open` …; empty where Volcano has not said yet); None if the kind is
        not served or cannot be followed at present."""
        known = self.queues_cache.served and not self.queues_cache.failing
        return self._queues if known else None

    def flows_using(self, namespace: str, template: str) -> list[JobFlow]:
        """The flows of the namespace with a step that may run this template, be it in a case of its
        switch or of `finally`; ended ones included."""
        names = self._users.get((namespace, template), EMPTY)
        found = (self.flows.get(namespace, name) for name in names)
        return [flow for flow in found if flow is not None]

    def jobs_of(self, flow_uid: str) -> Mapping[str, Job]:
        """vcjobs by name whose controller owner is the flow with this UID, as of now, and the last
        objects of those that were deleted before the flow's status told of them (`deleted_of`
        names these)."""
        live = self._jobs_of.get(flow_uid, EMPTY)
        return {**self._gone.get(flow_uid, EMPTY), **live}

    def deleted_of(self, flow_uid: str) -> frozenset[str]:
        """Which of `jobs_of` are gone from the cluster."""
        gone = self._gone.get(flow_uid)
        if not gone:
            return frozenset()
        return frozenset(gone.keys() - self._jobs_of.get(flow_uid, EMPTY).keys())

    def unrecorded(self) -> Iterator[Job]:
        """The vcjobs that have ended and of which the status of their flow does not tell it yet.
        Looks at every flow: for once a term."""
        for flow in self.flows:
            jobs = self._jobs_of.get(flow.metadata.uid, EMPTY)
            if jobs and not flow.final:
                told = recorded_ends(flow)
                yield from (job for name, job in jobs.items() if job.ended and name not in told)

    def commands_of(self, namespace: str, flow: str) -> Mapping[str, Command] | None:
        """The Commands, by name, whose target is a flow of this name, whatever its UID; None if
        they are not known."""
        if not self.commands_cache.synced:
            return None
        return self._commands.get((namespace, flow), EMPTY)

    @property
    def follows_pods(self) -> bool:
        """Whether the copy of pods is kept level. False: a vcjob of which no pod is known may have
        some all the same. True if pods are not ours to list: then none can be read either."""
        cache = self.pods.cache
        return cache.served is False or (cache.synced and not cache.failing)

    # ------------------------------------------------------------------ writing

    def learn_flow(self, flow: JobFlow) -> bool:
        """A flow as the API server has just answered with it. False: it has been deleted since."""
        return self.flows.learn(flow)

    def learn_job(self, job: Job) -> bool:
        """The same of a vcjob."""
        return self.jobs.learn(job)

    def learn_template(self, template: JobTemplate) -> bool:
        """The same of a template."""
        return self.templates_cache.learn(template)

    def subscribe(self, listener: Listener) -> None:
        """Tell it of every change from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """No longer."""
        self._listeners.remove(listener)

    # ------------------------------------------------------------------ indexes

    def _flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        self._index_templates(old, new)
        if new is None:
            assert old is not None
            self._gone.pop(old.metadata.uid, None)
        elif gone := self._gone.get(new.metadata.uid):
            for name in [name for name, last in gone.items() if _recorded(new, last)]:
                del gone[name]
            if not gone:
                del self._gone[new.metadata.uid]
        self.pods.flow_changed(old, new)
        for listener in self._listeners:
            listener.flow_changed(old, new)

    def _index_templates(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        assert flow is not None
        if old is not None and new is not None and _same_spec(old, new):
            return
        before = set(old.templates) if old is not None else set()
        after = set(new.templates) if new is not None else set()
        namespace, name = flow.metadata.namespace, flow.metadata.name
        for template in after - before:
            self._users.setdefault((namespace, template), {})[name] = None
        for template in before - after:
            users = self._users[namespace, template]
            del users[name]
            if not users:
                del self._users[namespace, template]

    def _template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        if new is not None:
            meta = new.metadata
            self._templates.setdefault(meta.namespace, {})[meta.name] = new
        elif old is not None:
            templates = self._templates[old.metadata.namespace]
            del templates[old.metadata.name]
            if not templates:
                del self._templates[old.metadata.namespace]
        for listener in self._listeners:
            listener.template_changed(old, new)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        before, after = owner_uid(old), owner_uid(new)
        held = None
        if old is not None and before:
            held = self._jobs_of[before].get(old.metadata.name)
            if before != after:
                self._forget(before, old.metadata.name)
        if new is not None and after:
            jobs = self._jobs_of.setdefault(after, {})
            jobs[new.metadata.name] = with_counts_of(held, new)
        if new is None and old is not None and before:
            self._keep(before, with_counts_of(held, old))
        self.pods.job_changed(old, new)
        self.products.job_changed(old, new)
        for listener in self._listeners:
            listener.job_changed(old, new)

    def _forget(self, flow_uid: str, name: str) -> None:
        jobs = self._jobs_of[flow_uid]
        del jobs[name]
        if not jobs:
            del self._jobs_of[flow_uid]

    def _keep(self, flow_uid: str, last: Job) -> None:
        """Remember what a deleted vcjob was, unless its flow remembers already or is gone too."""
        reference = last.metadata.controller
        assert reference is not None
        flow = self.flows.get(last.metadata.namespace, reference.name)
        if flow is None or flow.metadata.uid != flow_uid or _recorded(flow, last):
            return
        self._gone.setdefault(flow_uid, {})[last.metadata.name] = last

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for listener in self._listeners:
            listener.pod_changed(old, new)

    def _command_changed(self, old: Command | None, new: Command | None) -> None:
        if old is not None and (flow := flow_of(old)) is not None:
            commands = self._commands[flow]
            del commands[old.metadata.name]
            if not commands:
                del self._commands[flow]
        if new is not None and (flow := flow_of(new)) is not None:
            self._commands.setdefault(flow, {})[new.metadata.name] = new
        for command in (old, new):
            if command is not None and flow_of(command) is not None:
                for listener in self._listeners:
                    listener.command_changed(command)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is not None:
            self._queues[new.metadata.name] = new.status.state
        elif old is not None:
            del self._queues[old.metadata.name]

    def _look_at_commands(self) -> None:
        """Tell of every Command once they are known again: plans went on without them."""
        hidden, self._commands_hidden = self._commands_hidden, not self.commands_cache.synced
        if hidden and not self._commands_hidden:
            for command in list(self.commands_cache):
                self._command_changed(None, command)
        self._look()

    def _look(self) -> None:
        """See whether everything has been listed by now."""
        if not all(cache.synced for cache in (self.flows, self.templates_cache, self.jobs)):
            return
        self._listed.set()
        answered = [self.commands_cache.answered, self.queues_cache.answered]
        answered += [self.pods.cache.answered] if self.has_pods else []
        if all(answered):
            self._synced.set()


def owner_uid(job: Job | None) -> str:
    """The UID of the flow that controls a vcjob; empty where no JobFlow does."""
    reference = job.metadata.controller if job is not None else None
    return reference.uid if reference is not None and reference.kind == JOBFLOWS.kind else ""


def flow_of(command: Command) -> Key | None:
    """Which flow a Command is about, by namespace and name; None where it is about no flow."""
    target = command.target
    if target is None or not targets(command, JOBFLOWS.api_version, JOBFLOWS.kind):
        return None
    return command.metadata.namespace, target.name


def with_counts_of(last: Job | None, job: Job) -> Job:
    """The vcjob with the counts of its tasks that were last seen: Volcano drops them 10 ms after
    the end, and both changes may come before anybody has looked."""
    if last is None or job.status.task_status_count or last.metadata.uid != job.metadata.uid:
        return job
    counts = last.status.task_status_count
    if not counts:
        return job
    status = msgspec.structs.replace(job.status, task_status_count=counts)
    return msgspec.structs.replace(job, status=status)


def _same_spec(old: JobFlow, new: JobFlow) -> bool:
    """Whether nothing but metadata and status can have changed: what changes all the time."""
    before, after = old.metadata, new.metadata
    known = before.generation is not None and before.generation == after.generation
    return known and before.uid == after.uid


def _recorded(flow: JobFlow, last: Job) -> bool:
    """Whether the flow's status holds what is known of a deleted vcjob: how it ended or, where
    nobody saw that, at least that it was there."""
    name = last.metadata.name
    if last.ended:
        return name in recorded_ends(flow)
    told = [record.name for record in flow.status.job_status_list or ()]
    told += [job for job, entry in entries(flow) if entry.job or entry.attempts]
    return name in told


class QueueStatus(Struct, frozen=True, kw_only=True):
    """`status` of a Volcano Queue, as far as admission reads it."""

    state: str = ""


class Queue(Struct, frozen=True, kw_only=True):
    """`scheduling.volcano.sh/v1beta1` Queue."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class Listener(Protocol):
    """Told of every change, after the store has it. (None, new) added, (last, None) deleted."""

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None: ...

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None: ...

    def job_changed(self, old: Job | None, new: Job | None) -> None: ...

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Only of pods that the store keeps (`store.pods`)."""

    def command_changed(self, command: Command) -> None:
        """A Command on a flow came, changed or went."""
