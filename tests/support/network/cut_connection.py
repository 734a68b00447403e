"""A TCP hop between a replica and the API server that can go dark, without closing connections.

Bytes sent before or while it is dark are lost. A network that delivers requests much later is not
simulated: no one can be protected from it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import TracebackType

from support.cluster.control_plane import ControlPlane

CHUNK = 2**16


class Hop:
    """Passes connections on until `go_dark`."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        self._plane = plane
        self._home = home
        self._dark = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Hop:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def go_dark(self) -> None:
        """From now on everything is swallowed, of open connections and of new ones."""
        self._dark = True

    def light_up(self) -> None:
        """Let new connections through again; connections from the dark are cut."""
        self._dark = False
        for task in self._tasks:
            task.cancel()

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig of this user that leads through here."""
        config = json.loads(self._plane.kubeconfig(user).read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = self._home / f"severed-{user}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far: asyncio.StreamWriter | None = None
        try:
            back, far = await asyncio.open_connection("127.0.0.1", self._plane.port)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, far))
                both.create_task(self._pass(back, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, far):
                if end is not None:
                    end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            if not self._dark:
                target.write(chunk)
                await target.drain()
        if self._dark:
            await asyncio.Event().wait()
        target.close()
