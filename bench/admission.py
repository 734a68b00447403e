"""Reviews per second: the webhook on one core, the client on another."""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import samples
from bench.client import reviews
from jobflow.runtime.event_loop import run

FLOWS = {
    5: samples.diamond(),
    100: samples.layered(100),
    1000: samples.layered(1000),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Measure reviews of one size; one value per run."""

    a_second: list[float]
    a_cpu_second: list[float]
    """Return reviews per CPU second of the server, independent of other processes."""


def rates(runs: int, seconds: float) -> dict[int, Rates]:
    """Measure the rate of reviews by number of steps."""
    cores = sorted(os.sched_getaffinity(0))
    with _webhook(cores[0]) as (process, port, trust):
        os.sched_setaffinity(0, set(cores[1:]) or set(cores))
        try:
            found = {}
            for steps, targets in FLOWS.items():
                body = samples.review(targets)
                found[steps] = _rates(process, port, trust, body, runs, seconds)
            return found
        finally:
            os.sched_setaffinity(0, set(cores))


def _rates(
    process: int, port: int, trust: ssl.SSLContext, body: bytes, runs: int, seconds: float
) -> Rates:
    warm_up = run(reviews(port, trust, body, seconds / 4))
    assert warm_up, "no review was answered"
    a_second, a_cpu_second = [], []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), _cpu_seconds(process)
        answered = run(reviews(port, trust, body, seconds))
        a_second.append(answered / (time.perf_counter() - wall))
        a_cpu_second.append(answered / (_cpu_seconds(process) - cpu))
    return Rates(a_second, a_cpu_second)


def _cpu_seconds(process: int) -> float:
    """Return the user and system time of a process (proc(5), fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _webhook(core: int) -> Iterator[tuple[int, int, ssl.SSLContext]]:
    """A running webhook: its process id, its port, and the CA to verify it with."""
    with TemporaryDirectory(prefix="jobflow-bench-") as folder:
        command = [sys.executable, "-m", "bench.server", str(core), folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                trust = ssl.create_default_context(cafile=Path(folder) / "ca.crt")
                yield process.pid, port, trust
            finally:
                process.terminate()
