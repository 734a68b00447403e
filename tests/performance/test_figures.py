"""Figures are printed, and written to a file as JSON."""

import json
from pathlib import Path

import pytest
from bench.figures import Figure, show


def test_a_figure_is_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show([Figure("plan", "ms", [4.0, 2.0, 8.0], 10)], tmp_path / "out.json")
    assert (
        capsys.readouterr().out.splitlines()[1].split()
        == "plan 4.00 < 10 4.00 2.00 8.00 ms".split()
    )
    [written] = json.loads((tmp_path / "out.json").read_text())
    assert written == {
        "what": "plan",
        "unit": "ms",
        "runs": [4, 2, 8],
        "median": 4,
        "aim": 10,
        "share": 2.5,
    }
