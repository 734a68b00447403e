"""Job controller and scheduler of the sandbox: runs vcjobs against any API server.

`state_machine`, `policies` and `job_queue` decide, and a runner runs the pods. This module connects
them to watches, writes and clocks.

Level-triggered: its state can be lost at any moment, and a new controller continues from the vcjobs
and pods that it finds. The garbage collector deletes the pods of a deleted vcjob.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from jobflow.api.duration import MAX_SECONDS
from jobflow.api.resources import JOBS, PODS
from jobflow.api.volcano.job import ENDED_PHASES, JobPhase, JobStatus
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.kube.backoff import ExponentialBackoff
from jobflow.kube.cache import Cache, Key
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.api_writes import Gone, Refused, Writes
from jobflow.sandbox.jobs.job import Vcjob, VcjobObject, read_vcjob
from jobflow.sandbox.jobs.job_queue import JobQueue
from jobflow.sandbox.jobs.pods import build_pod, pod_facts, template_fault
from jobflow.sandbox.jobs.policies import (
    SYNC,
    BusAction,
    JobRequest,
    PodFacts,
    evicted_request,
    pod_request,
    policy_faults,
)
from jobflow.sandbox.jobs.state_machine import JobSnapshot, failed, step
from jobflow.sandbox.nodes.node import SandboxNode
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import Clock, utc_now
from jobflow.sandbox.volcano.commands import Commands

log = structlog.get_logger(__name__)

REFUSALS = 15
"""Number of refused writes after which a vcjob is terminated (Volcano's maxRequeueNum)."""
INVALID = "InvalidJob"
"""Reason in the state and in the Event of a vcjob that cannot run."""


@dataclass(eq=False)
class TrackedJob:
    """A vcjob under control."""

    stored: VcjobObject
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
        return self.stored.metadata.uid

    @property
    def phase(self) -> str:
        return self.job.status.state.phase


class NameInUse(Exception):
    """A pod of another vcjob still has the name; it will be garbage-collected."""


class JobController:
    """Runs all vcjobs of an API server. `run` may be awaited once."""

    def __init__(self, client: Client, runner: Runner, *, clock: Clock = utc_now) -> None:
        self._runner = runner
        self._clock = clock
        self._writes = Writes(client)
        self._jobs = Cache[VcjobObject](self._job_changed)
        self._pods = Cache[Pod](self._pod_changed)
        self._synced = asyncio.Event()
        for cache in (self._jobs, self._pods):
            cache.on_state = self._heard
        self._reflectors = (
            Reflector(client, JOBS, VcjobObject, self._jobs),
            Reflector(client, PODS, Pod, self._pods, query=[("labelSelector", JOB_NAME)]),
        )
        self._commands = Commands(client, self._writes, self._command)
        self._tasks: asyncio.TaskGroup | None = None
        self._node: SandboxNode | None = None
        self._cases: dict[str, TrackedJob] = {}
        self._objects: dict[str, dict[str, Pod]] = {}
        self._seen: dict[str, dict[str, PodFacts]] = {}
        """The pods, as the policies see them."""
        self._doomed: set[str] = set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors:
                    tasks.create_task(reflector.run())
                await self._synced.wait()
                self._tasks = tasks
                self._node = SandboxNode(
                    self._runner, self._writes, tasks, self._pods.learn, self._clock
                )
                for job in list(self._jobs):
                    self._open(job)
                for pod in [pod for pods in self._objects.values() for pod in pods.values()]:
                    self._attend(pod)
                tasks.create_task(self._commands.run())
        finally:
            self._tasks = self._node = None
            for case in self._cases.values():
                _silence(case)

    def _heard(self) -> None:
        if self._jobs.synced and self._pods.synced:
            self._synced.set()

    def _job_changed(self, old: VcjobObject | None, new: VcjobObject | None) -> None:
        if self._tasks is None:
            return
        if new is None:
            if old is not None and (closed := self._cases.pop(old.metadata.uid, None)):
                _silence(closed)
        elif (case := self._cases.get(new.metadata.uid)) is not None:
            self._update(case, new)
        else:
            self._open(new)

    def _open(self, stored: VcjobObject) -> None:
        job = read_vcjob(stored)
        case = TrackedJob(stored, job, self._faults(job))
        self._cases[case.uid] = case
        seen = self._seen.get(case.uid, {})
        for name, pod in list(self._objects.get(case.uid, {}).items()):
            case.queue.offer(pod_request(None, seen[name], job.spec, seen))
            self._attend(pod)
        self._offer(case, SYNC)

    def _update(self, case: TrackedJob, new: VcjobObject) -> None:
        before, phase = case.stored, case.phase
        case.stored, case.job = new, read_vcjob(new)
        case.faults = self._faults(case.job)
        if bytes(before.spec) != bytes(new.spec) or phase != case.phase:
            self._offer(case, SYNC)

    def _faults(self, job: Vcjob) -> Sequence[str]:
        if job.fault or job.status.state.phase in ENDED_PHASES:
            return [job.fault] if job.fault else []
        templates = [
            f"spec.tasks[{index}].template: {fault}"
            for index, task in enumerate(job.spec.tasks or ())
            if (fault := template_fault(task))
        ]
        return [*policy_faults(job.spec), *templates, *self._runner.faults(job)]

    def _offer(self, case: TrackedJob, request: JobRequest) -> None:
        case.queue.offer(request)
        self._wake(case)

    def _wake(self, case: TrackedJob) -> None:
        if self._tasks is not None and case.worker is None:
            work = self._work(case)
            try:
                case.worker = self._tasks.create_task(work)
            except RuntimeError:  # the task group is closing: no task may start
                work.close()

    def _command(self, job: Key, request: JobRequest) -> None:
        stored = self._jobs.get(*job)
        case = self._cases.get(stored.metadata.uid) if stored is not None else None
        if case is not None:
            self._offer(case, request)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None and old.owner:
            self._pod_gone(old)
        if new is None or not new.owner:
            return
        name = new.metadata.name
        self._objects.setdefault(new.owner, {})[name] = new
        seen = self._seen.setdefault(new.owner, {})
        seen[name] = pod_facts(new, doomed=new.metadata.uid in self._doomed)
        if self._node is None:
            return
        if old is None:
            self._node.begin(new)
        if (case := self._cases.get(new.owner)) is not None:
            before = pod_facts(old) if old is not None else None
            self._offer(case, pod_request(before, seen[name], case.job.spec, seen))
        self._attend(new)

    def _pod_gone(self, last: Pod) -> None:
        for pods in (self._objects, self._seen):
            pods[last.owner].pop(last.metadata.name, None)
            if not pods[last.owner]:
                del pods[last.owner]
        ours = last.metadata.uid in self._doomed
        self._doomed.discard(last.metadata.uid)
        if self._node is not None:
            self._node.forget(last)
        if (case := self._cases.get(last.owner)) is not None:
            self._offer(case, SYNC if ours else evicted_request(pod_facts(last)))

    def _attend(self, pod: Pod) -> None:
        assert self._node is not None
        case = self._cases.get(pod.owner)
        mates = self._objects[pod.owner].values()
        self._node.attend(pod, case.job if case is not None else None, mates)

    async def _work(self, case: TrackedJob) -> None:
        while self._cases.get(case.uid) is case:
            now = self._clock()
            if case.not_before is not None and now < case.not_before:
                break
            seen = self._seen.get(case.uid, {})
            request = case.queue.take(case.job.spec, case.job.status, seen, now)
            if request is not None:
                await self._try(case, request)
            elif (expiry := _expiry(case.job)) and expiry <= now and not case.expired:
                await self._expire(case)
            else:
                break
        case.worker = None
        self._set_alarm(case)

    async def _try(self, case: TrackedJob, request: JobRequest) -> None:
        try:
            await self._execute(case, request)
        except (Gone, NameInUse):
            self._later(case, request)
        except Refused as error:
            await self._refused(case, request, error)
        else:
            case.refusals, case.not_before = 0, None
            case.backoff.reset()

    def _later(self, case: TrackedJob, request: JobRequest) -> None:
        case.queue.put_back(request)
        case.not_before = self._clock() + timedelta(seconds=case.backoff.next())

    async def _refused(self, case: TrackedJob, request: JobRequest, error: Refused) -> None:
        """Retry later; after too many refusals, terminate the vcjob."""
        case.refusals += 1
        if case.refusals == 1:
            await self._warn(case, "FailedCreate", str(error))
        if case.refusals == REFUSALS:
            case.queue.offer(JobRequest(action=BusAction.TERMINATE))
        elif case.refusals > REFUSALS:
            log.error("giving a vcjob up", job=_name(case.stored), error=str(error))
        else:
            self._later(case, request)

    async def _execute(self, case: TrackedJob, request: JobRequest) -> None:
        now = self._clock()
        if case.faults and case.phase not in ENDED_PHASES:
            message = "; ".join(case.faults)
            await self._store(case, failed(case.job.status, INVALID, message, now))
            await self._warn(case, INVALID, message)
            return
        meta = case.job.metadata
        created, deleting = meta.creation_timestamp or now, meta.deletion_timestamp is not None
        pods, job = self._seen.get(case.uid, {}), case.job
        view = JobSnapshot(meta.name, created, job.spec, job.status, pods, deleting=deleting)
        outcome = step(view, request, now)
        await _all(self._delete(case, pod) for pod in outcome.delete)
        await _all(self._create(case, task, index) for task, index in outcome.create)
        case.queue.done(request)
        if outcome.status != view.status:
            await self._store(case, outcome.status)

    async def _store(self, case: TrackedJob, status: JobStatus) -> None:
        self._jobs.learn(await self._writes.set_job_status(case.stored, status))

    async def _create(self, case: TrackedJob, task: int, index: int) -> None:
        manifest = build_pod(case.job, (case.job.spec.tasks or [])[task], index)
        pod = await self._writes.create_pod(case.stored.metadata.namespace, manifest)
        if pod.owner != case.uid:
            raise NameInUse
        self._pods.learn(pod)

    async def _delete(self, case: TrackedJob, pod: PodFacts) -> None:
        """Delete a pod, which counts as terminating until the watch confirms that it is gone."""
        target = self._objects.get(case.uid, {}).get(pod.name)
        if target is None or target.metadata.uid != pod.uid or self._node is None:
            return
        self._seen[case.uid][pod.name] = replace(pod, deleting=True)
        self._doomed.add(pod.uid)
        try:
            await self._node.delete(target)
        except Refused:
            self._doomed.discard(pod.uid)
            raise

    async def _warn(self, case: TrackedJob, reason: str, message: str) -> None:
        log.warning(reason, job=_name(case.stored), message=message)
        try:
            await self._writes.warn(case.stored, reason, message, self._clock())
        except Refused as error:
            log.warning("event refused", job=_name(case.stored), error=str(error))

    async def _expire(self, case: TrackedJob) -> None:
        case.expired = True
        try:
            await self._writes.delete_job(case.stored)
        except Refused as error:
            log.warning("vcjob cannot be deleted", job=_name(case.stored), error=str(error))

    def _set_alarm(self, case: TrackedJob) -> None:
        _silence(case)
        if self._cases.get(case.uid) is not case:
            return
        expiry = None if case.expired else _expiry(case.job)
        moments = [case.not_before, case.queue.next_due, expiry]
        if due := min((moment for moment in moments if moment is not None), default=None):
            wait = max(0.0, (due - self._clock()).total_seconds())
            case.alarm = asyncio.get_running_loop().call_later(wait, self._wake, case)


def _silence(case: TrackedJob) -> None:
    if case.alarm is not None:
        case.alarm.cancel()
        case.alarm = None


def _expiry(job: Vcjob) -> datetime | None:
    """Return when a finished vcjob is deleted; None if never or not finished."""
    ttl = job.spec.ttl_seconds_after_finished
    ended = job.status.state.last_transition_time
    if ttl is None or ended is None or job.metadata.deletion_timestamp is not None:
        return None
    if job.status.state.phase not in ENDED_PHASES - {JobPhase.ABORTED}:  # it can be resumed
        return None
    return ended + timedelta(seconds=min(ttl, MAX_SECONDS))


async def _all(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all of them; then raise the first exception."""
    for result in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _name(obj: VcjobObject | Pod) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"
