"""Places in Python files: of the call that made an object, and of its arguments."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType, FrameType

_PACKAGE = "jobflow.authoring"
_Position = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call or a value begins: line and column from 1; line 0 is a whole file."""

    file: str
    line: int = 0
    column: int = 1
    width: int = 1
    end: tuple[int, int] = (0, 0)
    """Last line, and the byte after the last one in it, by which the call is found again."""
    keyword: Place | None = None
    """Of the value of a keyword argument: the place of its name."""

    @property
    def arguments(self) -> Mapping[str, Place]:
        """The values of the keyword arguments of the call, by name, as far as the source has
        them."""
        call = _calls(self.file, _stamp(self.file)).get(self.end)
        if call is None:
            return {}
        return {
            each.arg: replace(_place_of(self.file, each.value), keyword=self._name_of(each))
            for each in call.keywords
            if each.arg is not None
        }

    def _name_of(self, keyword: ast.keyword) -> Place:
        return Place(self.file, keyword.lineno, keyword.col_offset + 1, len(keyword.arg or ""))

    def argument(self, name: str) -> Place:
        """Return the place of a keyword argument, or of the call if the source has none."""
        return self.arguments.get(name, self)


def caller() -> Place:
    """Return the place of the call that led from the user's code into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return Place("<unknown>")
    code = frame.f_code
    line, end_line, column, end = _positions(code)[frame.f_lasti // 2]
    if line is None or column is None:
        return Place(code.co_filename, frame.f_lineno)
    width = end - column if end is not None and end_line == line else 1
    return Place(code.co_filename, line, column + 1, max(width, 1), (end_line or 0, end or 0))


def place_in(file: str, line: int, node: ast.AST | None = None) -> Place:
    """Return the place of a line of a file; `node` is in a source that begins at `line`."""
    at = getattr(node, "lineno", 1)
    return Place(file, line + at - 1, getattr(node, "col_offset", 0) + 1)


def read_source(file: str) -> str:
    """Return the text of a file, or of a cell of a notebook; "" if there is none."""
    return "".join(linecache.getlines(file))


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[_Position]:
    return [*code.co_positions()]


def _stamp(file: str) -> object:
    """Return a value that changes with the source: its size and time, as linecache knows them."""
    linecache.getlines(file)
    return linecache.cache.get(file, (0, None))[:2]


@lru_cache(maxsize=64)
def _calls(file: str, stamp: object) -> Mapping[tuple[int, int], ast.Call]:
    """Return the calls of a file by their ends, which differ."""
    try:
        module = ast.parse(read_source(file))
    except SyntaxError:
        return {}
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    return {(node.end_lineno or 0, node.end_col_offset or 0): node for node in calls}


def _place_of(file: str, node: ast.expr) -> Place:
    single = node.end_lineno == node.lineno
    width = (node.end_col_offset or 0) - node.col_offset if single else 1
    return Place(file, node.lineno, node.col_offset + 1, max(width, 1))
