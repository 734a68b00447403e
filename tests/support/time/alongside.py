"""Background work of tests, and waits for its effects."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
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


async def until(holds: Callable[[], object], *, within: float = 20.0) -> None:
    """Return as soon as the condition holds, although nothing reports a change of it."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
