"""The HTTP port: is the process alive, is it ready and if not why, and what has it counted.

It reports what it is told; what readiness means is put together in `jobflow.app.serve`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

import jobflow

Reasons = Callable[[], list[str]]
"""Why the process is not ready, a clause each; empty when it is."""


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str = jobflow.__version__


class Readiness(BaseModel):
    """Whether traffic may come, and what it waits for."""

    ready: bool
    waiting_for: list[str] = []


def create_app(reasons: Reasons, metrics: Callable[[], bytes]) -> FastAPI:
    """/healthz (200), /readyz (200 or 503) and /metrics (Prometheus' text format)."""
    app = FastAPI(title="JobFlow health", version=jobflow.__version__, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> Health:
        """Alive: the event loop turns."""
        return Health()

    @app.get("/readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Ready: the cluster has been read and nothing is being stopped."""
        waiting = reasons()
        if waiting:
            response.status_code = 503
        return Readiness(ready=not waiting, waiting_for=waiting)

    @app.get("/metrics", response_class=Response)
    async def scrape() -> Response:
        """Everything that was counted."""
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    return app
