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
    given = parser.parse_args(arguments)
    wanted = tuple(given.names) or ("",)
    numbers = [n for n, each in enumerate(CONFIGURATIONS) if each.name.startswith(wanted)]
    explored = []
    with ProcessPoolExecutor(given.processes) as pool:
        explore = partial(explored_alone, seconds=given.seconds, states=given.states)
        for done in as_completed([pool.submit(explore, number) for number in numbers]):
            explored.append(done.result())
            print(explored[-1], flush=True)
    print(summary(explored))
    return int(any(each.violations for each in explored))


def summary(explored: Sequence[Explored]) -> str:
    """Return one line for all configurations."""
    exhausted = sum(each.exhausted for each in explored)
    states, moves = sum(each.states for each in explored), sum(each.moves for each in explored)
    violations = sum(sum(each.violations.values()) for each in explored)
    seconds = sum(each.seconds for each in explored)
    return (
        f"{len(explored)} configurations, {exhausted} exhausted: {states} states, {moves} moves, "
        f"{violations} violations, {seconds:.0f} s of CPU time"
    )


if __name__ == "__main__":
    sys.exit(main())
