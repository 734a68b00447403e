"""Life of one pod as local processes, like in a kubelet: init containers one after another, then
all containers, restarted according to restartPolicy."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import structlog

from jobflow.api.volcano.pod import PodPhase
from jobflow.kube.backoff import ExponentialBackoff
from jobflow.sandbox.nodes.pod_status import ContainerProgress, PodProgress
from jobflow.sandbox.nodes.process.container import (
    START_ERROR,
    ContainerCommand,
    ContainerExit,
    ContainerProcess,
)
from jobflow.sandbox.nodes.process.environment import ContainerContext
from jobflow.sandbox.nodes.process.logs import Logs, read_message
from jobflow.sandbox.nodes.process.pod_spec import RunnableContainer
from jobflow.sandbox.nodes.process.supervisor import LAST_GRACE
from jobflow.sandbox.nodes.runner import Report

log = structlog.get_logger(__name__)

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
FALLBACK = "FallbackToLogsOnError"


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """Limits of container restarts."""

    most: int = 3
    first: float = 1.0
    longest: float = 30.0


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run of a container that failed."""

    namespace: str
    job: str
    task: str
    pod: str
    container: str
    exit_code: int
    reason: str
    message: str
    log: Path


@dataclass(frozen=True, slots=True)
class PodContext:
    """The part of the runner that the life of a pod needs."""

    place: ContainerContext
    address: str
    logs: Logs
    scratch: Callable[[], Path]
    """Returns the path of a new temporary file."""
    restarts: RestartLimits
    failed: Callable[[FailedRun], None]
    clock: Callable[[], datetime]


@dataclass(eq=False)
class _Seat:
    """A container of the pod across its runs."""

    container: RunnableContainer
    init: bool
    state: ContainerProgress = field(default_factory=ContainerProgress)
    run: ContainerProcess | None = None


