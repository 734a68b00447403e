"""Times of commands, each in a process of its own, as a shell starts it."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench import samples
from bench.figures import Figure
from jobflow.api.resources import JOBFLOWS
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.access import kubeconfig as sandbox_kubeconfig
from jobflow.sandbox.apiserver.server import ApiServer
from support.network.anonymous import anonymous

JOBFLOW = Path(sys.executable).with_name("jobflow")
FLOWS = 100
"""Flows in the list of `jobflow get`."""
STEPS = 1000
DEFAULT = "default"
"""The namespace of the flows in the list."""
_META = ("uid", "creationTimestamp", "generation", "namespace")
"""Metadata of stored flows, which a file does not have."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The times of a command, in seconds."""

    cpu: float
    """User and system time, with the processes that it started."""
    elapsed: float


def measured(runs: int) -> Iterator[Figure]:
    """Measure the start of the program, a command about a cluster, and flows in the sandbox."""
    with tempfile.TemporaryDirectory(prefix="jobflow-bench-") as name:
        folder = Path(name)
        started = [run(["--help"]).cpu for _ in range(runs)]
        yield Figure("jobflow --help, CPU", "s", started, 0.15)
        listed = [taken.cpu for taken in asyncio.run(_listed(folder, runs))]
        yield Figure(f"jobflow get, {FLOWS} flows, CPU", "s", listed, 0.4)
        for shape, targets in (
            ("a root, 998, a join", samples.wide(STEPS)),
            ("20 layers of 50", samples.layered(STEPS, 50)),
        ):
            path = folder / "flow.yaml"
            path.write_text(yaml.safe_dump_all([_template(), _flow(targets)]))
            taken = [run(["run", "--speed", "100", str(path)]) for _ in range(runs)]
            what = f"jobflow run --speed 100, {shape}"
            yield Figure(what, "s", [each.elapsed for each in taken], 8)
            yield Figure(f"{what}, CPU", "s", [each.cpu for each in taken])


def run(words: Sequence[str]) -> Taken:
    """Run a command without a terminal. Raises RuntimeError if it fails."""
    begin = time.perf_counter()
    process = subprocess.Popen([JOBFLOW, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"jobflow {' '.join(words)} exits with {process.returncode}")
    return Taken(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin)


async def _listed(folder: Path, runs: int) -> list[Taken]:
    """Run `jobflow get` against the sandbox's API server."""
    kubeconfig = folder / "kubeconfig"
    words = ["get", "-n", DEFAULT, "--kubeconfig", str(kubeconfig)]
    async with ApiServer() as server, Client(anonymous(server.url)) as client:
        kubeconfig.write_text(sandbox_kubeconfig(server.url, server.access), encoding="utf-8")
        for number in range(FLOWS):
            body = msgspec.json.encode(_flow(samples.diamond(), f"flow-{number}"))
            await client.create(JOBFLOWS, DEFAULT, body)
        return [await asyncio.to_thread(run, words) for _ in range(runs)]


def _flow(targets: list[list[int]], name: str = "pipeline") -> dict[str, Any]:
    made = samples.manifest(targets, name)
    for field in _META:
        del made["metadata"][field]
    return made


def _template() -> dict[str, Any]:
    """Return a template of one pod, which ends after a second."""
    made = samples.template_manifest()
    made["spec"] |= {"minAvailable": 1, "tasks": made["spec"]["tasks"][:1]}
    return made
