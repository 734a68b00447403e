"""The log of one container, followed over restarts of the container and broken connections."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from jobflow.api.resources import PODS, Status
from jobflow.api.volcano.pod import Pod
from jobflow.client.logs.selection import LogSelection, LogTarget, status_of, why_waiting
from jobflow.core.text import printable
from jobflow.kube.answers import line_batches
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, Query
from jobflow.kube.clock import ExponentialBackoff

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(line: bytes) -> str:
    """Return a line as text without control sequences; tabs stay."""
    text = line.decode(errors="replace")
    # most lines are, and need no more
    if text.isprintable():
        return text
    return "\t".join(map(without_escapes, text.rstrip("\r").split("\t")))


def without_escapes(line: str) -> str:
    """Return the text that a terminal would show at the end, without colours."""
    # after a carriage return, a terminal writes over the line
    text = next(filter(None, reversed(line.split("\r"))), "")
    return printable(_ESCAPES.sub("", text).expandtabs(8))


LONGEST_LINE = 256 * 1024
"""Bytes after which a line is cut, so that no log needs more memory."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[-+]\d\d:\d\d)) ?")
SILENCE_SECONDS = 60.0
"""How long an API server may take to send more of a log that it has."""
_MOST_ERRORS = 5
"""Errors in a row after which the log of a pod that has ended is given up."""


class LogSink:
    """Takes the lines of several containers."""

    def print(self, step: str, name: str, lines: Iterable[bytes]) -> None:
        """Take lines of the container of this name."""

    async def drain(self) -> None:
        """Return once there is room for more lines, which by default is at once."""


def split_stamp(line: bytes) -> tuple[bytes, bytes]:
    """Return the time at which a line was written, and its text. Without a time it is b""."""
    found = _STAMP.match(line)
    return (b"", line) if found is None else (found[1], line[found.end() :])


def log_path(target: LogTarget) -> str:
    meta = target.pod.metadata
    return PODS.path(meta.namespace, meta.name, "log")


async def read_lines(
    client: Client, target: LogTarget, query: Query = ()
) -> AsyncGenerator[Sequence[bytes], None]:
    """Yield the lines of a container's log as it is now. Raises ApiError and NETWORK_ERRORS."""
    query = [("container", target.container), *query]
    stream = client.stream(log_path(target), query=query, silence=SILENCE_SECONDS)
    async with aclosing(stream):
        async for lines in line_batches(stream, longest=LONGEST_LINE):
            yield lines


@dataclass(slots=True)
class Position:
    """How far a log has been read. Requests with timestamps can then go on where another ended."""

    time: bytes = b""
    """The time of the last line."""
    _lines: int = 0
    """Lines with this time that have been read."""
    _repeated: int = 0
    """Such lines that the present request has repeated."""
    _is_new: bool = True

    def resume(self) -> None:
        """Begin another request for the lines since `time`."""
        self._repeated = 0

    def unread(self, lines: Sequence[bytes], *, timestamps: bool) -> Iterator[bytes]:
        """Yield the lines that no earlier request has brought; drop the timestamps if not asked
        for. A part of a long line has none."""
        for line in lines:
            if (found := _STAMP.match(line)) is None:
                if self._is_new:
                    yield line
                continue
            time = found[1]
            if time > self.time:
                self.time, self._lines, self._repeated = time, 0, 0
            # sinceTime has no fractions, so lines of the last second come again
            self._repeated += time == self.time
            self._is_new = time == self.time and self._repeated > self._lines
            if self._is_new:
                self._lines = self._repeated
                yield line if timestamps else line[found.end() :]


@dataclass(eq=False)
class ContainerFollower:
    """Follows the log of a container until its pod has ended. `run` may be awaited once."""

    client: Client
    target: LogTarget
    options: LogSelection
    sink: LogSink
    slots: asyncio.Semaphore
    """Each is a connection."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _starts: bool = True
    _position: Position = field(default_factory=Position)
    _read_run: int | None = None
    """The run (`restartCount`) whose log was read to its end."""
    _backoff: ExponentialBackoff = field(default_factory=lambda: ExponentialBackoff(first=0.5))
    _errors: int = 0

    def __post_init__(self) -> None:
        self._pod: Pod | None = self.target.pod

    def update(self, pod: Pod | None) -> None:
        """Take the pod as it is now; None if it was deleted."""
        self._pod = pod
        self._changed.set()

    def expect_no_start(self) -> None:
        """End without a log if the container has not started yet."""
        self._starts = False
        self._changed.set()

    async def run(self) -> None:
        """Print the log. Raises ApiError if it cannot be read."""
        while (pod := self._pod) is not None:
            if why_waiting(pod, self.target.container):
                if pod.ended or not self._starts:
                    return
                await self._wait()
                continue
            status = status_of(pod, self.target.container)
            run = status.restart_count if status is not None else 0
            state = status.state if status is not None else None
            if self._read_run != run:
                await self._read(run)
            elif pod.ended:
                return
            elif state is not None and (state.terminated is not None or state.waiting is not None):
                await self._wait()
            elif not await self._wait(self._backoff.next()):
                self._read_run = None  # it still runs, so the connection was cut

    async def _wait(self, seconds: float | None = None) -> bool:
        """Wait for a change of the pod; return whether it came in time."""
        self._changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        return self._changed.is_set()

    async def _read(self, run: int) -> None:
        position, options = self._position, self.options
        query = [("container", self.target.container), ("follow", "true"), ("timestamps", "true")]
        # sinceTime is in whole seconds: `position` leaves out what was read before
        since = [("sinceTime", position.time.decode())] if position.time else options.query
        position.resume()
        stream = self.client.stream(log_path(self.target), query=[*query, *since])
        try:
            # a slot is held only while a log is open, not between two
            async with self.slots, aclosing(stream):
                async for lines in line_batches(stream, longest=LONGEST_LINE):
                    self._errors = 0
                    self._backoff.reset()
                    unread = position.unread(lines, timestamps=options.timestamps)
                    self.sink.print(self.target.step, self.target.name, unread)
                    await self.sink.drain()
        except ApiError as error:
            self._errors += 1
            if (pod := self._pod) is None:
                return  # its log is gone with it
            if error.code in (401, 403, 404) or (pod.ended and self._errors >= _MOST_ERRORS):
                raise
            await self._wait(self._backoff.next())
        except NETWORK_ERRORS as error:
            self._errors += 1
            if self._errors >= _MOST_ERRORS and (self._pod is None or self._pod.ended):
                failed = Status(code=503, message=str(error) or type(error).__name__)
                raise ApiError(failed) from None
            await self._wait(self._backoff.next())
        else:
            self._read_run = run
