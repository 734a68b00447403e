"""Explore every configuration, in as many processes as there are cores: `make explore`."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from model.explorer.configurations import CONFIGURATIONS
from model.explorer.search import Explored, explored_alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every result and their sum, and return 1 if a law is broken."""
    parser = argparse.ArgumentParser(prog="explore", description=__doc__)
    parser.add_argument("names", nargs="*", help="configurations whose names begin so; else all")
    parser.add_argument("--seconds", type=float, help="CPU time for each; else to its end")
    parser.add_argument("--states", type=int, help="states for each; else all")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    prefixes = tuple(options.names) or ("",)
    numbers = [n for n, entry in enumerate(CONFIGURATIONS) if entry.name.startswith(prefixes)]
    explored = []
    with ProcessPoolExecutor(options.processes) as pool:
        explore = partial(explored_alone, seconds=options.seconds, states=options.states)
        for future in as_completed([pool.submit(explore, number) for number in numbers]):
            explored.append(future.result())
            print(explored[-1], flush=True)
    print(summary(explored))
    return int(any(entry.violations for entry in explored))


def summary(explored: Sequence[Explored]) -> str:
    """Return one line for all configurations."""
    exhausted = sum(r.exhausted for r in explored)
    states, moves = sum(r.states for r in explored), sum(r.moves for r in explored)
    violations = sum(sum(r.violations.values()) for r in explored)
    seconds = sum(r.seconds for r in explored)
    return (
        f"{len(explored)} configurations, {exhausted} exhausted: {states} states, {moves} moves, "
        f"{violations} violations, {seconds:.0f} s of CPU time"
    )


if __name__ == "__main__":
    sys.exit(main())
