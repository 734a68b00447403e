"""Flows on a real kube-apiserver, carried out by `jobflow serve` and by its peers in turn.

Everything runs on this machine: etcd, kube-apiserver (audit log on), kube-controller-manager, one
controller at a time, the driver that completes its jobs, and this process, which creates flows and
watches them. All controllers use the same API server, driver and loads.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.argo import ARGO_BINARIES, ArgoByDefault, ArgoController
from bench.comparison import OURS, Table
from bench.controllers import (
    VOLCANO_BINARIES,
    Controller,
    OurController,
    VolcanoController,
    folder_of,
)
from bench.loads import LOADS
from bench.processes import module
from bench.turn import Turn
from support.cluster.control_plane_binaries import MISSING, find
from support.cluster.real_cluster import RealCluster, real_cluster

PEERS = tuple(each.name for each in (VolcanoController, ArgoController, ArgoByDefault))
REVIEWS = "reviews"
"""The load of reviews, which has no flows."""
PROFILER = (sys.executable, "-m", "cProfile", "-o")


@dataclass(frozen=True, slots=True)
class Options:
    """The choice of what to measure."""

    runs: int
    seconds: float
    """Length of a load that has a rate."""
    scale: float
    """Share of the flows of the other loads."""
    loads: Sequence[str]
    peers: Sequence[str]
    """Names of peers; those whose binaries are missing are left out."""
    latency: float
    """Seconds by which each request of a controller is slower."""
    profile: Path | None = None


def compared(options: Options) -> Table:
    """Measure each load with each controller, one after the other, `runs` times.

    Under a profiler the figures would be wrong, so return none.
    """
    assets = find()
    if assets is None:
        raise SystemExit(MISSING)
    loads = [
        load.scaled(options.scale, options.seconds) for load in LOADS if load.name in options.loads
    ]
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="jobflow-bench-")))
        real = stack.enter_context(real_cluster(assets, home / "plane"))
        proxy = ""
        if options.latency:
            slow = module("bench.slow", real.plane.url, str(options.latency))
            proxy = f"https://127.0.0.1:{stack.enter_context(slow)[1]}"
        controllers = _controllers(real, home, proxy, options)
        table = Table([each.name for each in controllers if each.name != OURS])
        for controller in controllers:
            controller.install()
        for number in range(options.runs):
            for controller in controllers:
                print(f"run {number + 1}: {controller.name}", file=sys.stderr)
                turn = Turn(real, controller)
                measured = list(turn.measured(loads, reviews=REVIEWS in options.loads))
                if not options.profile:
                    table.add(controller.name, measured)
        return table


def _controllers(real: RealCluster, home: Path, proxy: str, options: Options) -> list[Controller]:
    """Return JobFlow and the peers that were asked for and whose binaries are there."""
    ours = OurController(real, home, proxy)
    if options.profile:
        ours.under = [*PROFILER, str(options.profile)]
        return [ours]
    found: list[Controller] = [ours]
    if volcano := folder_of("VOLCANO_ASSETS", VOLCANO_BINARIES):
        found.append(VolcanoController(real, home, proxy, volcano))
    if argo := folder_of("ARGO_ASSETS", ARGO_BINARIES):
        found += [ArgoController(real, home, proxy, argo), ArgoByDefault(real, home, proxy, argo)]
    return [each for each in found if each is ours or each.name in options.peers]
