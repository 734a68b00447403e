"""Places in Python files: of the call that made an object, and of its arguments."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType, FrameType

_PACKAGE = "jobflow.authoring."
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
    """The place of the name of a keyword argument, if this is its value."""

    @property
    def arguments(self) -> Mapping[str, Place]:
        """The values of the keyword arguments of the call, by name, as far as the source has
        them."""
        linecache.getlines(self.file)
        # Size and time of the file, as linecache knows them: a cell may be written again.
        stamp = linecache.cache.get(self.file, (0, None))[:2]
        call, found = _calls(self.file, stamp).get(self.end), {}
        for each in call.keywords if call is not None else ():
            if each.arg is not None:
                value, start = each.value, each.col_offset + 1
                is_one_line = value.end_lineno == value.lineno
                width = (value.end_col_offset or 0) - value.col_offset if is_one_line else 1
                keyword = Place(self.file, each.lineno, start, len(each.arg))
                place = Place(self.file, value.lineno, value.col_offset + 1, max(width, 1))
                found[each.arg] = replace(place, keyword=keyword)
        return found

    def argument(self, name: str) -> Place:
        """Return the place of a keyword argument, or of the call if the source has none."""
        return self.arguments.get(name, self)


def caller() -> Place:
    """Return the place of the call that led from the user's code into this package."""
    # The user called something of this package, which may have called more of it.
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(_PACKAGE):
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


@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[_Position]:
    return [*code.co_positions()]


@lru_cache(maxsize=64)
def _calls(file: str, stamp: object) -> Mapping[tuple[int, int], ast.Call]:
    """Return the calls of a file by their ends, which differ."""
    try:
        # The file may have been changed since it was imported, or be no Python at all.
        module = ast.parse(read_source(file))
    except SyntaxError:
        return {}
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    return {(node.end_lineno or 0, node.end_col_offset or 0): node for node in calls}
