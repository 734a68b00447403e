"""docs/architecture.md names every package once, and no file that does not exist."""

from __future__ import annotations

import re
from collections import Counter

from support.paths import ROOT

SOURCE = ROOT / "src" / "jobflow"
PAGE = ROOT / "docs" / "architecture.md"


def _section(head: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text.split(f"\n## {head}\n")[1].split("\n## ")[0]


def _rows(head: str) -> list[str]:
    """What the rows of a section's tables begin with."""
    return re.findall(r"^\| `(\w+)` \| \S", _section(head), re.MULTILINE)


def test_every_package_is_there_once() -> None:
    there = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert Counter(_rows("Packages")) == Counter(there)


def test_files_it_names_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:[\w-]+/)+[\w.-]+)`", text):
        assert (SOURCE / path).exists() or (ROOT / path).exists(), path
