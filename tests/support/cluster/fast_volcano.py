"""Plays Volcano and its nodes: vcjobs end at once as their sandbox annotations say, without their
duration. A vcjob that would take longer than a minute runs until it is aborted.

It executes AbortJob, and deletes the Command first, as Volcano does. It does not need the server
of the sandbox.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from jobflow.api.resources import COMMANDS, JOBS
from jobflow.api.volcano.command import Action, Command
from jobflow.api.volcano.job import Job
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError, Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.nodes.simulate import SimulationScript, read_script
from support.sandbox.job_pods import end_pod, make_pod
from support.sandbox.running_controller import write_status
from support.time.alongside import alongside
from support.time.leaping_loop import now

LONG_SECONDS = 60.0


class Player:
    """The jobs of a namespace, or of all namespaces, from a watch."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self.uids: defaultdict[str, set[str]] = defaultdict(set)
        """The UIDs of all jobs that ever existed, by name."""
        self.jobs = Cache[Job](self._job_changed)
        self.changed: Callable[[], object] = lambda: None
        """Called after every change of a vcjob."""
        self._commands = Cache[Command](self._command_changed)
        self._client = client
        self._namespace = namespace
        self._aborted: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Play Volcano until cancelled."""
        fast = ExponentialBackoff(first=0.001, most=0.1)
        async with asyncio.TaskGroup() as self._tasks:
            for resource, kind, cache in (
                (JOBS, Job, self.jobs),
                (COMMANDS, Command, self._commands),
            ):
                follow: Reflector[Any] = Reflector(
                    self._client, resource, kind, cache, namespace=self._namespace, backoff=fast
                )
                self._tasks.create_task(follow.run())

    # ------------------------------------------------------------------ vcjobs

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        self.changed()
        if new is not None:
            self.uids[new.metadata.name].add(new.metadata.uid)
            if old is None and not new.status.state.phase:
                self._begin(self._play(new))

    def _begin(self, work: Any) -> None:
        assert self._tasks is not None
        self._tasks.create_task(_ignore_not_found(work))

    async def _play(self, job: Job) -> None:
        meta, script = job.metadata, script_of(job)
        start = now()
        await self._set(job, "Running", start, Running=start)
        tasks = [task.name or "" for task in job.spec.tasks or ()]
        pod = await make_pod(self._client, meta, tasks[0])
        if (script.duration or 0.0) > LONG_SECONDS:
            return
        last = script.marks(tasks[0])[-1]
        await end_pod(self._client, meta.namespace, pod, code=last.exit_code, message=last.message)
        if meta.uid not in self._aborted:
            end = "Failed" if last.exit_code else "Completed"
            await self._set(job, end, now(), Running=start)

    async def _set(self, job: Job, phase: str, when: datetime, **before: datetime) -> None:
        stamps = {**before, phase: when}
        status = {
            "state": {"phase": phase, "lastTransitionTime": _text(when)},
            "conditions": [
                {"status": name, "lastTransitionTime": _text(at)} for name, at in stamps.items()
            ],
        }
        meta = job.metadata
        await write_status(self._client, JOBS, meta.name, status, namespace=meta.namespace)

    # ------------------------------------------------------------------ Commands

    def _command_changed(self, old: Command | None, new: Command | None) -> None:
        if old is None and new is not None and new.target is not None:
            if new.target.kind == JOBS.kind and new.action == Action.ABORT_JOB:
                self._begin(self._abort(new))

    async def _abort(self, command: Command) -> None:
        meta, target = command.metadata, command.target
        assert target is not None
        await self._client.delete(COMMANDS, meta.namespace, meta.name, uid=meta.uid)
        job = self.jobs.get(meta.namespace, target.name)
        if job is not None and not job.ended:
            self._aborted.add(job.metadata.uid)
            await self._set(job, "Aborted", now(), Running=now())


async def _ignore_not_found(work: Any) -> None:
    try:
        await work
    except ApiError as error:
        if not error.not_found:
            raise


def script_of(job: Job) -> SimulationScript:
    """Return the script of a job."""
    meta = job.metadata
    tasks = [task.name or "" for task in job.spec.tasks or ()]
    script, faults = read_script(meta.annotations or {}, meta.labels or {}, tasks)
    assert not faults, faults
    return script


def _text(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def play_volcano(client: Client, namespace: str = "") -> AsyncIterator[Player]:
    """Play Volcano while the body runs."""
    player = Player(client, namespace)
    async with alongside(player.run()):
        yield player
