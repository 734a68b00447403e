"""Measures of JobFlow beside those of its peers, and the ratios of their medians."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import number

OURS = "jobflow"
AIMS = {
    ("burst", "flows"): "ratio > 2.0",
    ("burst", "hand-over, p50"): "ratio < 0.35",
    ("burst", "CPU of the controller"): "ratio at most 1",
    ("burst", "memory of the controller"): "at most 100",
    ("burst", "create jobs"): "at most 5",
    ("burst", "patch jobflows/status"): "at most 3",
    ("steady", "hand-over, p50"): "ratio < 0.7",
    ("steady", "hand-over, p99"): "ratio < 0.5",
    ("wide", "flows"): "ratio > 1.6",
    ("chains", "flows"): "ratio > 2.2",
    ("reviews", "5 steps"): "ratio at least 1",
}
"""Aims by load and measure, printed and not judged; a ratio is that to Volcano."""


class Measure(NamedTuple):
    """A quantity that is measured under a load."""

    load: str
    what: str
    unit: str


@dataclass(slots=True)
class Row:
    """The values of one measure, one for each run of each controller."""

    measure: Measure
    runs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def aim(self) -> str:
        """The aim in words, "" if there is none."""
        return AIMS.get((self.measure.load, self.measure.what), "")

    def median(self, name: str) -> float | None:
        """The median of a controller's runs, None if it was not measured."""
        return statistics.median(self.runs[name]) if name in self.runs else None

    def ratio(self, peer: str) -> float | None:
        """JobFlow's median divided by a peer's; None if either is missing or the peer's is 0."""
        ours, theirs = self.median(OURS), self.median(peer)
        return ours / theirs if ours is not None and theirs else None

    def as_json(self, peers: Sequence[str]) -> dict[str, Any]:
        """Return the row with all its runs."""
        beside = {
            peer: {"runs": self.runs[peer], "median": self.median(peer), "ratio": self.ratio(peer)}
            for peer in peers
            if peer in self.runs
        }
        ours = {"runs": self.runs.get(OURS, []), "median": self.median(OURS)}
        return {**self.measure._asdict(), "aim": self.aim, "ours": ours, "peers": beside}


class Table:
    """Rows in the order in which their measures were first taken."""

    def __init__(self, peers: Sequence[str]) -> None:
        self.peers = peers
        self._rows: dict[Measure, Row] = {}

    def add(self, controller: str, measured: Iterable[tuple[Measure, float]]) -> None:
        """Add the values of one run."""
        for measure, value in measured:
            self._rows.setdefault(measure, Row(measure)).runs[controller].append(value)

    @property
    def rows(self) -> list[Row]:
        """The rows, those of a load beside each other."""
        loads = list(dict.fromkeys(measure.load for measure in self._rows))
        return sorted(self._rows.values(), key=lambda row: loads.index(row.measure.load))

    def text(self) -> str:
        """Return a table: the medians of JobFlow and of each peer, and JobFlow's ratio to it."""
        head = ["load", "measure", "unit", "aim", OURS]
        for peer in self.peers:
            head += [peer, "ratio"]
        lines = [head]
        for row in self.rows:
            line = [*row.measure, row.aim, _cell(row.median(OURS))]
            for peer in self.peers:
                line += [_cell(row.median(peer)), _cell(row.ratio(peer))]
            lines.append(line)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if number < 4 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def write(self, path: Path) -> None:
        """Write the rows with every run as JSON."""
        path.write_text(json.dumps([row.as_json(self.peers) for row in self.rows], indent=2) + "\n")


def _cell(value: float | None) -> str:
    return "-" if value is None else number(value)
