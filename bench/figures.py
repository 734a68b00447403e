"""A figure: one value per run, and its aim. Nothing is measured here."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity, with one value per run."""

    what: str
    unit: str
    values: list[float]
    aim: float | None = None
    """None if there is no aim."""

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.values)

    @property
    def more_is_better(self) -> bool:
        """Whether it is a rate."""
        return self.unit.endswith("/s")

    @property
    def share(self) -> float | None:
        """The share of the aim that is reached; 1 is all of it."""
        if self.aim is None or not self.median:
            return None
        return self.median / self.aim if self.more_is_better else self.aim / self.median


def show(figures: Iterable[Figure], json_file: Path | None) -> None:
    """Print each figure as soon as it is measured; then write all to a file."""
    print(f"{'':52} {'median':>10} {'aim':>8}  runs")
    shown = []
    for figure in figures:
        runs = " ".join(number(value) for value in figure.values)
        text = f"{figure.what:52} {number(figure.median):>10} {_aim(figure):>8}  "
        print(f"{text}{runs} {figure.unit}", flush=True)
        shown.append(_as_json(figure))
    if json_file:
        json_file.write_text(json.dumps(shown, indent=2) + "\n")


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"{'>' if figure.more_is_better else '<'} {number(figure.aim).removesuffix('.00')}"


def _as_json(figure: Figure) -> dict[str, object]:
    share = figure.share
    return {
        "what": figure.what,
        "unit": figure.unit,
        "runs": figure.values,
        "median": figure.median,
        "aim": figure.aim,
        "share": round(share, 3) if share is not None else None,
    }


def number(value: float) -> str:
    """Return a value with as many digits as matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
