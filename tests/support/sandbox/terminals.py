"""Commands on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from support.sandbox.flow_commands import JOBFLOW


@asynccontextmanager
async def terminal(
    kubeconfig: Path, *arguments: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Callable[[], bytes]]]:
    """Run a command on a terminal of 60 columns; the function reads what it prints."""
    ours, its = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "60", "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *(str(JOBFLOW), *arguments, "--kubeconfig", str(kubeconfig)), stdout=its, env=environment
    )
    os.close(its)
    try:
        yield process, lambda: os.read(ours, 10_000)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def until_shown(read: Callable[[], bytes], text: str) -> str:
    """Read until the text is shown; return all that was read."""
    shown = ""
    async with asyncio.timeout(30):
        while text not in shown:
            shown += (await asyncio.to_thread(read)).decode()
    return shown


async def read_rest(read: Callable[[], bytes]) -> str:
    """Read until the command has ended."""
    shown = b""
    async with asyncio.timeout(30):
        while True:
            try:
                shown += await asyncio.to_thread(read)
            except OSError:  # the other end is closed
                return shown.decode()
