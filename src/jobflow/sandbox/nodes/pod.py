"""Life of one pod as local processes, like in a kubelet: init containers one after another, then
all containers, restarted according to restartPolicy. Each run has its own supervisor."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from jobflow.api.volcano.pod import PodPhase
from jobflow.kube.clock import ExponentialBackoff
from jobflow.sandbox.nodes import supervisor
from jobflow.sandbox.nodes.environment import ContainerContext
from jobflow.sandbox.nodes.logs import LOG_LIMIT, Logs, read_message
from jobflow.sandbox.nodes.pod_spec import RunnableContainer
from jobflow.sandbox.nodes.runner import ContainerProgress, FailedRun, PodProgress, Report
from jobflow.sandbox.nodes.simulate import utc_now
from jobflow.sandbox.nodes.supervisor import LAST_GRACE
from jobflow.sandbox.nodes.volumes import Data, MissingSource, Source, Sources

log = structlog.get_logger(__name__)

START_ERROR = "StartError"
UNKNOWN = "ContainerStatusUnknown"
CONFIG_ERROR, MOUNT_FAILED, FAILED = "CreateContainerConfigError", "FailedMount", "Failed"
"""Reasons that a kubelet uses."""
SOURCE_SECONDS = 0.5
"""Seconds until a pod looks again for a Secret or a ConfigMap that does not exist."""
_SUPERVISE = "import sys; sys.path.insert(0, sys.argv[1]); import supervisor; supervisor.main()"
"""The program of a supervisor. A module that is imported is compiled once, a script each time."""
# The supervisor is found by path, without the packages that importing `jobflow` would take.
_FOLDER = str(Path(supervisor.__file__).parent)


@dataclass(frozen=True, slots=True)
class ContainerExit:
    code: int
    reason: str = ""
    """Set if the container never started, or its end was not observed."""
    message: str = ""
    unlogged: str = ""
    """Why the log is incomplete, or ""."""


class ContainerProcess:
    """Process of a container. `run` may be awaited once."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str, log: Path) -> None:
        self._command = {"argv": argv, "env": env, "cwd": cwd, "log": str(log), "limit": LOG_LIMIT}
        self._input: asyncio.StreamWriter | None = None
        # The end may be asked for before the supervisor has started.
        self._grace: float | None = None

    async def run(self, started: Callable[[], None]) -> ContainerExit:
        """Run the container to its end, including all its processes. If this is cancelled or the
        sandbox is killed, it ends within supervisor.LAST_GRACE."""
        # -I, -S: without the user's environment and site packages, which would take time.
        program = [sys.executable, "-I", "-S", "-c", _SUPERVISE, _FOLDER]
        process = await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        try:
            self._tell(self._command)
            if self._grace is not None:
                self.end(self._grace)
            pid, output = 0, ""
            async for line in process.stdout:
                try:
                    report = msgspec.json.decode(line, type=_Report)
                except msgspec.DecodeError:
                    # Anything but JSON is the traceback of a supervisor that crashed.
                    output = line.decode(errors="replace").strip()
                    continue
                if report.pid:
                    pid = report.pid
                    started()
                else:
                    reason = START_ERROR if report.error else ""
                    return ContainerExit(report.code, reason, report.error, report.unlogged)
            if pid:  # the supervisor was killed, so nobody else ends the command
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                why = "The container could not be located when it ended"
                return ContainerExit(137, UNKNOWN, why)
            why = output or "its supervisor was killed"
            return ContainerExit(supervisor.NOT_STARTED, START_ERROR, why)
        finally:
            process.stdin.close()
            await process.communicate()

    def end(self, grace: float) -> None:
        """Send SIGTERM now, and SIGKILL after `grace` seconds; `run` returns afterwards."""
        self._grace = grace
        self._tell({"grace": grace})

    def _tell(self, what: object) -> None:
        if self._input is not None and not self._input.is_closing():
            # not msgspec, which takes no environment that is not UTF-8
            self._input.write(json.dumps(what).encode() + b"\n")


class _Report(msgspec.Struct, frozen=True):
    pid: int = 0
    code: int = 0
    error: str = ""
    unlogged: str = ""


