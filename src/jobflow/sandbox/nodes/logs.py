"""Logs and termination messages of containers, with a kubelet's limits. Never more than a block of
a log is in memory."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from jobflow.api.resources import ObjectMeta
from jobflow.core.limits import MAX_MESSAGE_BYTES
from jobflow.core.pods.outputs import message_limit
from jobflow.sandbox.nodes.supervisor import TIME, times_path

LOG_LIMIT = 10 * 1024 * 1024
"""Maximum size of a log in bytes; the part before it is kept in a second file of that size."""
KEPT_RUNS = 20

_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048
_TAIL_BYTES = 64 * 1024
_IN_USE = ".in-use"


class Logs:
    """Folder of a run: `NAMESPACE/POD/CONTAINER.log`, for further runs `CONTAINER.2.log` and so
    on. The times of lines are in hidden files beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: Counter[Path] = Counter()
        self._logs: dict[tuple[str, str], list[ContainerLog]] = {}

    @contextmanager
    def next_run(self, pod: ObjectMeta, container: str) -> Iterator[Path]:
        """Create the log of a container's next run, which ends with the context. Raises OSError."""
        name = self.folder / _word(pod.namespace) / _word(pod.name) / _word(container)
        self._runs[name] += 1
        count = f".{self._runs[name]}" if self._runs[name] > 1 else ""
        log = ContainerLog(name.with_name(f"{name.name}{count}.log"))
        self._logs.setdefault((pod.uid, container), []).append(log)
        try:
            log.path.parent.mkdir(parents=True, exist_ok=True)
            log.path.touch()
            yield log.path
        finally:
            log.ended = True

    def find(self, pod_uid: str, container: str, run: int) -> ContainerLog | None:
        """Return the log of a run, from 0, of a pod's container; None if it has not started."""
        logs = self._logs.get((pod_uid, container), [])
        return logs[run] if 0 <= run < len(logs) else None


def new_folder(parent: Path, now: datetime) -> tuple[Path, int]:
    """Create a folder for a run, named by the time; return it and a lock that marks it as used. The
    oldest unused folders are removed. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(1, 1000):
        suffix = f"-{number}" if number > 1 else ""
        folder = parent / f"{now.astimezone():%Y%m%d-%H%M%S}{suffix}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        mark = os.open(folder / _IN_USE, os.O_RDWR | os.O_CREAT, 0o644)
        # The lock ends with the process, also if it is killed.
        fcntl.flock(mark, fcntl.LOCK_EX)
        # The newest logs stay: their user may still want to read them.
        _prune(parent, folder)
        return folder, mark
    raise FileExistsError(17, "there are too many folders of this second", str(parent))


def _prune(parent: Path, new: Path) -> None:
    found = sorted(path.parent for path in parent.glob(f"*/{_IN_USE}") if path.parent != new)
    for folder in found[: max(len(found) - KEPT_RUNS + 1, 0)]:
        try:
            mark = os.open(folder / _IN_USE, os.O_RDWR)
        except FileNotFoundError:  # another process was quicker
            continue
        try:
            # A folder whose lock is held belongs to a sandbox that is running.
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        except BlockingIOError:
            continue
        finally:
            os.close(mark)


def _word(name: str) -> str:
    """Return a name that is safe for a file; valid Kubernetes names do not change."""
    return re.sub(r"[^A-Za-z0-9._-]|^\.", "_", name)


def tail(log: Path, lines: int) -> tuple[list[str], int]:
    """Return the last lines of a log, at most 64 KiB, and the number of all lines kept."""
    count, end = 0, b""
    for block in ContainerLog(log).read(tail=None, since=None, timestamps=False, follow=False):
        count += block.count(b"\n")
        # A log may be large, and only its end is shown.
        end = (end + block)[-_TAIL_BYTES:]
    if end and not end.endswith(b"\n"):
        count += 1
    text = end.decode(errors="replace")
    return text.removesuffix("\n").split("\n")[-lines:] if text else [], count


def read_message(path: Path, *, containers: int, log: Path | None) -> str:
    """Return the end of a termination message, as a kubelet does, or of the log if it is empty. A
    pod of several `containers` has less room for each."""
    try:
        message = _end_of(path, MAX_MESSAGE_BYTES)
    except OSError as error:
        return f"Error on reading termination log {path}: {error.strerror}"
    # A kubelet does the same for terminationMessagePolicy FallbackToLogsOnError.
    if not message and log is not None and log.exists():
        last = _end_of(log, _FALLBACK_BYTES).split(b"\n")
        message = b"\n".join(last[-_FALLBACK_LINES - (not last[-1]) :])
    return message[: message_limit(containers)].decode(errors="replace")


def _end_of(path: Path, limit: int) -> bytes:
    """Return the last bytes of a file; b"" if it is not a regular file any more. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # it could be a pipe by now
    except FileNotFoundError:
        return b""
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        file.seek(max(status.st_size - limit, 0))
        return file.read(limit)


BLOCK = 64 * 1024
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_ATTEMPTS = 10


class ContainerLog:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        """Whether the run has ended, so that the log is complete."""

    def read(
        self, *, tail: int | None, since: datetime | None, timestamps: bool, follow: bool
    ) -> Generator[bytes, None, None]:
        """Yield the log in blocks; with `follow`, b"" at the present end until the run ends."""
        with ExitStack() as stack:
            files = self._open(stack)
            start = (0, 0) if tail is None else _tail_start(files, tail)
            if since is not None:
                moment = int(since.timestamp() * 1_000_000_000)
                lines = [(number, file.line_since(moment)) for number, file in enumerate(files)]
                # A line that would begin at the end of the first file is in the second one.
                found = (line for line in lines if line[1] < files[line[0]].size)
                start = max(start, next(found, lines[-1] if lines else start))
            stamp = _Stamps() if timestamps else None
            for number, file in enumerate(files):
                file.position = start[1] if number == start[0] else 0
                if number >= start[0]:
                    yield from file.blocks(stamp)
            while follow and files:
                # Read before the blocks, or lines written meanwhile would be missed.
                ended, file = self.ended, files[-1]
                yield from file.blocks(stamp)
                # Lines between the last read and the rotation are still in this file.
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
    def __init__(self, path: Path, log: BinaryIO, times: BinaryIO | None) -> None:
        self.position = 0
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
        entry = os.pread(self._times.fileno(), TIME.size, index * TIME.size)
        offset, nanoseconds = TIME.unpack(entry)
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


def _tail_start(files: list[_LogFile], lines: int) -> tuple[int, int]:
    """Return the number of the file in which the last lines begin, and their offset."""
    missing, last = lines, True
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
