"""One run of one container as a local process under its own supervisor."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from jobflow.sandbox.nodes.process import supervisor
from jobflow.sandbox.nodes.process.logs import LOG_LIMIT

START_ERROR = "StartError"
UNKNOWN = "ContainerStatusUnknown"
"""Reasons that a kubelet uses."""
_SUPERVISE = "import sys; sys.path.insert(0, sys.argv[1]); import supervisor; supervisor.main()"
"""The program of a supervisor. A module that is imported is compiled once, a script each time."""
_FOLDER = str(Path(supervisor.__file__).parent)


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """The command of a container, and the path of its log."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: Path


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """End of a run."""

    code: int
    reason: str = ""
    """Set if the container never started, or its end was not observed."""
    message: str = ""
    unlogged: str = ""
    """Why the log is incomplete, or ""."""


class ContainerProcess:
    """Process of a container. `run` may be awaited once."""

    def __init__(self, command: ContainerCommand) -> None:
        self._command = command
        self._supervisor: Process | None = None
        # The end may be asked for before the supervisor has started.
        self._grace: float | None = None

    async def run(self, started: Callable[[], None]) -> ContainerExit:
        """Run the container to its end, including all its processes. If this is cancelled or the
        sandbox is killed, it ends within supervisor.LAST_GRACE."""
        program = [sys.executable, "-I", "-S", "-c", _SUPERVISE, _FOLDER]
        self._supervisor = await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        try:
            command = asdict(self._command) | {"log": str(self._command.log)}
            self._tell(command | {"limit": LOG_LIMIT})
            if self._grace is not None:
                self.end(self._grace)
            assert self._supervisor.stdout is not None
            pid, output = 0, ""
            async for line in self._supervisor.stdout:
                try:
                    report = msgspec.json.decode(line, type=_Report)
                except msgspec.DecodeError:
                    # Anything but JSON is the traceback of a supervisor that crashed.
                    output = line.decode(errors="replace").strip()
                    continue
                if report.pid:
                    pid = report.pid
                    started()
                elif report.error:
                    return ContainerExit(report.code, START_ERROR, report.error)
                else:
                    return ContainerExit(report.code, unlogged=report.unlogged)
            if pid:  # the supervisor was killed, so nobody else ends the command
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                why = "The container could not be located when it ended"
                return ContainerExit(137, UNKNOWN, why)
            why = output or "its supervisor was killed"
            return ContainerExit(supervisor.NOT_STARTED, START_ERROR, why)
        finally:
            assert self._supervisor.stdin is not None
            self._supervisor.stdin.close()
            await self._supervisor.communicate()

    def end(self, grace: float) -> None:
        """Send SIGTERM now, and SIGKILL after `grace` seconds; `run` returns afterwards."""
        self._grace = grace
        if self._supervisor is not None:
            self._tell({"grace": grace})

    def _tell(self, what: object) -> None:
        assert self._supervisor is not None
        assert self._supervisor.stdin is not None
        if not self._supervisor.stdin.is_closing():
            # not msgspec, which takes no environment that is not UTF-8
            self._supervisor.stdin.write(json.dumps(what).encode() + b"\n")


class _Report(msgspec.Struct, frozen=True):
    pid: int = 0
    code: int = 0
    error: str = ""
    unlogged: str = ""
