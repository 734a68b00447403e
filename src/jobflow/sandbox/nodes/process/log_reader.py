"""The log of one run of a container, read as `kubectl logs` reads it: the last lines, lines since a
time, timestamps, and what is still being written. Never more than a block of it is in memory."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from jobflow.sandbox.nodes.process.supervisor import TIME, times_path

BLOCK = 64 * 1024
"""Bytes that are read at once."""
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_ATTEMPTS = 10
"""Attempts to open a file that is being rotated."""


class ContainerLog:
    """The log of one run, which its supervisor writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        """Whether the run has ended, so that the log is complete."""

    def read(
        self, *, tail: int | None, since: datetime | None, timestamps: bool, follow: bool
    ) -> Generator[bytes, None, None]:
        """Yield the log in blocks. With `follow`, yield b"" at the present end until the run has
        ended."""
        with ExitStack() as stack:
            files = self._open(stack)
            start = max(_tail_start(files, tail), _since_start(files, since))
            stamp = _Stamps() if timestamps else None
            for number, file in enumerate(files):
                file.position = start[1] if number == start[0] else 0
                if number >= start[0]:
                    yield from file.blocks(stamp)
            while follow and files:
                # Read before the blocks, or lines written meanwhile would be missed.
                ended, file = self.ended, files[-1]
                yield from file.blocks(stamp)
                # What was written between the last read and the rotation is still in this file.
                if file.is_rotated():
                    yield from file.blocks(stamp)
                    files = self._open(stack)[-1:]
                elif ended:
                    return
                else:
                    yield b""

    def _open(self, stack: ExitStack) -> list[_LogFile]:
        """Open the file that is written and the one before it, the older first; close others."""
        # A rotation between the two calls would show the same file twice, or a part of the log not
        # at all.
        for _ in range(_ATTEMPTS):
            stack.close()
            old = self.path.with_name(self.path.name + ".old")
            files = [_LogFile.open(path, stack) for path in (self.path, old)]
            present = [file for file in reversed(files) if file is not None]
            if not any(file.is_rotated() for file in present):
                break
        return present


class _LogFile:
    """A file of a log, with its record of times."""

    def __init__(self, path: Path, log: BinaryIO, times: BinaryIO | None) -> None:
        self.position = 0
        """The offset of the next block."""
        self._path = path
        self._log = log
        self._times = times

    @classmethod
    def open(cls, path: Path, stack: ExitStack) -> _LogFile | None:
        """Open a file until the context ends; None if it does not exist."""
        suffix = ".old" if path.suffix == ".old" else ""
        times = times_path(str(path).removesuffix(suffix)) + suffix
        try:
            log = stack.enter_context(path.open("rb", buffering=0))
        except FileNotFoundError:
            return None
        try:
            return cls(path, log, stack.enter_context(open(times, "rb", buffering=0)))
        except FileNotFoundError:  # nothing is written yet
            return cls(path, log, None)

    def is_rotated(self) -> bool:
        """Whether the path names another file by now."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._log.fileno()))
        except FileNotFoundError:
            return True

    @property
    def size(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def read(self, start: int, size: int) -> bytes:
        return os.pread(self._log.fileno(), size, start)

    def blocks(self, stamps: _Stamps | None) -> Iterator[bytes]:
        """Yield what follows `position`, and move it."""
        while block := self.read(self.position, BLOCK):
            start = self.position
            self.position += len(block)
            yield block if stamps is None else stamps.add(self, block, start)

    def _entry(self, index: int) -> tuple[int, int]:
        assert self._times is not None
        offset, nanoseconds = TIME.unpack(
            os.pread(self._times.fileno(), TIME.size, index * TIME.size)
        )
        return offset, nanoseconds

    def _entries(self) -> int:
        return os.fstat(self._times.fileno()).st_size // TIME.size if self._times else 0

    def time_at(self, offset: int) -> tuple[int, int]:
        """Return when the byte at an offset was written, in nanoseconds, and the offset of the
        first byte that was written later."""
        count = self._entries()
        index = bisect_right(range(count), offset, key=lambda each: self._entry(each)[0])
        moment = self._entry(index - 1)[1] if index else os.fstat(self._log.fileno()).st_mtime_ns
        return moment, self._entry(index)[0] if index < count else offset + 1

    def line_since(self, moment: int) -> int:
        """Return the offset of the first line that began at or after a time in nanoseconds."""
        count = self._entries()
        index = bisect_left(range(count), moment, key=lambda each: self._entry(each)[1])
        position = self._entry(index)[0] if index < count else self.size
        # A log begins with a line.
        if position == 0:
            return 0
        position -= 1  # a line that begins here follows a line break
        while block := self.read(position, BLOCK):
            if (found := block.find(b"\n")) >= 0:
                return position + found + 1
            position += len(block)
        return position


class _Stamps:
    """Puts the time before each line, also of a line that is read in several blocks."""

    def __init__(self) -> None:
        self._at_start = True
        self._until = 0
        self._text = b""
        self._file: _LogFile | None = None

    def add(self, file: _LogFile, block: bytes, start: int) -> bytes:
        """Return a block of the file, with the time before each line that begins in it."""
        parts = []
        if file is not self._file:
            self._file, self._until = file, 0
        for line in _LINES.findall(block):
            if self._at_start:
                if start >= self._until:
                    moment, self._until = file.time_at(start)
                    seconds, rest = divmod(moment, 1_000_000_000)
                    clock = datetime.fromtimestamp(seconds, UTC)
                    self._text = f"{clock:%Y-%m-%dT%H:%M:%S}.{rest:09}Z ".encode()
                parts.append(self._text)
            parts.append(line)
            start += len(line)
            self._at_start = line.endswith(b"\n")
        return b"".join(parts)


_Start = tuple[int, int]
"""The index of a file, and an offset in it."""


def _tail_start(files: list[_LogFile], lines: int | None) -> _Start:
    """Return where the last lines begin; None means all lines."""
    if lines is None:
        return (0, 0)
    missing = lines
    last = True
    for number in range(len(files) - 1, -1, -1):
        position = files[number].size
        while position:
            begin = max(position - BLOCK, 0)
            block = files[number].read(begin, position - begin)
            if last:  # the line break at the very end ends the last line
                missing, last = missing + block.endswith(b"\n"), False
            end = len(block)
            while missing > 0 and (end := block.rfind(b"\n", 0, end)) >= 0:
                missing -= 1
                if missing == 0:
                    return number, begin + end + 1
            if lines == 0:
                return number, position
            position = begin
    return (0, 0)


def _since_start(files: list[_LogFile], since: datetime | None) -> _Start:
    """Return where the lines since a time begin."""
    if since is None:
        return (0, 0)
    moment = int(since.timestamp() * 1_000_000_000)
    for number, file in enumerate(files):
        position = file.line_since(moment)
        if position < file.size or number == len(files) - 1:
            return number, position
    return (0, 0)
