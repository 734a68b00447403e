"""An event loop whose time passes only while all tasks wait: hours take milliseconds, and all runs
are the same. For code that uses the clock of the loop and opens no sockets."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Moves the clock instead of sleeping."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that will never come")
        if not ready:
            self.now += timeout or 0.0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time starts at 0 seconds."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. Fails if it leaves tasks behind."""

    async def check_tasks() -> T:
        result = await main
        remaining = asyncio.all_tasks() - {asyncio.current_task()}
        assert not remaining, f"tasks left behind: {remaining}"
        return result

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(check_tasks())