ALWAYS, NEVER = "Always", "Never"
FALLBACK = "FallbackToLogsOnError"
DEADLINE = "DeadlineExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext(ContainerContext):
    """A pod, and the part of the runner that its life needs."""

    logs: Logs
    scratch: Callable[[], Path]
    """Returns the path of a new temporary file."""
    max_restarts: int
    """How often each container is restarted."""
    first_pause: float
    """Seconds before the first restart; the pauses grow."""
    failed: Callable[[FailedRun], None]
    read: Callable[[Source], Awaitable[Data | None]]
    """Returns the data of a Secret, a ConfigMap or a volume claim in the namespace of the pod."""


T = TypeVar("T")


@dataclass(eq=False)
class _Container:
    spec: RunnableContainer
    is_init: bool
    state: ContainerProgress = field(default_factory=ContainerProgress)
    run: ContainerProcess | None = None


class PodLife:
    """Life of one pod. `live` may be awaited once."""

    def __init__(self, context: PodContext, report: Report) -> None:
        self.over = asyncio.Event()
        self._reported = asyncio.Event()
        self._context = context
        self._report = report
        self._pod = context.pod
        self._spec = context.spec
        waiting = ContainerProgress(reason="PodInitializing" if self._spec.init_containers else "")
        self._init = [_Container(each, True) for each in self._spec.init_containers or ()]
        self._main = [_Container(each, False, waiting) for each in self._spec.containers or ()]
        self._began = utc_now()
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._deleted = False
        self._is_too_late = False
        self._missing = ""
        self._warning: tuple[str, str] | None = None

    @property
    def job(self) -> tuple[str, str]:
        return self._pod.metadata.namespace, self._context.job.metadata.name

    @property
    def blocked(self) -> str:
        """The Secret or ConfigMap without which the pod cannot go on, in a sentence, or ""."""
        is_idle = all(each.run is None for each in (*self._init, *self._main))
        return self._missing if is_idle else ""

    async def live(self) -> None:
        """Run the pod to its end and report its progress. Raises the exceptions of `report`."""

        def end_if_unreported(reporting: asyncio.Task[None]) -> None:
            # Nobody would learn how the pod ends, so it need not run on.
            if not reporting.cancelled() and reporting.exception() is not None:
                self._end(LAST_GRACE)  # the pod was deleted

        def pass_deadline() -> None:
            self._is_too_late = True
            self._end(self._spec.grace)

        reporting = asyncio.create_task(self._report_changes())
        reporting.add_done_callback(end_if_unreported)
        seconds, deadline = self._spec.active_deadline_seconds, None
        if seconds is not None:
            deadline = asyncio.get_running_loop().call_later(seconds, pass_deadline)
        try:
            try:
                # Without its volumes no container starts.
                await self._once_found(self._context.mount)
                for container in self._init:
                    await self._run(container)
                    # A failed init container fails the pod: no later container starts.
                    if not container.state.succeeded or self._stop.is_set():
                        break
                else:
                    async with asyncio.TaskGroup() as tasks:
                        for container in self._main:
                            tasks.create_task(self._run(container))
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
            await self._report(self._progress())
        finally:
            self._reported.set()

    async def delete(self) -> None:
        """End the pod within its grace period, and report only its end, with its last words."""
        self._deleted = True
        self._end(self._spec.grace)
        await self._reported.wait()

    async def _once_found(
        self, prepare: Callable[[Sources], T], container: _Container | None = None
    ) -> T | None:
        """Prepare the pod, or a container, once its Secrets and ConfigMaps exist, and report what
        is missing until then; None if the pod ends first. Raises OSError."""
        while not self._stop.is_set():
            sources = {each: await self._context.read(each) for each in self._spec.sources}
            try:
                prepared = prepare(sources)
                self._missing = ""
                return prepared
            except MissingSource as missing:
                self._missing = why = str(missing)
                self._warning = (MOUNT_FAILED, why)
                if container is not None:
                    container.state = replace(container.state, reason=CONFIG_ERROR, message=why)
                    self._warning = (FAILED, f"Error: {why}")
                self._changed.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), SOURCE_SECONDS)
        return None

    def _end(self, grace: float) -> None:
        self._stop.set()
        for container in (*self._init, *self._main):
            if container.run is not None:
                container.run.end(grace)

    async def _run(self, container: _Container) -> None:
        context, policy = self._context, self._spec.restart_policy or ALWAYS
        # Without jitter, as a kubelet.
        backoff = ExponentialBackoff(first=context.first_pause, most=30.0, dice=lambda: 0.0)
        while not self._stop.is_set():
            await self._run_once(container)
            ended = container.state
            # An init container that has succeeded never runs again.
            if policy == ALWAYS and not container.is_init:
                is_restarted = True
            else:
                is_restarted = policy != NEVER and not ended.succeeded
            if self._stop.is_set() or not is_restarted or ended.restarts >= context.max_restarts:
                return
            seconds = backoff.next()
            container_name, name = container.spec.name, self._pod.metadata.name
            waiting = ContainerProgress(
                reason="CrashLoopBackOff",
                message=f"back-off {seconds:g}s restarting container={container_name} pod={name}",
                restarts=ended.restarts,
                last=replace(ended, last=None),
            )
            self._set_state(container, waiting)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)
            # The pod ends during the pause: its last state is the end, not the waiting.
            if self._stop.is_set():
                container.state = ended

    async def _run_once(self, container: _Container) -> None:
        before = container.state
        restarts = before.restarts + (1 if before.last else 0)
        running = ContainerProgress(utc_now(), restarts=restarts, last=before.last)

        def on_start() -> None:
            nonlocal running
            running = replace(running, started=utc_now())
            self._set_state(container, running)

        end = await self._execute(container, on_start)
        if end is None:
            return
        ended = replace(running, exit_code=end.code, reason=end.reason, message=end.message)
        self._set_state(container, replace(ended, finished=utc_now()))

    async def _execute(self, own: _Container, on_start: Callable[[], None]) -> ContainerExit | None:
        """Execute the command of a container; return its end with its termination message, or None
        if the pod ended before the start."""
        context, meta, container = self._context, self._pod.metadata, own.spec
        message_file = context.scratch()
        try:
            prepare = partial(context.invocation, container, str(message_file))
            start = await self._once_found(prepare, own)
            if start is None:
                return None
            argv, env, folder = start
            with context.logs.next_run(meta, container.name) as path:
                message_file.touch()
                own.run = ContainerProcess(argv, env, folder or str(Path.cwd()), path)
                ended = await own.run.run(on_start)
        except OSError as error:  # no room for a log, or for one more process
            where = f"{error.filename}: " if error.filename else ""
            return ContainerExit(128, START_ERROR, f"{where}{error.strerror}")
        finally:
            own.run = None
        if ended.unlogged:
            log.warning("log incomplete", pod=meta.name, error=ended.unlogged)
        # A container that the sandbox ended has not failed by itself.
        if ended.code and (self._is_too_late or not self._stop.is_set()):
            failure = FailedRun(
                namespace=meta.namespace,
                job=context.job.metadata.name,
                task=self._pod.task,
                pod=meta.name,
                container=container.name,
                exit_code=ended.code,
                reason=DEADLINE if self._is_too_late else ended.reason,
                message=ended.message,
                log=path,
            )
            context.failed(failure)
        falls_back = container.termination_message_policy == FALLBACK and ended.code != 0
        count = len(self._init) + len(self._main)
        message = read_message(message_file, containers=count, log=path if falls_back else None)
        with suppress(OSError):  # the container may have replaced it by a folder
            message_file.unlink()
        return replace(ended, message=": ".join(filter(None, (ended.message, message))))

    def _set_state(self, container: _Container, state: ContainerProgress) -> None:
        """Change a container's state. Containers that start together are reported together."""
        container.state = state
        # Otherwise a pod of many containers would be written once for each.
        if container.is_init or all(each.state.has_started for each in self._main):
            self._changed.set()

    async def _report_changes(self) -> None:
        """Report the pod after each change; `live` makes the last report."""
        reported = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.over.is_set() or self._deleted:
                return
            if all(container.state.finished for container in self._main):
                continue  # a restart or the end comes next
            if (progress := self._progress()) != reported:
                await self._report(progress)
                reported = progress

    def _progress(self) -> PodProgress:
        states = [container.state for container in self._main]
        starts = [state.started for state in states if state.started]
        too_late = "Pod was active on the node longer than the specified deadline"
        phase = PodPhase.PENDING
        if self.over.is_set():
            is_fine = not self._is_too_late and all(state.succeeded for state in states)
            phase = PodPhase.SUCCEEDED if is_fine else PodPhase.FAILED
        elif any(state.has_started for state in states):
            phase = PodPhase.RUNNING
        return PodProgress(
            phase=phase,
            started=min(starts, default=self._began),
            finished=utc_now() if self.over.is_set() else None,
            containers=states,
            init_containers=[container.state for container in self._init],
            address=self._context.addresses(self._pod.metadata.name),
            pod_reason=DEADLINE if self._is_too_late else "",
            pod_message=too_late if self._is_too_late else "",
            warning=self._warning,
        )
