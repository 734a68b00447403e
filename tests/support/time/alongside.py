"""Work that runs while the body of a test does."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager


@asynccontextmanager
async def alongside(work: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task while the body runs. A task that ends by itself fails the test."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()
