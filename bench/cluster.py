"""Flows on a real kube-apiserver: `jobflow serve`, a driver that completes vcjobs, and a stopwatch.

Everything runs on this machine: etcd, kube-apiserver (audit log on), kube-controller-manager, one
replica with Lease and webhook, the driver, and this process, which creates flows and watches them.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench import samples
from bench.driver import Seen
from bench.figures import Figure
from bench.wire import Pool, Where, watch
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.runtime.event_loop import run
from support.cluster.control_plane import token
from support.cluster.control_plane_binaries import MISSING, find
from support.cluster.real_cluster import RealCluster, real_cluster
from support.cluster.served import Served, registered

SHAPES = {
    "100 flows of 5 steps at once": ([samples.diamond()] * 100, 14.0),
    "3 flows of a root, 98 parallel steps, a join": ([samples.wide(100)] * 3, 1.08),
    "5 chains of 30 steps": ([samples.chain(30)] * 5, 1.95),
}
"""Flows, and the aim in flows/s: 1.8 and 2.5 times the rate of Volcano's controller."""
FLOWS_A_SECOND = 3
CREATING = 16
"""Connections for creating flows."""
ENDED_WITHIN_SECONDS = 120
QUIET_SECONDS = 1.0
"""Seconds without a request after which all requests have been sent."""


class _Event(msgspec.Struct):
    """An event of the watch on flows."""

    object: JobFlow


@dataclass(slots=True)
class Bench:
    """The parts of a measurement."""

    real: RealCluster
    driver: subprocess.Popen[str]
    where: Where

    def namespace(self) -> str:
        """Create a namespace with the template of the samples."""
        name = self.real.new_namespace("bench")
        path, body = JOBTEMPLATES.path(name), samples.template_manifest()
        self.real.admin.post(path, json=body).raise_for_status()
        return name

    def seen(self) -> list[Seen]:
        """Return what the driver has seen since the last call."""
        assert self.driver.stdin and self.driver.stdout
        self.driver.stdin.write("\n")
        self.driver.stdin.flush()
        return msgspec.json.decode(self.driver.stdout.readline(), type=list[Seen])


@contextmanager
def _bench(profile: Path | None) -> Iterator[Bench]:
    """Run all processes during the body."""
    assets = find()
    if assets is None:
        raise SystemExit(MISSING)
    with TemporaryDirectory(prefix="jobflow-bench-") as folder:
        home = Path(folder)
        with real_cluster(assets, home / "plane") as real:
            under = [sys.executable, "-m", "cProfile", "-o", str(profile)] if profile else []
            served = Served(real, home, under=under)
            with served.running(), registered(real, served):
                where = Where(real.plane.url, str(real.plane.ca), token("admin"))
                with _driver(where) as driver:
                    yield Bench(real, driver, where)


@contextmanager
def _driver(where: Where) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.driver", where.url, where.ca, where.token]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "watching\n"
            yield process
            assert process.poll() is None, "the driver died"
        finally:
            process.terminate()


# ---------------------------------------------------------------------- what is measured


def measured(runs: int, seconds: float, profile: Path | None = None) -> Iterator[Figure]:
    """Measure every figure. Under a profiler the figures would be wrong, so return none."""
    with _bench(profile) as bench:
        _warm_up(bench)
        for what, (flows, aim) in SHAPES.items():
            rates, used = [], []
            for _ in range(runs):
                namespace = bench.namespace()
                rates.append(len(flows) / run(_carried(bench, namespace, flows)))
                used.append(_requests(bench, namespace, len(flows)))
            if not profile:
                yield Figure(what, "flows/s", rates, aim)
                yield from _by_verb(what, used)
        if not profile:
            yield from _handed_over(bench, runs, seconds)


def _warm_up(bench: Bench) -> None:
    """Run a few flows, so that connections are open and code is loaded."""
    namespace = bench.namespace()
    run(_carried(bench, namespace, [samples.diamond()] * 5))
    _requests(bench, namespace, 5)


