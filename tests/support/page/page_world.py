"""The page of an API server that a test fills, and a browser that shows it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

from playwright.async_api import Browser, BrowserContext, Page, expect

from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.kube.client import ApiError, Client
from jobflow.page.serve import ServedPage, served_page
from jobflow.sandbox.apiserver.handlers.pod_logs import LogSource
from support.network.anonymous import anonymous
from support.sandbox.api_server import ApiServer
from support.sandbox.running_controller import Cluster, write_status

PATIENCE = 60_000
"""Milliseconds for what a browser does: more than a page on a loaded machine needs."""
expect.set_options(timeout=PATIENCE)


class PageWorld(Cluster):
    """An API server, the page of its flows, and a browser window."""

    def __init__(
        self, server: ApiServer, client: Client, served: ServedPage, context: BrowserContext
    ) -> None:
        super().__init__(server, client)
        self.served = served
        self.context = context
        self.home = f"http://127.0.0.1:{served.port}"
        self.problems: list[str] = []
        """What the console of the browser reported as an error, and exceptions of scripts."""
        self.outside: list[str] = []
        """Requests to other addresses."""

    async def put(self, *flows: Mapping[str, Any]) -> None:
        """Create flows, with the status that they have."""
        for flow in flows:
            meta = flow["metadata"]
            body = {name: value for name, value in flow.items() if name != "status"}
            namespace = meta.get("namespace", "default")
            await self._add_namespace(namespace)
            await self.client.create(JOBFLOWS, namespace, json.dumps(body).encode())
            if "status" in flow:
                name, status = meta["name"], flow["status"]
                await write_status(self.client, JOBFLOWS, name, status, namespace=namespace)

    async def write(self, name: str, status: Mapping[str, Any]) -> None:
        """Write the status of a flow."""
        await write_status(self.client, JOBFLOWS, name, status)

    def put_directly(self, *flows: Mapping[str, Any]) -> None:
        """Store flows with their status in one change, so that a controller sees none without its
        status, and without requests: thousands in a second. Those that exist are replaced."""
        bucket = f"{JOBFLOWS.plural}.{JOBFLOWS.group}"
        for flow in flows:
            given = {"namespace": "default", "generation": 1} | flow["metadata"]
            key = given["namespace"], given["name"]
            there = self.server.storage.get(bucket, key)
            meta = {"uid": there.uid if there else str(uuid4())} | given
            self.server.storage.put(bucket, key, {**flow, "metadata": meta})

    async def _add_namespace(self, name: str) -> None:
        body = json.dumps({"metadata": {"name": name}}).encode()
        with suppress(ApiError):  # it exists
            await self.client.create(NAMESPACES, "", body)

    async def open(self, path: str = "/flows") -> Page:
        """Open an address in a new tab, and wait until its stream brings changes."""
        tab = await self.context.new_page()
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("console", lambda message: self._note(message.type, message.text))
        tab.on("request", lambda request: self._note_address(request.url))
        async with tab.expect_response(lambda answer: "/stream?" in answer.url):
            await tab.goto(self.home + path)
        return tab

    async def counts(self, tab: Page) -> dict[str, int]:
        """Return what the tab's stream has brought so far: events, elements that were replaced,
        added and removed, and bytes."""
        found: dict[str, int] = await tab.evaluate("({...jobflow.counts})")
        return found

    def _note(self, kind: str, text: str) -> None:
        if kind == "error":
            self.problems.append(text)

    def _note_address(self, url: str) -> None:
        if not url.startswith((self.home + "/", "data:")):
            self.outside.append(url)


@asynccontextmanager
async def page_world(
    browser: Browser, *, logs: LogSource | None = None, **options: Any
) -> AsyncIterator[PageWorld]:
    """A new API server and its page, which the browser has entered. `logs`: of its pods. `options`
    are those of a browser context."""
    async with (
        ApiServer(logs=logs) as server,
        Client(anonymous(server.url)) as client,
        served_page(client) as served,
        await browser.new_context(**options) as context,
    ):
        context.set_default_timeout(PATIENCE)
        world = PageWorld(server, client, served, context)
        await context.request.get(served.new_link())  # sets the cookie, and opens no page
        yield world
