"""Supervisor of one container's processes: a separate program that the process runner starts.

It is imported by path, without site packages, so it must import nothing but the standard library,
and only what it needs to run: each container waits for its start.

Standard input is its lease: a line of JSON says what to run, a later line `{"grace": 5}` requests
the end (SIGTERM to the command, SIGKILL to all after so many seconds). The end of the input means
that the sandbox has exited or was killed, and has the same effect with LAST_GRACE. So a killed
sandbox leaves nothing behind.

On Linux the supervisor is a subreaper: every process that the command leaves behind becomes its
child, even after a double fork or in another process group. After the command has ended, these are
killed, as a container ends with its first process. On other systems only the command's process
group is.

Standard output is one line of JSON each: `{"pid": 7}` after the start, or `{"error": "…", "code":
127}`; then `{"code": 0}` when all processes have ended.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import struct
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes a seventh of the start
    from typing import Any, NoReturn

LAST_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL if the sandbox is gone."""
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 128
"""Exit codes of a command that cannot start: a shell's, and containerd's for other errors."""

TIME = struct.Struct("<QQ")
"""An entry of a record of times: offset in the log, nanoseconds since 1970."""
_RESOLUTION = 1_000_000
"""Nanoseconds between two entries, so that single bytes do not get an entry each."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"
_CHUNK = 65536
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    control = Control(0)
    request = control.next()
    if request is None:
        return
    if _LINUX:
        # Orphans become children of this process instead of init, so that they can be found.
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake, woken_by = os.pipe()
    for fd in (wake, woken_by):
        os.set_blocking(fd, False)
    # A signal becomes a byte that poll reports, so none is lost between two calls.
    signal.set_wakeup_fd(woken_by, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_ENDING_SIGNALS):
        signal.signal(number, lambda *_: None)
    output, output_of_command = os.pipe()
    hear, tell = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(request, supervisor, output_of_command, tell)
    os.close(output_of_command)
    os.close(tell)
    with os.fdopen(hear, "rb") as pipe:
        fault = pipe.read()  # nothing, once the command has replaced the child
    if fault:
        os.waitpid(pid, 0)
        _say(json.loads(fault))
        return
    log = Log(request["log"], request["limit"])
    _say({"pid": pid})
    code = Supervisor(pid, control, wake, output, log).until_over()
    _say({"code": code, **({"unlogged": log.fault} if log.fault else {})})


class Control:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._read = b""

    @property
    def heard(self) -> bool:
        """Whether a line is already buffered, which poll does not report."""
        return b"\n" in self._read

    def next(self) -> dict[str, Any] | None:
        """Return the next line, or None at the end of the input. Blocks."""
        while b"\n" not in self._read:
            chunk = os.read(self.fd, _CHUNK)
            if not chunk:
                return None
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


def times_path(log: str) -> str:
    """Return the path of a log's record of times: a TIME entry for the bytes from its offset."""
    folder, name = os.path.split(log)
    return os.path.join(folder, f".{name}.times")


