"""The addresses of logs: lines that are followed, and a file of plain text."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.errors import CommandError
from jobflow.client.logs import selection as selecting
from jobflow.client.logs.selection import LogSelection
from jobflow.client.logs.stream import clean, read_lines
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.page.logs.feed import LogFeed, read_selection
from jobflow.page.watches.flows import one_flow
from jobflow.page.watches.live import Watches
from jobflow.page.watches.step import StepChoice, live_page
from jobflow.page.web.guard import HOME
from jobflow.page.web.stream import Closing


async def log_file(
    client: Client, flow: JobFlow, selection: LogSelection
) -> AsyncGenerator[bytes, None]:
    """Yield one log after another, as `jobflow logs` prints them, or why one cannot be read."""
    try:
        pods = await selecting.list_pods(client, flow, selection)
        # after the pods, so that the flow of each pod is known
        family = await selecting.read_family(client, flow, selection)
    except (CommandError, *NETWORK_ERRORS) as error:
        yield f"{error}\n".encode()
        return
    targets = selecting.find_targets(family, pods, selection)
    if not targets:
        none = selecting.why_none(family, selecting.pods_below(family, pods, selection), selection)
        yield f"{none}\n".encode()
    # logs may take all connections of a client
    async with client.sibling() as streams:
        for target in targets:
            prefix = f"{target.name} │ " if len(targets) > 1 else ""
            if why := selecting.why_waiting(target.pod, target.container):
                yield f"{target.name}: no log yet: {why}\n".encode()
                continue
            try:
                async with aclosing(read_lines(streams, target)) as batches:
                    async for lines in batches:
                        text = "".join(f"{prefix}{clean(line)}\n" for line in lines)
                        yield text.encode(errors="replace")
            except (ApiError, *NETWORK_ERRORS) as error:
                yield f"{target.name}: the log is incomplete: {error}\n".encode()


def add_log_routes(app: FastAPI, watches: Watches, closing: Closing) -> None:
    """Serve the logs of steps, until `closing` ends the streams."""

    async def stream_logs(request: Request, namespace: str, name: str) -> Response:
        step = request.query_params.get("step", "")

        async def body() -> AsyncIterator[bytes]:
            async with live_page(watches, namespace, name, step, reads=False) as page:
                choice = page.step.choice if page.step is not None else None
                feed = LogFeed(page, read_selection(request.query_params, choice))
                async with aclosing(feed.messages(watches.client, closing)) as messages:
                    async for message in messages:
                        yield message

        return StreamingResponse(body(), media_type="application/x-ndjson")

    async def download_logs(request: Request, namespace: str, name: str) -> Response:
        step = request.query_params.get("step", "")
        # the pods are read once, so the flow is all that is needed of the watch
        async with one_flow(watches, namespace, name) as live:
            flow = live.flow
        choice = StepChoice.of(flow, step) if flow is not None else None
        if flow is None or choice is None:
            return PlainTextResponse("There is no such step.\n", status_code=404)
        selection = replace(read_selection(request.query_params, choice), tail=None)
        text = log_file(watches.client, flow, selection)
        # a header takes no slash and no quote
        file = re.sub(r"[^A-Za-z0-9.-]", "-", f"{name}-{step}.log")
        headers = {"content-disposition": f'attachment; filename="{file}"'}
        return StreamingResponse(text, media_type="text/plain; charset=utf-8", headers=headers)

    app.get(HOME + "/{namespace}/{name}/logs")(stream_logs)
    app.get(HOME + "/{namespace}/{name}/logs.txt")(download_logs)
