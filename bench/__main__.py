"""`python -m bench [what] [--json FILE] [--runs N] [--seconds S]`: the figures of JobFlow.

`core` (the default) and `commands` need only this machine, `copies` more memory. `counts` counts
requests and instructions instead of timing, compares them with `bench/counts.json`, and exits with
1 if one is over it by more than a tenth. `growth` measures time and memory at 1, 4 and 16 times a
size. `functions` lists the functions of core/planning that a plan walks through. `cluster` needs a
real kube-apiserver, etcd and kube-controller-manager in the folder that KUBEBUILDER_ASSETS names,
and compares JobFlow with Volcano's controller if VOLCANO_ASSETS names a folder with its binaries,
and with Argo's if ARGO_ASSETS does.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from bench import admission, cluster, commands, copies, core, counts, functions, growth
from bench.figures import Figure, show
from bench.loads import LOADS
from jobflow.app import serve
from jobflow.runtime import logs

AIMS = {5: 6400, 100: 3000, 1000: 250}


def on_this_machine(runs: int, seconds: float) -> Iterator[Figure]:
    """Measure admission and the pure functions."""
    for steps, rates in admission.rates(runs, seconds).items():
        what, aim = f"admission, {steps:,} steps", AIMS[steps]
        yield Figure(what, "reviews/s", rates.a_second, aim)
        yield Figure(f"{what}, of CPU time", "reviews/s", rates.a_cpu_second, aim)
    serve.freeze_garbage_collector()
    for shape, times in core.validations(runs).items():
        yield Figure(f"validate, 5,000 steps, {shape}", "ms", times, 50)
    for shape, times in core.new_validations(runs).items():
        yield Figure(f"validate, 1,000 steps or items, {shape}", "ms", times, 200)
    for state, times in core.plans(runs).items():
        yield Figure(f"plan, 1,000 steps, {state}", "ms", times, 10)
    yield Figure("plan, 1,000 steps, the first of all", "ms", core.first_plans(runs), 10)
    for shape, times in core.virtual_times(runs).items():
        yield Figure(f"jobflow plan, 1,000 steps or items, {shape}", "ms", times, 2000)
    for state, times in core.reconciles(runs).items():
        yield Figure(f"reconcile, 1,000 steps, {state}", "ms", times, 10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("core", "cluster", "commands", "copies", "counts", "functions", "growth"),
        default="core",
        help="see above",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write all runs to this file"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median counts")
    parser.add_argument(
        "--seconds", type=float, help="length of an admission run (3), of the steady load (20)"
    )
    parser.add_argument("--write", action="store_true", help="store what `counts` counted")
    _add_cluster_options(parser)
    options = parser.parse_args()
    if options.what == "cluster":
        _compare(options)
        return
    if options.what == "growth":
        growth.show(growth.measured(options.runs))
        return
    if options.what == "counts":
        _count(options)
        return
    if options.what == "functions":
        functions.show()
        return
    if options.what == "copies":
        figures = copies.measured(options.runs)
    elif options.what == "commands":
        figures = commands.measured(options.runs)
    else:
        figures = on_this_machine(options.runs, options.seconds or 3)
    show(figures, options.json)


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    names = [*(load.name for load in LOADS), cluster.REVIEWS]
    group.add_argument("--loads", nargs="+", choices=names, default=names)
    group.add_argument("--peers", nargs="*", choices=cluster.PEERS, default=cluster.PEERS)
    group.add_argument(
        "--scale", type=float, default=1.0, help="share of the flows of loads without a rate"
    )
    group.add_argument(
        "--latency",
        type=float,
        default=0,
        help="milliseconds added to each request of a controller",
    )
    group.add_argument(
        "--profile", type=Path, help="serve under cProfile, write this file; no table"
    )


def _count(options: argparse.Namespace) -> None:
    with open(os.devnull, "w") as nowhere:
        logs.configure(stream=nowhere)
        found = list(counts.counted())
    is_passed = counts.show(found)
    if options.write:
        counts.write(found)
    elif not is_passed:
        raise SystemExit(1)


def _compare(options: argparse.Namespace) -> None:
    table = cluster.compared(
        cluster.Options(
            runs=options.runs,
            seconds=options.seconds or 20,
            scale=options.scale,
            loads=options.loads,
            peers=options.peers,
            latency=options.latency / 1000,
            profile=options.profile,
        )
    )
    print(table.text())
    if options.json:
        table.write(options.json)


if __name__ == "__main__":
    main()
