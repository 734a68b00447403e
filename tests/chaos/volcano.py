"""Runs the vcjobs of a namespace, whatever happens to the API server.

It plays Volcano from what the API server holds, not from events, so it continues after the API
server was down, and after it went back in time.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Coroutine
from random import Random
from typing import Any

from chaos.records import Records
from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS, Resource
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job
from jobflow.kube.cache import Cache
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.reflector import Reflector
from support.sandbox.running_controller import merge

FAILS_FIRST = "chaos/fails-first"
"""Annotation of templates whose jobs fail if they are the first attempt."""
RUNNING_SECONDS = (0.2, 4.0)
AGAIN_SECONDS = 0.3

ERRORS = (ApiError, *NETWORK_ERRORS)


class Volcano:
    """The flows and jobs of a namespace from a watch; runs the jobs."""

    def __init__(self, client: Client, namespace: str, records: Records) -> None:
        self.flows = Cache[JobFlow]()
        self.jobs = Cache[Job](self._job_changed)
        self._commands = Cache[Command](self._command_changed)
        self._client, self._namespace, self._records = client, namespace, records
        self._running: set[str] = set()
        self._aborted: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Play Volcano until cancelled."""
        followed: tuple[tuple[Resource, type, Cache[Any]], ...] = (
            (JOBFLOWS, JobFlow, self.flows),
            (JOBS, Job, self.jobs),
            (COMMANDS, Command, self._commands),
        )
        async with asyncio.TaskGroup() as self._tasks:
            for resource, kind, cache in followed:
                follow = Reflector(
                    self._client, resource, kind, cache, namespace=self._namespace, max_age=30.0
                )
                self._tasks.create_task(follow.run())

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._records.leave(old.metadata.uid)
        if new is None:
            return
        self._records.see(new)
        if not new.ended and new.metadata.uid not in self._running:
            self._running.add(new.metadata.uid)
            self._begin(self._play(new))

    async def _play(self, job: Job) -> None:
        """Run a job until the copy says that it has ended or is gone."""
        uid = job.metadata.uid
        ends_at = time.monotonic() + Random(job.metadata.name).uniform(*RUNNING_SECONDS)
        while (held := self.jobs.same(job)) is not None and not held.ended:
            with contextlib.suppress(*ERRORS):
                await self._proceed(job, ends_at)
            await asyncio.sleep(AGAIN_SECONDS)
        self._running.discard(uid)

    async def _proceed(self, job: Job, ends_at: float) -> None:
        meta, aborted = job.metadata, self._aborted[job.metadata.uid]
        live = await self._client.get(JOBS, meta.namespace, meta.name, Job)
        if live.metadata.uid != meta.uid or live.ended:
            return
        if not live.status.state.phase:
            await self._set(job, "Running")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(aborted.wait(), max(0.0, ends_at - time.monotonic()))
        notes = meta.annotations or {}, meta.labels or {}
        fails = FAILS_FIRST in notes[0] and notes[1].get(labels.ATTEMPT) == "1"
        phase = "Aborted" if aborted.is_set() else "Failed" if fails else "Completed"
        attempt = self._records.see(job)
        attempt.leave()
        await self._set(job, phase)
        if phase == "Completed":
            attempt.completed_at = min(attempt.completed_at, time.monotonic())

    async def _set(self, job: Job, phase: str) -> None:
        """Write the phase of this very job. Raises ApiError if it is gone."""
        meta = job.metadata
        changes = {"metadata": {"uid": meta.uid}, "status": {"state": {"phase": phase}}}
        await merge(
            self._client, JOBS, meta.name, changes, namespace=meta.namespace, subresource="status"
        )

    def _command_changed(self, old: Command | None, new: Command | None) -> None:
        if new is None or new.target is None or new.target.kind != JOBS.kind:
            return
        self._aborted[new.target.uid].set()
        self._begin(self._delete(new))

    async def _delete(self, command: Command) -> None:
        meta = command.metadata
        while self._commands.same(command) is not None:
            with contextlib.suppress(*ERRORS):
                await self._client.delete(COMMANDS, meta.namespace, meta.name, uid=meta.uid)
            await asyncio.sleep(AGAIN_SECONDS)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)