class PodLife:
    """Life of one pod. `live` may be awaited once."""

    def __init__(self, setting: PodContext, report: Report) -> None:
        self.over = asyncio.Event()
        """Set when nothing of the pod runs."""
        self._reported = asyncio.Event()
        """Set when its end is reported, or cannot be."""
        self._setting = setting
        self._report = report
        spec = setting.place.spec
        waiting = ContainerProgress(reason="PodInitializing" if spec.init_containers else "")
        self._init = [_Seat(each, True) for each in spec.init_containers or ()]
        self._main = [_Seat(each, False, waiting) for each in spec.containers or ()]
        self._policy = spec.restart_policy or ALWAYS
        self._began = setting.clock()
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._deleted = False
        self._reason = ""

    async def live(self) -> None:
        """Run the pod to its end and report its progress. Raises the exceptions of `report`."""
        try:
            await self._live()
            await self._report(self._progress())
        finally:
            self._reported.set()

    async def _live(self) -> None:
        reporting = asyncio.create_task(self._report_changes())
        reporting.add_done_callback(self._end_if_unreported)
        deadline = self._set_deadline()
        try:
            await self._play()
        except asyncio.CancelledError:
            reporting.cancel()
            raise
        finally:
            if deadline is not None:
                deadline.cancel()
            self.over.set()
            self._changed.set()
            await asyncio.wait([reporting])
        reporting.result()

    def _end_if_unreported(self, reporting: asyncio.Task[None]) -> None:
        """End the pod if its status can no longer be reported, because it was deleted."""
        if not reporting.cancelled() and reporting.exception() is not None:
            self._end(LAST_GRACE)

    async def delete(self) -> None:
        """End the pod within its grace period, and report only its end, with its last words."""
        self._deleted = True
        self._end(self._setting.place.spec.grace)
        await self._reported.wait()

    def _end(self, grace: float) -> None:
        self._stop.set()
        for seat in (*self._init, *self._main):
            if seat.run is not None:
                seat.run.end(grace)

    def _set_deadline(self) -> asyncio.TimerHandle | None:
        seconds = self._setting.place.spec.active_deadline_seconds
        if seconds is None:
            return None

        def passed() -> None:
            self._reason = "DeadlineExceeded"
            self._end(self._setting.place.spec.grace)

        return asyncio.get_running_loop().call_later(seconds, passed)

    async def _play(self) -> None:
        for seat in self._init:
            await self._run(seat)
            if not seat.state.succeeded or self._stop.is_set():
                return
        async with asyncio.TaskGroup() as tasks:
            for seat in self._main:
                tasks.create_task(self._run(seat))

    async def _run(self, seat: _Seat) -> None:
        setting = self._setting.restarts
        backoff = ExponentialBackoff(first=setting.first, most=setting.longest, dice=lambda: 0.0)
        while not self._stop.is_set():
            await self._run_once(seat)
            if self._stop.is_set() or not self._again(seat):
                return
            await self._back_off(seat, backoff.next())

    def _again(self, seat: _Seat) -> bool:
        if seat.state.restarts >= self._setting.restarts.most:
            return False
        always = self._policy == ALWAYS and not seat.init
        return always or (self._policy != NEVER and not seat.state.succeeded)

    async def _back_off(self, seat: _Seat, seconds: float) -> None:
        ended, name = seat.state, self._setting.place.pod.metadata.name
        message = f"back-off {seconds:g}s restarting container={seat.container.name} pod={name}"
        last = replace(ended, last=None)
        waiting = ContainerProgress(reason="CrashLoopBackOff", message=message, last=last)
        self._move(seat, replace(waiting, restarts=ended.restarts))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        if self._stop.is_set():
            seat.state = ended

    async def _run_once(self, seat: _Seat) -> None:
        before, clock = seat.state, self._setting.clock
        restarts = before.restarts + (1 if before.last else 0)
        running = ContainerProgress(clock(), restarts=restarts, last=before.last)

        def on_start() -> None:
            nonlocal running
            running = replace(running, started=clock())
            self._move(seat, running)

        end = await self._exit(seat, on_start)
        ended = replace(running, exit_code=end.code, reason=end.reason, message=end.message)
        self._move(seat, replace(ended, finished=clock()))

    async def _exit(self, seat: _Seat, on_start: Callable[[], None]) -> ContainerExit:
        message_file = self._setting.scratch()
        meta = self._setting.place.pod.metadata
        try:
            with self._setting.logs.next_run(meta, seat.container.name) as path:
                command = self._command(seat.container, message_file, path)
                seat.run = ContainerProcess(command)
                ended = await seat.run.run(on_start)
        except OSError as error:  # no room for a log, or for one more process
            where = f"{error.filename}: " if error.filename else ""
            return ContainerExit(128, START_ERROR, f"{where}{error.strerror}")
        finally:
            seat.run = None
        self._note(seat, ended, path)
        message = self._message(seat.container, ended, message_file, path)
        return replace(ended, message=": ".join(filter(None, (ended.message, message))))

    def _command(
        self, container: RunnableContainer, message_file: Path, path: Path
    ) -> ContainerCommand:
        message_file.touch()
        place = self._setting.place
        argv, env = place.invocation(container, str(message_file))
        directory = place.working_directory(container) or str(Path.cwd())
        return ContainerCommand(argv, env, directory, path)

    def _message(
        self, container: RunnableContainer, ended: ContainerExit, file: Path, path: Path
    ) -> str:
        falls_back = container.termination_message_policy == FALLBACK and ended.code != 0
        count = len(self._init) + len(self._main)
        message = read_message(file, containers=count, log=path if falls_back else None)
        with suppress(OSError):  # the container may have replaced it by a folder
            file.unlink()
        return message

    def _note(self, seat: _Seat, ended: ContainerExit, path: Path) -> None:
        """Record a failure, unless the sandbox ended the container."""
        pod = self._setting.place.pod
        if ended.unlogged:
            log.warning("log incomplete", pod=pod.metadata.name, error=ended.unlogged)
        if ended.code and (self._reason or not self._stop.is_set()):
            job = self._setting.place.job.metadata.name
            name, reason = seat.container.name, self._reason or ended.reason
            where = (pod.metadata.namespace, job, pod.task, pod.metadata.name, name)
            self._setting.failed(FailedRun(*where, ended.code, reason, ended.message, path))

    def _move(self, seat: _Seat, state: ContainerProgress) -> None:
        """Change a container's state. Containers that start together are reported together."""
        seat.state = state
        if seat.init or all(_has_started(each.state) for each in self._main):
            self._changed.set()

    async def _report_changes(self) -> None:
        """Report the pod after each change; `live` makes the last report."""
        reported = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.over.is_set() or self._deleted:
                return
            if all(seat.state.finished for seat in self._main):
                continue  # a restart or the end comes next
            if (progress := self._progress()) != reported:
                await self._report(progress)
                reported = progress

    def _progress(self) -> PodProgress:
        states = [seat.state for seat in self._main]
        starts = [state.started for state in states if state.started]
        too_late = "Pod was active on the node longer than the specified deadline"
        return PodProgress(
            phase=self._phase(states),
            started=min(starts, default=self._began),
            finished=self._setting.clock() if self.over.is_set() else None,
            containers=states,
            init_containers=[seat.state for seat in self._init],
            address=self._setting.address,
            pod_reason=self._reason,
            pod_message=too_late if self._reason else "",
        )

    def _phase(self, states: Sequence[ContainerProgress]) -> PodPhase:
        if self.over.is_set():
            fine = not self._reason and all(state.succeeded for state in states)
            return PodPhase.SUCCEEDED if fine else PodPhase.FAILED
        return PodPhase.RUNNING if any(map(_has_started, states)) else PodPhase.PENDING


def _has_started(state: ContainerProgress) -> bool:
    """Return whether the container has started at least once."""
    return state.started is not None or state.last is not None
