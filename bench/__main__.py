"""`python -m bench [what] [-o text|json] [--runs N] [--seconds S]`: the figures beside the aims.

`core` (the default) needs only this machine, `cluster` a real kube-apiserver, etcd and
kube-controller-manager in the folder that KUBEBUILDER_ASSETS names, `copies` more memory.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bench import admission, cluster, copies, core
from bench.figures import Figure, show
from jobflow.app import serve

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
        "what", nargs="?", choices=("core", "cluster", "copies"), default="core", help="see above"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median counts")
    parser.add_argument(
        "--seconds", type=float, help="length of an admission run (3), of a hand-over run (20)"
    )
    parser.add_argument(
        "--profile", type=Path, help="cluster: serve under cProfile, write this file; no figures"
    )
    options = parser.parse_args()
    match options.what:
        case "cluster":
            figures = cluster.measured(options.runs, options.seconds or 20, options.profile)
        case "copies":
            figures = copies.measured(options.runs)
        case _:
            figures = on_this_machine(options.runs, options.seconds or 3)
    show(figures, options.output)


if __name__ == "__main__":
    main()
