"""`jobflow ui`: serves the page on this machine, and opens it in the browser."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from jobflow.client.errors import SUCCESS
from jobflow.client.flows.find_flow import connect
from jobflow.client.options import Connection
from jobflow.client.signals import interruption
from jobflow.kube.client import Client
from jobflow.page.app import PageApp
from jobflow.page.panels.flow_list import ALL_NAMESPACES
from jobflow.page.watches.live import Watches
from jobflow.runtime.event_loop import together
from jobflow.runtime.http_listener import HttpListener

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServedPage:
    page: PageApp
    port: int

    def new_link(self, *, once: bool = False) -> str:
        """Return an address that opens the page, with a token."""
        return f"http://{HOST}:{self.port}{self.page.guard.new_link(once=once)}"


@asynccontextmanager
async def served_page(
    client: Client, *, port: int = 0, namespace: str = ""
) -> AsyncIterator[ServedPage]:
    """Serve the page while the body runs. `namespace`: see PageApp. Raises PortInUse."""
    async with Watches(client) as watches:
        page = PageApp(watches, namespace=namespace)
        # every request passes the guard: the app has no checks of its own
        listener = HttpListener(page.guard, host=HOST, port=port, flag="--port")
        try:
            async with together() as parts:
                serving = parts.start("page", listener.serve)
                yield ServedPage(page, listener.port)
                # the streams first, because the listener waits for open requests
                parts.stopping = True
                page.closing.close()
                listener.stop()
                await serving
        finally:
            listener.close()


@asynccontextmanager
async def shown_page(client: Client, *, opens_browser: bool) -> AsyncIterator[None]:
    """Serve the page of a sandbox while the body runs, with all namespaces. Its link is
    printed to stderr: stdout is for the output of the command."""
    async with served_page(client, namespace=ALL_NAMESPACES) as served:
        print(f"page: {served.new_link()}", file=sys.stderr, flush=True)
        if opens_browser:
            await open_browser(served)
        yield


async def show_page(connection: Connection, *, port: int, opens_browser: bool) -> int:
    """Serve the page until the command is interrupted. Raises CommandError, PortInUse."""
    with interruption() as stop:
        client = await connect(connection, is_brief=False)
        async with client, served_page(client, port=port) as served:
            print(served.new_link(), flush=True)
            print("The page is open until you press Ctrl-C.", file=sys.stderr)
            if opens_browser:
                await open_browser(served)
            await stop.wait()
    return SUCCESS


async def open_browser(served: ServedPage) -> None:
    """Open the page in the user's browser, if there is one. Its link works only once, because other
    users of the machine can see the arguments of the browser's process."""
    if not has_browser():
        return
    with suppress(webbrowser.Error):
        # a browser may take seconds to start
        await asyncio.to_thread(webbrowser.open, served.new_link(once=True))


def has_browser() -> bool:
    """Whether a browser would have a window. Else Python would start one in the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