class Log:
    """A file of at most `limit` bytes, and `.old` with the part before it, each with a record of
    times."""

    def __init__(self, path: str, limit: int) -> None:
        self.fault = ""
        self._path, self._limit = path, limit
        self._size = self._timed = 0
        self._fd, self._times = self._open()

    def write(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._limit:
                for fd, path in ((self._times, times_path(self._path)), (self._fd, self._path)):
                    os.close(fd)
                    os.replace(path, path + ".old")
                self._size = self._timed = 0
                self._fd, self._times = self._open()
            # An entry for each write would make the record as large as a log of short lines.
            now = time.time_ns()
            if now - self._timed >= _RESOLUTION:
                os.write(self._times, TIME.pack(self._size, now))
                self._timed = now
            self._size += os.write(self._fd, data)
        except OSError as error:
            self.fault = error.strerror or str(error)

    def _open(self) -> tuple[int, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.open(self._path, flags, 0o644), os.open(times_path(self._path), flags, 0o644)


class Supervisor:
    def __init__(self, pid: int, control: Control, wake: int, output: int, log: Log) -> None:
        self._pid, self._control = pid, control
        self._output, self._log = output, log
        self._code: int | None = None
        self._kill_at: float | None = None
        self._poll = select.poll()
        for fd in (control.fd, wake, output):
            self._poll.register(fd, select.POLLIN)
        # A child of the command may keep the pipe open after its end.
        os.set_blocking(output, False)

    def until_over(self) -> int:
        while self._code is None:
            if self._control.heard:
                self._hear(self._control.fd)
            left = None if self._kill_at is None else self._kill_at - time.monotonic()
            for fd, _ in self._poll.poll(None if left is None else max(left, 0) * 1000 + 1):
                self._hear(fd)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                _kill(self._pid)
                self._kill_at = None
            with suppress(ChildProcessError):
                while self._code is None:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    if pid == self._pid:
                        ended = os.waitstatus_to_exitcode(status)
                        self._code = ended if ended >= 0 else 128 - ended
        _sweep(self._pid)
        self._copy(whole=True)
        return self._code

    def _hear(self, fd: int) -> None:
        if fd == self._output:
            self._copy()
        elif fd == self._control.fd:
            request = self._control.next()
            if request is None:
                self._poll.unregister(fd)
            self._end(LAST_GRACE if request is None else request["grace"])
        elif any(number in _ENDING_SIGNALS for number in os.read(fd, _CHUNK)):
            self._end(LAST_GRACE)

    def _end(self, grace: float) -> None:
        """Ask the command to end; a later request can only shorten the time."""
        at = time.monotonic() + grace
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)
        if grace > 0:
            _kill(self._pid, signal.SIGTERM)

    def _copy(self, *, whole: bool = False) -> None:
        while True:
            try:
                data = os.read(self._output, _CHUNK)
            except BlockingIOError:
                return
            if data:
                self._log.write(data)
            else:
                with suppress(KeyError):
                    self._poll.unregister(self._output)
            if not data or not whole:
                return


def _become(request: dict[str, Any], supervisor: int, output: int, tell: int) -> NoReturn:
    """Turn this process into the command, in its own session."""
    command, cwd = request["argv"], request["cwd"]
    doing, code = "", NOT_STARTED
    try:
        # Its own session, so that a Ctrl-C in the terminal does not reach it.
        os.setsid()
        if _LINUX:
            # A supervisor that is killed takes its command along.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            # The supervisor died before the line above took effect.
            if os.getppid() != supervisor:
                os._exit(NOT_STARTED)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec keeps that
            signal.signal(number, signal.SIG_DFL)
        doing = f"workingDir {cwd}: "
        os.chdir(cwd)
        doing = f'exec: "{command[0]}": '
        os.execvpe(command[0], command, request["env"])
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        if doing.startswith("exec") and error.errno == errno.ENOENT:
            code = NOT_FOUND
            why = why if "/" in command[0] else "executable file not found in $PATH"
        elif doing.startswith("exec"):
            is_no_program = error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR)
            code = NOT_EXECUTABLE if is_no_program else NOT_STARTED
    except ValueError as error:
        why = str(error)
    os.write(tell, json.dumps({"code": code, "error": doing + why}).encode())
    os._exit(NOT_STARTED)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Return whether the process can be signalled, unlike another user's (sudo)."""
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _sweep(group: int) -> None:
    """Kill what a command left behind, including processes that become children meanwhile."""
    # Elsewhere only the group of the command can be found.
    if not _LINUX:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    me = str(os.getpid())
    while True:
        children: list[int] = []
        if _LINUX:
            try:
                with open(f"/proc/{me}/task/{me}/children") as file:
                    children = [int(word) for word in file.read().split()]
            except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
                names = [name for name in os.listdir("/proc") if name.isdigit()]
                children = [int(name) for name in names if _parent(name) == me]
        within_reach = [_kill(pid) for pid in children]
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if children and not any(within_reach):
            return
        # Children of those that were killed arrive a moment later.
        time.sleep(0.002)


def _parent(pid: str) -> str:
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[1]
    return ""


def _say(what: dict[str, Any]) -> None:
    with suppress(OSError):
        os.write(1, json.dumps(what).encode() + b"\n")
