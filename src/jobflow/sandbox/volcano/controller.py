"""Job controller and scheduler of the sandbox: runs vcjobs against any API server.

`state_machine`, `policies` and `job_queue` decide, and a runner runs the pods. All state can be
lost at any moment: a new controller continues from the vcjobs and pods that it finds.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from jobflow.api.duration import MAX_SECONDS
from jobflow.api.resources import COMMANDS, JOBS, PODS
from jobflow.api.volcano.command import Command, targets
from jobflow.api.volcano.job import ENDED_PHASES, JobPhase, JobStatus
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.kube.cache import Cache, full_name
from jobflow.kube.client import Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.jobs import policies
from jobflow.sandbox.jobs.job_queue import JobQueue
from jobflow.sandbox.jobs.objects import (
    Vcjob,
    VcjobObject,
    build_pod,
    pod_facts,
    read_vcjob,
    template_faults,
)
from jobflow.sandbox.jobs.state_machine import INVALID, invalid_status, step
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import Clock, utc_now
from jobflow.sandbox.volcano.node import SandboxNode
from jobflow.sandbox.volcano.writes import Gone, Refused, Writes

log = structlog.get_logger(__name__)

REFUSALS = 15
"""Refused writes after which a vcjob is terminated (Volcano's maxRequeueNum)."""


@dataclass(eq=False)
class TrackedJob:
    job: Vcjob
    faults: Sequence[str]
    queue: JobQueue = field(default_factory=JobQueue)
    backoff: ExponentialBackoff = field(
        default_factory=lambda: ExponentialBackoff(first=0.005, most=30.0)
    )
    refusals: int = 0
    not_before: datetime | None = None
    """Time of the next attempt after a failure."""
    worker: asyncio.Task[None] | None = None
    alarm: asyncio.TimerHandle | None = None
    expired: bool = False

    @property
    def uid(self) -> str:
        return self.job.metadata.uid

    @property
    def name(self) -> str:
        return full_name(self.job)

    @property
    def expiry(self) -> datetime | None:
        """Time at which the vcjob is deleted; None if never, or not yet known."""
        ttl, state = self.job.spec.ttl_seconds_after_finished, self.job.status.state
        ended = state.last_transition_time
        if ttl is None or ended is None or self.expired or self.job.is_deleted:
            return None
        if self.job.phase not in ENDED_PHASES - {JobPhase.ABORTED}:  # it can be resumed
            return None
        return ended + timedelta(seconds=min(ttl, MAX_SECONDS))

    def stop_alarm(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None


class JobController:
    """Runs all vcjobs of an API server. `run` may be awaited once."""

    def __init__(self, client: Client, runner: Runner, *, clock: Clock = utc_now) -> None:
        self._runner = runner
        self._clock = clock
        self._writes = Writes(client)
        self._jobs = Cache[VcjobObject](self._job_changed)
        self._pods = Cache[Pod](self._pod_changed)
        self._reflectors = (
            Reflector(client, JOBS, VcjobObject, self._jobs),
            Reflector(client, PODS, Pod, self._pods, query=[("labelSelector", JOB_NAME)]),
        )
        self._commands = Reflector(client, COMMANDS, Command, Cache[Command](self._command_changed))
        self._new_commands = asyncio.Queue[Command]()
        self._tasks: asyncio.TaskGroup | None = None
        self._node: SandboxNode | None = None
        self._tracked: dict[str, TrackedJob] = {}
        self._pods_of: dict[str, dict[str, Pod]] = {}
        """By the UID of their vcjob, and their names."""
        self._facts_of: dict[str, dict[str, policies.PodFacts]] = {}
        self._deleted: set[str] = set()
        """UIDs of the pods that the controller deleted and that still exist."""

    async def run(self) -> None:
        synced = asyncio.Event()

        def check_synced() -> None:
            if self._jobs.synced and self._pods.synced:
                synced.set()

        self._jobs.on_state = self._pods.on_state = check_synced
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors:
                    tasks.create_task(reflector.run())
                # Before both copies are complete, an existing pod would look missing and be created
                # again.
                await synced.wait()
                self._tasks = tasks
                self._node = SandboxNode(
                    self._runner, self._writes, tasks, self._pods.learn, self._clock
                )
                for job in list(self._jobs):
                    self._track(job)
                for pod in [pod for pods in self._pods_of.values() for pod in pods.values()]:
                    self._run_pod(pod)
                tasks.create_task(self._commands.run())
                tasks.create_task(self._execute_commands())
        finally:
            self._tasks = self._node = None
            for tracked in self._tracked.values():
                tracked.stop_alarm()

    def _job_changed(self, old: VcjobObject | None, new: VcjobObject | None) -> None:
        if self._tasks is None:
            return
        if new is None:
            if old is not None and (gone := self._tracked.pop(old.metadata.uid, None)):
                gone.stop_alarm()
        elif (tracked := self._tracked.get(new.metadata.uid)) is None:
            self._track(new)
        else:
            phase, tracked.job = tracked.job.phase, read_vcjob(new)
            tracked.faults = self._faults(tracked.job)
            # Its own writes of counts come back by the watch and must not cause another sync.
            if old is None or bytes(old.spec) != bytes(new.spec) or phase != tracked.job.phase:
                self._offer(tracked, policies.SYNC)

    def _track(self, stored: VcjobObject) -> None:
        job = read_vcjob(stored)
        tracked = self._tracked[job.metadata.uid] = TrackedJob(job, self._faults(job))
        facts = self._facts_of.get(tracked.uid, {})
        for name, pod in list(self._pods_of.get(tracked.uid, {}).items()):
            tracked.queue.offer(policies.pod_request(None, facts[name], job.spec, facts))
            self._run_pod(pod)
        self._offer(tracked, policies.SYNC)

    def _faults(self, job: Vcjob) -> Sequence[str]:
        if job.fault or job.phase in ENDED_PHASES:
            return [job.fault] if job.fault else []
        faults = (*policies.policy_faults(job.spec), *template_faults(job.spec))
        return [*faults, *self._runner.faults(job)]

    def _offer(self, tracked: TrackedJob, request: policies.JobRequest) -> None:
        tracked.queue.offer(request)
        self._wake(tracked)

    def _wake(self, tracked: TrackedJob) -> None:
        if self._tasks is not None and tracked.worker is None:
            work = self._work(tracked)
            try:
                tracked.worker = self._tasks.create_task(work)
            except RuntimeError:  # the task group is closing: no task may start
                work.close()

    def _command_changed(self, old: Command | None, new: Command | None) -> None:
        # A Command acts once, when it appears; changes of it mean nothing.
        if old is None and new is not None and targets(new, JOBS.api_version, JOBS.kind):
            self._new_commands.put_nowait(new)

    async def _execute_commands(self) -> None:
        """Delete each Command, then execute it, one at a time (Volcano's addCommand and
        processNextCommand). Its target is found by name."""
        while True:
            command = await self._new_commands.get()
            meta, target, action = command.metadata, command.target, policies.BusAction.SYNC
            assert target is not None
            try:
                # The first DELETE wins, so that no Command acts twice.
                await self._writes.delete(COMMANDS, meta)
            except Gone:
                continue  # somebody else executes it
            except Refused as error:
                log.warning("command cannot be deleted", command=meta.name, error=str(error))
                continue
            if command.action in set(policies.BusAction):
                action = policies.BusAction(command.action)
            stored = self._jobs.get(meta.namespace, target.name)
            if stored is not None and (tracked := self._tracked.get(stored.metadata.uid)):
                issued = policies.BusEvent.COMMAND_ISSUED
                self._offer(tracked, policies.JobRequest(issued, action))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None and old.owner:
            for pods in (self._pods_of, self._facts_of):
                pods[old.owner].pop(old.metadata.name, None)
                if not pods[old.owner]:
                    del pods[old.owner]
            # A pod that somebody else deleted counts as evicted, and policies may answer.
            is_ours = old.metadata.uid in self._deleted
            self._deleted.discard(old.metadata.uid)
            if self._node is not None:
                self._node.forget(old)
            if (tracked := self._tracked.get(old.owner)) is not None:
                evicted = policies.evicted_request(pod_facts(old))
                self._offer(tracked, policies.SYNC if is_ours else evicted)
        if new is None or not new.owner:
            return
        name = new.metadata.name
        self._pods_of.setdefault(new.owner, {})[name] = new
        facts = self._facts_of.setdefault(new.owner, {})
        facts[name] = pod_facts(new, is_deleted=new.metadata.uid in self._deleted)
        if self._node is None:
            return
        # Its creation is known to the microsecond only now; later to the second.
        if old is None:
            self._node.begin(new)
        if (tracked := self._tracked.get(new.owner)) is not None:
            before = pod_facts(old) if old is not None else None
            self._offer(tracked, policies.pod_request(before, facts[name], tracked.job.spec, facts))
        self._run_pod(new)

    def _run_pod(self, pod: Pod) -> None:
        assert self._node is not None
        tracked = self._tracked.get(pod.owner)
        siblings = self._pods_of[pod.owner].values()
        self._node.handle(pod, tracked.job if tracked is not None else None, siblings)

    async def _work(self, tracked: TrackedJob) -> None:
        """Execute all that is due for a vcjob; what is due later wakes it by an alarm."""
        while self._tracked.get(tracked.uid) is tracked:
            now = self._clock()
            # An alarm wakes it when the pause after a failure ends.
            if tracked.not_before is not None and now < tracked.not_before:
                break
            facts = self._facts_of.get(tracked.uid, {})
            request = tracked.queue.take(tracked.job.spec, tracked.job.status, facts, now)
            if request is None:
                if (expiry := tracked.expiry) is None or expiry > now:
                    break
                # One request is enough: the garbage collector waits for the pods.
                tracked.expired, meta = True, tracked.job.metadata
                try:
                    with suppress(Gone):
                        await self._writes.delete(JOBS, meta, propagationPolicy="Foreground")
                except Refused as error:
                    log.warning("vcjob cannot be deleted", job=tracked.name, error=str(error))
                continue
            try:
                await self._execute(tracked, request)
                tracked.refusals, tracked.not_before = 0, None
                tracked.backoff.reset()
                continue
            except Gone:
                pass
            except Refused as error:
                tracked.refusals += 1
                # One Event for a series of refusals; the log has all of them.
                if tracked.refusals == 1:
                    await self._warn(tracked, "FailedCreate", str(error))
                if tracked.refusals == REFUSALS:
                    # Terminating needs no further pods, so it may succeed where creating did not.
                    tracked.queue.offer(policies.JobRequest(action=policies.BusAction.TERMINATE))
                    continue
                if tracked.refusals > REFUSALS:
                    log.error("giving a vcjob up", job=tracked.name, error=str(error))
                    continue
            tracked.queue.put_back(request)
            tracked.not_before = self._clock() + timedelta(seconds=tracked.backoff.next())
        tracked.worker = None
        tracked.stop_alarm()
        if self._tracked.get(tracked.uid) is not tracked:
            return
        moments = [tracked.not_before, tracked.queue.next_due, tracked.expiry]
        if due := min((moment for moment in moments if moment is not None), default=None):
            wait = max(0.0, (due - self._clock()).total_seconds())
            tracked.alarm = asyncio.get_running_loop().call_later(wait, self._wake, tracked)

    async def _execute(self, tracked: TrackedJob, request: policies.JobRequest) -> None:
        now, job = self._clock(), tracked.job
        # Without a webhook of Volcano here, the controller refuses what cannot run. The write ends
        # the job, which then has no faults any more.
        if (faults := tracked.faults) and job.phase not in ENDED_PHASES:
            await self._store(tracked, invalid_status(job.status, faults, now))
            await self._warn(tracked, INVALID, "; ".join(faults))
            return
        changes = step(job, self._facts_of.get(tracked.uid, {}), request, now)
        # Pods first: if a write fails, the status still says what is left to do.
        await _all(self._delete(tracked, pod) for pod in changes.delete)
        await _all(self._create(tracked, task, index) for task, index in changes.create)
        tracked.queue.done(request)
        if changes.status != job.status:
            await self._store(tracked, changes.status)

    async def _store(self, tracked: TrackedJob, status: JobStatus) -> None:
        self._jobs.learn(await self._writes.set_job_status(tracked.job.metadata, status))

    async def _create(self, tracked: TrackedJob, task: int, index: int) -> None:
        manifest = build_pod(tracked.job, (tracked.job.spec.tasks or [])[task], index)
        pod = await self._writes.create_pod(tracked.job.metadata.namespace, manifest)
        # The name is free only after the garbage collector has deleted the pod of another vcjob.
        if pod.owner != tracked.uid:
            raise Gone
        # The next sync must not create it again before the watch brings it.
        self._pods.learn(pod)

    async def _delete(self, tracked: TrackedJob, pod: policies.PodFacts) -> None:
        """Delete a pod, which counts as terminating until the watch confirms that it is gone."""
        target = self._pods_of.get(tracked.uid, {}).get(pod.name)
        if target is None or target.metadata.uid != pod.uid or self._node is None:
            return
        # Marked before the request, because the watch may report the end before the answer.
        self._facts_of[tracked.uid][pod.name] = replace(pod, deleting=True)
        self._deleted.add(pod.uid)
        try:
            await self._node.delete(target)
        except Refused:
            self._deleted.discard(pod.uid)
            raise

    async def _warn(self, tracked: TrackedJob, reason: str, message: str) -> None:
        log.warning(reason, job=tracked.name, message=message)
        try:
            await self._writes.warn(JOBS, tracked.job.metadata, reason, message, self._clock())
        except Refused as error:
            log.warning("event refused", job=tracked.name, error=str(error))


async def _all(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    for result in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
