"""Processes that run during a measurement, and what they use according to proc(5). Linux only."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STOPPED_WITHIN_SECONDS = 20
TICKS = os.sysconf("SC_CLK_TCK")
KIB_A_MIB = 1024
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time and memory of some processes and their children."""

    cpu_seconds: float
    """Since they started."""
    memory_mib: float
    """Resident now."""


def usage(pids: Sequence[int]) -> Usage:
    """Return the sum for these processes and all their descendants."""
    tree = _descendants(pids)
    return Usage(sum(map(_cpu_seconds, tree)), sum(map(memory_mib, tree)))


def _descendants(pids: Sequence[int]) -> list[int]:
    """Return these processes and all their descendants."""
    children = defaultdict(list)
    for path in PROC.glob("[0-9]*"):
        # A process may end while this reads.
        with suppress(FileNotFoundError, ProcessLookupError):
            children[int(_stat(int(path.name))[1])].append(int(path.name))
    found, rest = [], list(pids)
    while rest:
        found.append(pid := rest.pop())
        rest += children[pid]
    return found


def _stat(pid: int) -> list[str]:
    """The fields of a process's stat from its state, the third one."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / TICKS


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Return a field of a process's status in MiB. Raises LookupError if it has ended."""
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / KIB_A_MIB
    raise LookupError(f"process {pid} has no {field}")


@contextmanager
def process(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during the body, with its output in `log`. It must not end by itself."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | (environment or {})
        )
    try:
        yield child
        if child.poll() is not None:
            raise RuntimeError(f"{command[0]} ended: {log.read_text()[-2000:]}")
    finally:
        child.terminate()
        try:
            child.wait(STOPPED_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def module(name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a module of this package during the body; also return its first line of output."""
    command = [sys.executable, "-m", name, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            first = child.stdout.readline()
            assert first, f"{name} ended"
            yield child, first.strip()
            assert child.poll() is None, f"{name} ended"
        finally:
            child.terminate()
