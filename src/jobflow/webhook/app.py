"""The webhook's FastAPI app: the review paths (by middleware) and a page that names them.

It is served over TLS only; health and metrics have a port of their own (`jobflow.app.health`).
"""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

import jobflow
from jobflow.webhook.middleware import Observe, ReviewMiddleware
from jobflow.webhook.review.judges import Cluster, Rights
from jobflow.webhook.review.review import Answer, Elsewhere, reviewers


class Paths(BaseModel):
    """Where reviews are answered, by kind."""

    version: str
    reviews: dict[str, str]


def _unobserved(kind: str, answer: Answer, seconds: float) -> None:
    """For a webhook that nobody counts: a test, a bench."""


def create_app(
    cluster: Cluster,
    observe: Observe = _unobserved,
    *,
    elsewhere: Elsewhere | None = None,
    rights: Rights | None = None,
) -> FastAPI:
    """The app that answers reviews by what `cluster` knows and tells `observe` of each. Large ones
    are judged `elsewhere`, if there is one; `rights` tells what users may do."""
    paths = reviewers(cluster, elsewhere, rights)
    app = FastAPI(
        title="JobFlow admission",
        version=jobflow.__version__,
        description="Validating webhooks of JobFlow and JobTemplate.",
        openapi_url=None,
    )
    app.add_middleware(ReviewMiddleware, reviewers=paths, observe=observe)
    listed = Paths(
        version=jobflow.__version__,
        reviews={path: reviewer.kind for path, reviewer in paths.items()},
    )

    @app.get("/")
    async def index() -> Paths:
        """The review paths."""
        return listed

    return app
