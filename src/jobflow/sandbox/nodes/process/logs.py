"""Logs and termination messages of containers, with a kubelet's limits."""

import fcntl
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from jobflow.api.meta import ObjectMeta
from jobflow.core.limits import MAX_MESSAGE_BYTES
from jobflow.core.pods.outputs import message_limit
from jobflow.sandbox.nodes.process.log_reader import ContainerLog

LOG_LIMIT = 10 * 1024 * 1024
"""Maximum size of a log in bytes; the part before it is kept in a second file of that size."""
KEPT_RUNS = 20
"""Number of unused folders that are kept when a new one is created."""

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
        """Create the log of a container's next run, which ends with the context; yield its path.
        Raises OSError."""
        log = ContainerLog(self._place(pod, container))
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

    def _place(self, pod: ObjectMeta, container: str) -> Path:
        name = self.folder / _word(pod.namespace) / _word(pod.name) / _word(container)
        self._runs[name] += 1
        count = f".{self._runs[name]}" if self._runs[name] > 1 else ""
        return name.with_name(f"{name.name}{count}.log")


def new_folder(parent: Path, now: datetime) -> tuple[Path, int]:
    """Create a folder for a run, named by the time; return it and a lock that marks it as used.

    Only the user may read it, because logs hold the output of commands. The oldest unused folders
    are removed. Raises OSError.
    """
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
    for path in (log.with_name(log.name + ".old"), log):
        if path.exists():
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    count += chunk.count(b"\n")
                    end = (end + chunk)[-_TAIL_BYTES:]
    if end and not end.endswith(b"\n"):
        count += 1
    text = end.decode(errors="replace")
    return text.removesuffix("\n").split("\n")[-lines:] if text else [], count


def read_message(path: Path, *, containers: int, log: Path | None) -> str:
    """Return the end of a termination message, as a kubelet does, or of the log if it is empty.
    A pod of several `containers` has less room for each."""
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
