"""The sandbox's node: it lets a runner run the pods, and confirms deletions.

It keeps nothing that must survive: a new node continues pods from their status.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import structlog

from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.api_writes import Gone, Refused, Writes
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.pods import retry_of, start_of
from jobflow.sandbox.nodes.pod_status import PodProgress, pod_status
from jobflow.sandbox.nodes.runner import Assignment, Runner

log = structlog.get_logger(__name__)


class SandboxNode:
    """Runs pods. `learn` receives each pod as the API server stored it."""

    def __init__(
        self,
        runner: Runner,
        writes: Writes,
        tasks: asyncio.TaskGroup,
        learn: Callable[[Pod], object],
        clock: Callable[[], datetime],
    ) -> None:
        self._runner = runner
        self._writes = writes
        self._tasks = tasks
        self._learn = learn
        self._clock = clock
        self._began: dict[str, datetime] = {}
        self._leaving: set[str] = set()
        self._players: dict[str, asyncio.Task[None]] = {}

    def begin(self, pod: Pod) -> None:
        """Record the start of a pod that was just created, to the microsecond."""
        self._began.setdefault(pod.metadata.uid, pod.status.start_time or self._clock())

    def attend(self, pod: Pod, job: Vcjob | None, mates: Iterable[Pod]) -> None:
        """Run a pod, or confirm its deletion, unless that has already started. `mates` are all pods
        of its vcjob. Without its vcjob, a running pod continues, but no pod starts."""
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp is not None:
            if uid not in self._leaving:
                self._leaving.add(uid)
                self._tasks.create_task(self._confirm(pod))
        elif pod.ended:
            self._players.pop(uid, None)
        elif job is not None and uid not in self._players:
            assignment = Assignment(job, pod, *self._times(pod, mates))
            self._players[uid] = self._tasks.create_task(self._play(assignment))

    async def delete(self, pod: Pod) -> None:
        """Delete a pod, gracefully if it is a process. Raises Refused."""
        await self._writes.delete_pod(pod, gracefully=self._runner.graceful)

    def forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._began.pop(uid, None)
        self._leaving.discard(uid)
        if (player := self._players.pop(uid, None)) is not None:
            player.cancel()

    def _times(self, pod: Pod, mates: Iterable[Pod]) -> tuple[datetime, datetime]:
        """Return the start of the pod, and of the first pod since its vcjob's last restart."""
        own = self._began.setdefault(pod.metadata.uid, start_of(pod))
        return own, min(
            self._began.get(mate.metadata.uid, start_of(mate))
            for mate in (pod, *mates)
            if retry_of(mate) == retry_of(pod)
        )

    async def _play(self, assignment: Assignment) -> None:
        pod = assignment.pod

        async def report(progress: PodProgress) -> None:
            nonlocal pod
            pod = await self._writes.set_pod_status(pod, pod_status(pod, progress))
            self._learn(pod)

        try:
            await self._runner.run(assignment, report)
        except Gone:
            return
        except Refused as error:
            log.warning("pod status refused", pod=pod.metadata.name, error=str(error))

    async def _confirm(self, pod: Pod) -> None:
        await self._runner.end(pod)
        try:
            await self._writes.delete_pod(pod)
        except Refused as error:
            log.warning("pod cannot be deleted", pod=pod.metadata.name, error=str(error))
