"""The webhook's FastAPI app, served over TLS: the review paths and an index page."""

from typing import Any

from fastapi import FastAPI

import jobflow
from jobflow.webhook.middleware import Observe, ReviewMiddleware
from jobflow.webhook.review.judges import Cluster
from jobflow.webhook.review.review import Elsewhere, reviewers
from jobflow.webhook.review.rights import UNCHECKED, Rights


def create_app(
    cluster: Cluster,
    observe: Observe = lambda kind, answer, seconds: None,
    *,
    elsewhere: Elsewhere | None = None,
    rights: Rights = UNCHECKED,
) -> FastAPI:
    """Return the app that answers reviews from what `cluster` knows. `observe` is called after
    every review. Without `elsewhere` the event loop judges large reviews too; without `rights` no
    users are checked."""
    paths = reviewers(cluster, elsewhere, rights)
    app = FastAPI(
        title="JobFlow admission",
        version=jobflow.__version__,
        description="Webhooks of JobFlow, JobTemplate, and Commands about flows.",
        openapi_url=None,
    )
    app.add_middleware(ReviewMiddleware, reviewers=paths, observe=observe)
    kinds = {path: reviewer.kind for path, reviewer in paths.items()}

    @app.get("/")
    async def index() -> dict[str, Any]:
        """The review paths and the kind that each reviews."""
        return {"version": jobflow.__version__, "reviews": kinds}

    return app
