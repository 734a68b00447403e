"""The sandbox's node: it lets a runner run the pods, and confirms deletions. A new node continues
pods from their status."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from jobflow.api.resources import PODS
from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.jobs.objects import RETRY_COUNT, Vcjob
from jobflow.sandbox.nodes.runner import Assignment, PodProgress, Runner, pod_status
from jobflow.sandbox.volcano.writes import Gone, Refused, Writes

log = structlog.get_logger(__name__)
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(eq=False)
class SandboxNode:
    runner: Runner
    writes: Writes
    tasks: asyncio.TaskGroup
    learn: Callable[[Pod], object]
    clock: Callable[[], datetime]
    _starts: dict[str, datetime] = field(default_factory=dict)
    _ending: set[str] = field(default_factory=set)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def begin(self, pod: Pod) -> None:
        """Record the start of a pod that was just created, to the microsecond."""
        self._starts.setdefault(pod.metadata.uid, pod.status.start_time or self.clock())

    def handle(self, pod: Pod, job: Vcjob | None, siblings: Iterable[Pod]) -> None:
        """Run a pod, or confirm its deletion, unless that has already started. `siblings` are all
        pods of its vcjob, without which no pod starts."""
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp is not None:
            # The watch reports a deleted pod again with each change of it.
            if uid not in self._ending:
                self._ending.add(uid)
                self.tasks.create_task(self._end(pod))
        elif pod.ended:
            self._running.pop(uid, None)
        elif job is not None and uid not in self._running:
            start = self._starts.setdefault(uid, self._start_of(pod))
            restarts = _restarts_before(pod)
            # A restart of the vcjob starts its script from the beginning.
            together = [each for each in siblings if _restarts_before(each) == restarts]
            job_start = min([start, *map(self._start_of, together)])
            running = self._run(Assignment(job, pod, start, job_start, self.writes.read))
            self._running[uid] = self.tasks.create_task(running)

    async def delete(self, pod: Pod) -> None:
        options = {} if self.runner.graceful else {"gracePeriodSeconds": 0}
        with suppress(Gone):
            await self.writes.delete(PODS, pod.metadata, **options)

    def forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._starts.pop(uid, None)
        self._ending.discard(uid)
        if (running := self._running.pop(uid, None)) is not None:
            running.cancel()

    def _start_of(self, pod: Pod) -> datetime:
        """Return the recorded start of a pod, or the one in its status, in whole seconds."""
        stored = pod.status.start_time or pod.metadata.creation_timestamp or _EPOCH
        return self._starts.get(pod.metadata.uid, stored)

    async def _run(self, assignment: Assignment) -> None:
        pod, warned = assignment.pod, None

        async def report(progress: PodProgress) -> None:
            nonlocal pod, warned
            pod = await self.writes.set_pod_status(pod, pod_status(pod, progress))
            self.learn(pod)
            if progress.warning is not None and progress.warning != warned:
                warned = progress.warning
                await self.writes.warn(PODS, pod.metadata, *warned, self.clock())

        try:
            await self.runner.run(assignment, report)
        # The pod was deleted, and its process ends with the deletion.
        except Gone:
            return
        except Refused as error:
            log.warning("pod status refused", pod=pod.metadata.name, error=str(error))

    async def _end(self, pod: Pod) -> None:
        # The object stays until nothing of the pod runs, as with a kubelet.
        await self.runner.end(pod)
        try:
            await self.writes.delete(PODS, pod.metadata, gracePeriodSeconds=0)
        except Gone:
            return
        except Refused as error:
            log.warning("pod cannot be deleted", pod=pod.metadata.name, error=str(error))


def _restarts_before(pod: Pod) -> str:
    return (pod.metadata.annotations or {}).get(RETRY_COUNT, "0")
