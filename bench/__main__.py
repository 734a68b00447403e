"""`python -m bench [-o text|json] [--runs N] [--seconds S]`: the figures beside DESIGN's aims."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from bench import admission, core
from jobflow import serve


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, a value a run."""

    what: str
    unit: str
    values: list[float]
    aim: float

    @property
    def median(self) -> float:
        """The middle one of the runs."""
        return statistics.median(self.values)

    @property
    def more_is_better(self) -> bool:
        """Whether it is a rate."""
        return self.unit.endswith("/s")

    @property
    def share(self) -> float:
        """How much of the aim is reached; 1 is all."""
        return self.median / self.aim if self.more_is_better else self.aim / self.median


AIMS = {5: 6400, 100: 3000, 1000: 250}


def measured(runs: int, seconds: float) -> Iterator[Figure]:
    """Every figure, as soon as it is there."""
    for steps, rates in admission.rates(runs, seconds).items():
        what, aim = f"admission, {steps:,} steps", AIMS[steps]
        yield Figure(what, "reviews/s", rates.a_second, aim)
        yield Figure(f"{what}, of CPU time", "reviews/s", rates.a_cpu_second, aim)
    serve.settle_memory()
    for shape, times in core.validations(runs).items():
        yield Figure(f"validate, 5,000 steps, {shape}", "ms", times, 50)
    for state, times in core.plans(runs).items():
        yield Figure(f"plan, 1,000 steps, {state}", "ms", times, 10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median counts")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of an admission run")
    options = parser.parse_args()
    figures = measured(options.runs, options.seconds)
    if options.output == "json":
        print(json.dumps([_as_json(figure) for figure in figures], indent=2))
        return
    print(f"{'':42} {'median':>10} {'aim':>8}  runs")
    for figure in figures:
        runs = " ".join(_number(value) for value in figure.values)
        aim = f"{'>' if figure.more_is_better else '<'} {figure.aim:,.0f}"
        text = f"{figure.what:42} {_number(figure.median):>10} {aim:>8}  {runs} {figure.unit}"
        print(text, flush=True)


def _as_json(figure: Figure) -> dict[str, object]:
    return {
        "what": figure.what,
        "unit": figure.unit,
        "runs": figure.values,
        "median": figure.median,
        "aim": figure.aim,
        "share": round(figure.share, 3),
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    main()