def _handed_over(bench: Bench, runs: int, seconds: float) -> Iterator[Figure]:
    """From the MODIFIED event that completes a step's last target to the ADDED event of the vcjob
    of that step, both as the driver's watch brings them."""
    what = f"a finished job to the next one, {FLOWS_A_SECOND} flows/s"
    halves, ends, used = [], [], []
    for _ in range(runs):
        namespace, count = bench.namespace(), int(seconds * FLOWS_A_SECOND)
        flows = [samples.diamond()] * count
        bench.seen()
        run(_carried(bench, namespace, flows, pause=1 / FLOWS_A_SECOND))
        took = list(_waits(bench.seen(), samples.diamond()))
        assert len(took) == 4 * count, f"{len(took)} hand-overs of {count} flows"
        percentiles = statistics.quantiles(took, n=100)
        halves.append(percentiles[49] * 1000)
        ends.append(percentiles[98] * 1000)
        used.append(_requests(bench, namespace, count))
    yield Figure(f"{what}, p50", "ms", halves, 12)
    yield Figure(f"{what}, p99", "ms", ends, 30)
    yield from _by_verb(f"{FLOWS_A_SECOND} flows/s", used)


def _waits(seen: Iterable[Seen], targets: list[list[int]]) -> Iterator[float]:
    """Return the seconds of each hand-over."""
    added: dict[str, float] = {}
    ended: dict[str, float] = {}
    for event in seen:
        if event.type == "ADDED":
            added[event.name] = event.at
        elif event.phase == "Completed":
            ended.setdefault(event.name, event.at)
    for name, at in added.items():
        flow, _, number = name.rpartition("-step-")
        if before := targets[int(number)]:
            yield at - max(ended[f"{flow}-step-{target}"] for target in before)


def _requests(bench: Bench, namespace: str, flows: int) -> dict[str, float]:
    """Return the requests per flow that `serve` sent for this namespace, by verb and resource.

    Waits for Events, which are sent in the background, a few per second.
    """
    asked = bench.real.audit.asked(namespace, user="jobflow")
    last = 0
    while len(asked) > last:
        time.sleep(QUIET_SECONDS)
        last, asked = len(asked), bench.real.audit.asked(namespace, user="jobflow")
    counted = Counter(f"{each.verb} {each.resource}" for each in asked)
    refused = [each for each in asked if each.code >= 300]
    if refused:
        counted["refused"] = len(refused)
    return {what: count / flows for what, count in counted.items()}


def _by_verb(what: str, used: list[dict[str, float]]) -> Iterator[Figure]:
    for verb in sorted({verb for each in used for verb in each}):
        values = [each.get(verb, 0.0) for each in used]
        yield Figure(f"  {verb}", f"requests a flow ({what})", values)


# ---------------------------------------------------------------------- carrying flows out


async def _carried(
    bench: Bench, namespace: str, flows: list[list[list[int]]], *, pause: float = 0.0
) -> float:
    """Return the seconds from the first create until the last flow is Succeed in a watch."""
    ends: dict[str, str] = {}
    over = asyncio.Event()
    read = msgspec.json.Decoder(_Event)

    def frame(line: bytes) -> str:
        event = read.decode(line)
        phase = event.object.status.state.phase
        if phase in ("Succeed", "Failed"):
            ends[event.object.metadata.name] = phase
            if len(ends) == len(flows):
                over.set()
        return event.object.metadata.resource_version

    path = JOBFLOWS.path(namespace)
    watching = asyncio.create_task(watch(bench.where, path, frame))
    pool = await Pool(bench.where).open(CREATING)
    began = time.perf_counter()
    creating = []
    for number, targets in enumerate(flows):
        body = samples.sent(targets, f"f{number}")
        creating.append(asyncio.create_task(pool.ask("POST", path, body, "application/json")))
        if pause:
            await asyncio.sleep(began + (number + 1) * pause - time.perf_counter())
    await asyncio.gather(*creating)
    async with asyncio.timeout(ENDED_WITHIN_SECONDS):
        await over.wait()
    took = time.perf_counter() - began
    watching.cancel()
    await asyncio.wait([watching])
    pool.close()
    assert set(ends.values()) == {"Succeed"}, ends
    return took
