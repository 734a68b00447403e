"""The HTTP port: /healthz, /readyz and /metrics. `jobflow.app.readiness` decides what is ready."""

from collections.abc import Callable
from typing import Literal

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

import jobflow


class HealthAnswer(BaseModel):
    """Answer of /healthz: the event loop runs."""

    status: Literal["ok"] = "ok"
    version: str = jobflow.__version__


class ReadyAnswer(BaseModel):
    """Answer of /readyz: whether the process is ready, and what it waits for."""

    ready: bool
    waiting_for: list[str] = []


def create_app(waiting_for: Callable[[], list[str]], metrics: Callable[[], bytes]) -> FastAPI:
    """Return the app of the HTTP port. /readyz answers 503 if `waiting_for` returns a clause;
    /metrics answers in Prometheus' text format."""
    app = FastAPI(title="JobFlow health", version=jobflow.__version__, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> HealthAnswer:
        return HealthAnswer()

    @app.get("/readyz", responses={503: {"model": ReadyAnswer}})
    async def readyz(response: Response) -> ReadyAnswer:
        clauses = waiting_for()
        if clauses:
            response.status_code = 503
        return ReadyAnswer(ready=not clauses, waiting_for=clauses)

    @app.get("/metrics", response_class=Response)
    async def scrape() -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    return app
