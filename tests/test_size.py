"""`make lint` counts the lines of src/jobflow, and names the limit that they break."""

from runpy import run_path

import pytest

from support.paths import ROOT

TOOL = run_path(str(ROOT / "tools" / "size.py"))
MODULE = '''"""A module
of two lines."""

import os
from sys import (
    argv,
)

# Why.
TEXT = """
no docstring, # no comment
"""


def use() -> None:
    """Use them."""
    print(os, argv)  # a comment behind code is code
'''


def test_each_line_is_counted_once() -> None:
    lines = TOOL["count_lines"](MODULE)
    assert lines == {"docstring": 3, "import": 4, "comment": 1, "code": 5, "blank": 4}
    assert sum(lines.values()) == len(MODULE.splitlines())


@pytest.mark.parametrize(
    ("limits", "sentences"),
    [
        ({"lines": 100, "code": 80, "comments": 2}, []),
        ({"lines": 99, "code": 80, "comments": 2}, ["100 lines; at most 99"]),
        ({"lines": 100, "code": 79, "comments": 2}, ["80 lines of code; at most 79"]),
        ({"lines": 100, "code": 80, "comments": 2.5}, ["2.00 % of the lines of src/jobflow are"]),
    ],
)
def test_a_limit_that_is_broken_is_named(limits: dict[str, float], sentences: list[str]) -> None:
    lines = {"code": 80, "import": 10, "blank": 8, "comment": 2}
    found = list(TOOL["find_excess"](lines, limits))
    assert len(found) == len(sentences)
    for expected, sentence in zip(sentences, found, strict=True):
        assert expected in sentence
