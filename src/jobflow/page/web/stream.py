"""Streams of server-sent events: one for each open page, which brings only what has changed. After
a broken connection, the browser tells its page's number and the last update that it got; if the
server has sent more, or has forgotten the page, it sends everything once more."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from jobflow.client.flows.live import Signal
from jobflow.page.web.fragments import Fragment, Shown

COALESCE_SECONDS = 0.25
"""Shortest time between two updates of a page, so that many changes at once are one update."""
QUIET_SECONDS = 15.0
"""Longest time without an update or a sign of life."""
RETRY_MILLISECONDS = 1000
"""Time after which a browser connects again."""
MAX_PAGES = 64
"""Pages that are remembered."""
Fragments = Callable[[], Iterable[Fragment]]
"""Returns the fragments of a page as they are now."""


class Pages:
    """The contents of each open page, by its number."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, Shown] = OrderedDict()
        self._count = 0

    def add(self, fragments: Iterable[Fragment]) -> str:
        """Return the number of a document that was made of these fragments."""
        # a number of its own for each document, as two tabs may show the same address
        self._count += 1
        number = str(self._count)
        shown = Shown()
        shown.mark(fragments)
        self._keep(number, shown)
        return number

    def find(self, number: str, last: str) -> Shown:
        """Return what a page shows whose last update was `last`, for one connection: an earlier
        connection of the page, which may not have noticed its end yet, keeps its own."""
        # taken out and put back, so that the pages forgotten first are those not used for longest
        before = self._shown.pop(number, Shown())
        shown = before.copy() if last == str(before.sequence) else Shown(before.sequence)
        self._keep(number, shown)
        return shown

    def _keep(self, number: str, shown: Shown) -> None:
        self._shown[number] = shown
        while len(self._shown) > MAX_PAGES:
            self._shown.popitem(last=False)


class Closing(Signal):
    """Tells streams that the server ends."""

    is_set = False

    def close(self) -> None:
        self.is_set = True
        self.notify()

    @contextmanager
    def event(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the server ends."""
        with self.watched() as event:
            if self.is_set:
                event.set()
            yield event


async def updates(
    fragments: Fragments, shown: Shown, signals: Iterable[Signal], closing: Closing
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events as long as the browser listens, or until `closing`."""
    with Signal([*signals, closing]).watched() as changed:
        # EventSource alone would wait some seconds, which differ between browsers
        yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
        while not closing.is_set:
            # before drawing: a change during it makes another update
            changed.clear()
            update = shown.update(fragments())
            if update is None:
                yield b"event: alive\ndata:\n\n"
            else:
                data = msgspec.json.encode(update)
                yield b"id: %d\nevent: update\ndata: %s\n\n" % (shown.sequence, data)
            # a burst of changes is one update, and the first of them is not delayed
            await asyncio.sleep(COALESCE_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), QUIET_SECONDS)
