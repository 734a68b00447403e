"""Memory and cold start of `jobflow serve` with 10,000 flows and 100,000 vcjobs.

The server only lists them (bench.listserver); filling a real one would take minutes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from bench.figures import Figure
from bench.listserver import STEPS
from bench.processes import memory_mib
from support.cluster.control_plane import free_port

FLOWS = 10_000
WITHIN_SECONDS = 300


def measured(runs: int, flows: int = FLOWS) -> Iterator[Figure]:
    """Measure every figure; each flow has ten vcjobs. The aims are those of 10,000 flows."""
    with _list_server(flows) as url:
        found = [_run(url, flows) for _ in range(runs)]
        unexpected = httpx.get(f"{url}/unexpected", trust_env=False).json()
        assert not unexpected, f"it asked for {unexpected[:3]}"
    ready, planned, resident, peak = (list(values) for values in zip(*found, strict=True))
    what = f"{flows:,} flows, {flows * STEPS:,} vcjobs"
    yield Figure(f"{what}: start to ready", "s", ready, 6)
    yield Figure(f"{what}: start to all planned once", "s", planned)
    yield Figure(f"{what}: memory afterwards", "MiB", resident, 450)
    yield Figure(f"{what}: most memory on the way", "MiB", peak)


def _run(url: str, flows: int) -> tuple[float, float, float, float]:
    with TemporaryDirectory(prefix="jobflow-bench-") as folder, _serve(url, Path(folder)) as served:
        process, port, began = served
        address = f"http://127.0.0.1:{port}"
        _until(process, lambda: _get(f"{address}/readyz").startswith('{"ready":true'))
        ready = time.perf_counter() - began
        _until(process, lambda: _reconciled(_get(f"{address}/metrics")) >= flows)
        planned = time.perf_counter() - began
        return ready, planned, memory_mib(process.pid), memory_mib(process.pid, "VmHWM")


@contextmanager
def _list_server(flows: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.listserver", str(flows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@contextmanager
def _serve(url: str, home: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, float]]:
    """Start `serve` without Lease and webhook; return its process, its port and its start time."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
    }
    (home / "kubeconfig").write_text(json.dumps(config))
    port = free_port()
    command = [str(Path(sys.executable).with_name("jobflow")), "serve", "--no-webhook"]
    command += ["--no-leader-election", "--http-port", str(port)]
    command += ["--kubeconfig", str(home / "kubeconfig")]
    with (home / "log").open("wb") as log:
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process, port, began
            finally:
                process.terminate()


def _until(process: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not holds():
        assert process.poll() is None, "serve died"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def _get(url: str) -> str:
    """Return its answer, or nothing while it does not answer."""
    try:
        return httpx.get(url, trust_env=False, timeout=30).text
    except httpx.TransportError:
        return ""


def _reconciled(metrics: str) -> float:
    counts = [
        float(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith("jobflow_reconcile_seconds_count")
    ]
    return sum(counts)
