"""One run of one container as a local process, under a keeper of its own (keeper)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from jobflow.sandbox.nodes.process import supervisor as keeper
from jobflow.sandbox.nodes.process.logs import LOG_LIMIT

START_ERROR = "StartError"
UNKNOWN = "ContainerStatusUnknown"
"""Reasons, in a kubelet's words."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and where its output goes."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: Path


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run ended."""

    code: int
    reason: str = ""
    """Where it was never started, or its end was not seen."""
    message: str = ""
    unlogged: str = ""
    """Why not all of its output is in the log."""


class Contained:
    """A container's process. Construct one, then await `run`, once."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._keeper: Process | None = None
        self._grace: float | None = None
        self._pid = 0

    async def run(self, started: Callable[[], None]) -> Exit:
        """Run it to its end; when this returns nothing of it is left.

        Cancelled, it is ended within keeper.LAST_GRACE. If this process dies, the same happens.
        """
        program = [sys.executable, "-I", "-S", keeper.__file__]
        self._keeper = await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        try:
            self._tell(
                {
                    "argv": self._command.argv,
                    "env": self._command.env,
                    "cwd": self._command.cwd,
                    "log": str(self._command.log),
                    "limit": LOG_LIMIT,
                }
            )
            if self._grace is not None:
                self.end(self._grace)
            return await self._listen(self._keeper, started)
        finally:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            await self._keeper.communicate()

    def end(self, grace: float) -> None:
        """Ask it to end: SIGTERM now, SIGKILL after `grace` seconds. `run` returns when it has."""
        self._grace = grace
        if self._keeper is not None:
            self._tell({"grace": grace})

    def _tell(self, what: object) -> None:
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        if not self._keeper.stdin.is_closing():
            # not msgspec, which takes no environment that is not UTF-8
            self._keeper.stdin.write(json.dumps(what).encode() + b"\n")

    async def _listen(self, process: Process, started: Callable[[], None]) -> Exit:
        assert process.stdout is not None
        said = ""
        async for line in process.stdout:
            try:
                told = msgspec.json.decode(line, type=_Told)
            except msgspec.DecodeError:
                said = line.decode(errors="replace").strip()
                continue
            if told.pid:
                self._pid = told.pid
                started()
            elif told.error:
                return Exit(told.code, START_ERROR, told.error)
            else:
                return Exit(told.code, unlogged=told.unlogged)
        return self._unseen(said)

    def _unseen(self, said: str) -> Exit:
        """Its keeper has gone without telling how it ended: somebody killed that."""
        if self._pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            return Exit(137, UNKNOWN, "The container could not be located when it ended")
        return Exit(keeper.NOT_STARTED, START_ERROR, said or "its keeper was killed")


class _Told(msgspec.Struct, frozen=True):
    """What a keeper says."""

    pid: int = 0
    code: int = 0
    error: str = ""
    unlogged: str = ""
