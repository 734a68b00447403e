"""The addresses of logs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from jobflow.page.logs.choice import read_selection
from jobflow.page.logs.download import log_file
from jobflow.page.logs.feed import LogFeed
from jobflow.page.watches.flows import one_flow
from jobflow.page.watches.live import Watches
from jobflow.page.watches.step import StepChoice, live_page
from jobflow.page.web.guard import HOME
from jobflow.page.web.stream import Closing


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
        async with one_flow(watches, namespace, name) as live:
            flow = live.flow
        choice = StepChoice.of(flow, step) if flow is not None else None
        if flow is None or choice is None:
            return PlainTextResponse("There is no such step.\n", status_code=404)
        selection = replace(read_selection(request.query_params, choice), tail=None)
        text = log_file(watches.client, flow, selection)
        file = re.sub(r"[^A-Za-z0-9.-]", "-", f"{name}-{step}.log")
        headers = {"content-disposition": f'attachment; filename="{file}"'}
        return StreamingResponse(text, media_type="text/plain; charset=utf-8", headers=headers)

    app.get(HOME + "/{namespace}/{name}/logs")(stream_logs)
    app.get(HOME + "/{namespace}/{name}/logs.txt")(download_logs)
