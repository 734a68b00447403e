"""The HTTP port, and the readiness of a replica: what it waits for."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST

import jobflow
from jobflow.store import Feed, Feeds, Store

log = structlog.get_logger(__name__)


def create_health_app(
    waiting_for: Callable[[], list[str]], metrics: Callable[[], bytes]
) -> FastAPI:
    """Return the app of the HTTP port. /readyz answers 503 if `waiting_for` returns a clause."""
    app = FastAPI(title="JobFlow health", version=jobflow.__version__, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        # it answers if the event loop runs, which is all that a restart could mend
        return {"status": "ok", "version": jobflow.__version__}

    @app.get("/readyz")
    async def readyz(response: Response) -> dict[str, Any]:
        clauses = waiting_for()
        if clauses:
            response.status_code = 503
        return {"ready": not clauses, "waiting_for": clauses}

    @app.get("/metrics", response_class=Response)
    async def scrape() -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    return app


CHECK_SECONDS = 0.1


class Readiness:
    """Whether a replica is ready, leader or not: every replica answers reviews. `others` return
    further clauses that name what is waited for."""

    def __init__(self, store: Store, feeds: Feeds, *others: Callable[[], list[str]]) -> None:
        self._store = store
        self._feeds = feeds
        self._others = others
        self.stopping = False

    def waiting_for(self) -> list[str]:
        """Return a clause for each thing that is missing."""
        if self.stopping:
            return ["its end: it is being stopped"]
        clauses = []
        for feed in self._feeds:
            cache = feed.cache
            if feed is self._feeds.pods:
                # every cluster has pods, so a replica that may not list them is not ready, although
                # it runs flows (docs/decisions/watched-pods.md)
                listed = self._store.listed.is_set()
                waits = listed and (cache.served is False or not cache.answered)
            elif feed in (self._feeds.queues, self._feeds.commands):
                waits = not cache.answered
            else:
                waits = not (cache.synced and cache.served)
            if waits:
                resource = feed.resource
                clause, trouble = f"the API server to list {resource.plural}", feed.trouble
                # the most common trouble of a new installation has a remedy
                if trouble.startswith("404"):
                    is_ours = resource.group == "flow.volcano.sh"
                    owner = "`jobflow crds --apply`" if is_ours else "Volcano"
                    kind = f"{resource.api_version} {resource.kind}"
                    trouble = f"{kind} is not served; {owner} installs it"
                clauses.append(f"{clause}: {trouble}" if trouble else clause)
        clauses += map(_outdated_clause, self._feeds.outdated())
        return clauses + [clause for source in self._others for clause in source()]

    def unknown(self) -> list[str]:
        """Return the kinds that cannot be followed at present, each with its error."""
        return [
            f"{feed.resource.plural}: {feed.trouble}" for feed in self._feeds if feed.cache.failing
        ]

    def outdated(self) -> str | None:
        """Return why reviews cannot rely on the copies, or None."""
        clauses = map(_outdated_clause, self._feeds.outdated())
        return next((f"this replica waits for {clause}" for clause in clauses), None)

    async def wait_ready(self) -> None:
        await self._store.synced.wait()
        while self.waiting_for():  # noqa: ASYNC110 - its sources have no common event
            await asyncio.sleep(CHECK_SECONDS / 10)

    async def report(self) -> None:
        before: list[str] | None = None
        while True:
            clauses = self.waiting_for()
            # one line for each change, not one for each check
            if clauses != before and clauses:
                log.info("not ready", waiting_for=clauses)
            elif clauses != before:
                log.info("ready")
                if unknown := self.unknown():
                    log.warning("ready without knowing every kind", unknown=unknown)
            before = clauses
            await asyncio.sleep(CHECK_SECONDS)


def _outdated_clause(feed: Feed) -> str:
    resource, trouble = feed.resource, feed.trouble
    copy = f"the copy of {resource.plural}, which is older than {feed.max_age:g} s"
    return f"the API server to confirm {copy}" + (f": {trouble}" if trouble else "")
