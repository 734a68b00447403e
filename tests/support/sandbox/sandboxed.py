"""The sandbox's API server and a webhook in a thread, for tests that run kubectl."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.cluster.kubectl import Kubectl
from support.network.webhook_server import Hook, running_hook
from support.sandbox.api_server import ApiServer


@dataclass(frozen=True, slots=True)
class Served:
    """A running server. The server calls `hook` only after a configuration names it."""

    server: ApiServer
    hook: Hook
    kubectl: Kubectl


@contextmanager
def served(home: Path) -> Iterator[Served]:
    """Run the API server and the webhook. kubectl keeps its cache and its kubeconfig in `home`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sandbox")
    thread.start()
    found: asyncio.Future[Served] = asyncio.Future(loop=loop)
    stop = asyncio.Event()
    running = asyncio.run_coroutine_threadsafe(_serve(home, found, stop), loop)
    try:
        yield asyncio.run_coroutine_threadsafe(asyncio.wait_for(found, 10), loop).result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        running.result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(home: Path, found: asyncio.Future[Served], stop: asyncio.Event) -> None:
    async with ApiServer() as server, running_hook() as webhook:
        server.write_kubeconfig(home / "kubeconfig")
        found.set_result(Served(server, webhook, Kubectl(home / "kubeconfig", home)))
        await stop.wait()
