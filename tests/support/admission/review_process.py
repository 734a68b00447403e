"""A worker process for large reviews that has as much time as a loaded machine needs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobflow.webhook.large_reviews import IDLE_SECONDS, ReviewProcess
from jobflow.webhook.review.judges import UNCHECKED, Rights
from support.admission.admissions import FakeCluster

PATIENT = 300.0
"""Seconds for a review: more than a loaded machine needs to start a process."""


@asynccontextmanager
async def aside_of(
    cluster: FakeCluster,
    rights: Rights = UNCHECKED,
    seconds: float = PATIENT,
    idle_seconds: float = IDLE_SECONDS,
) -> AsyncIterator[ReviewProcess]:
    """Judge large reviews in a process that ends with the body."""
    reviews = ReviewProcess(cluster, rights, seconds, idle_seconds)
    try:
        yield reviews
    finally:
        await reviews.close()
