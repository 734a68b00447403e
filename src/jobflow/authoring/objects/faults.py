"""Faults of flows that Python wrote, and places in Python files: of calls and their arguments."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

if TYPE_CHECKING:  # a flow without faults does not need them
    from jobflow.client.manifests.check import Report
    from jobflow.client.manifests.sources import ManifestFault

P = ParamSpec("P")
T = TypeVar("T")
_PACKAGE = "jobflow.authoring."


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
        """The values of the keyword arguments of the call that the source has, by name."""
        found = {}
        for each in self._call.keywords if self._call is not None else ():
            if each.arg is not None:
                keyword = Place(self.file, each.lineno, each.col_offset + 1, len(each.arg))
                found[each.arg] = replace(self._of(each.value), keyword=keyword)
        return found

    def all_arguments(self, parameters: Iterable[str]) -> Mapping[str, Place]:
        """Return the values of all arguments of the call that the source has, by the names of the
        parameters."""
        found = dict(self.arguments)
        values = self._call.args if self._call is not None else ()
        for name, value in zip(parameters, values, strict=False):
            if isinstance(value, ast.Starred):
                break
            found[name] = self._of(value)
        return found

    @property
    def _call(self) -> ast.Call | None:
        linecache.getlines(self.file)
        # Size and time of the file, as linecache knows them: a cell may be written again.
        stamp = linecache.cache.get(self.file, (0, None))[:2]
        return _calls(self.file, stamp).get(self.end)

    def _of(self, value: ast.expr) -> Place:
        is_one_line = value.end_lineno == value.lineno
        width = (value.end_col_offset or 0) - value.col_offset if is_one_line else 1
        return Place(self.file, value.lineno, value.col_offset + 1, max(width, 1))

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
    # One position for each instruction, which has two bytes.
    line, end_line, column, end = _positions(code)[frame.f_lasti // 2]
    if line is None or column is None:
        return Place(code.co_filename, frame.f_lineno)
    width = end - column if end is not None and end_line == line else 1
    return Place(code.co_filename, line, column + 1, max(width, 1), (end_line or 0, end or 0))


def read_source(file: str) -> str:
    """Return the text of a file, or of a cell of a notebook; "" if there is none."""
    return "".join(linecache.getlines(file))


# A file that adds a thousand steps would be read as often.
@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
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


_WIDTH = 100
_SCHEDULED = "spec.jobFlowTemplate.spec."
_STEP = re.compile(r"(?:spec|flow)\.(flows|finally)\[(\d+)\]\.?")
# The advice of admission, which writes CEL.
_ITEMS = re.compile(
    r'"([^"]+)" has forEach: each of its items has outputs, as in '
    r'steps\["\1"\]\.items\[0\]\.outputs(, and steps\["\1"\]\.item\.outputs)?'
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, repr=False)
class Fault:
    """A fault or a warning: its place in the Python file, its path in the object, and what to
    do. It prints as one line: `flow.py:8: train.retry.limit: Invalid value: …`."""

    place: Place
    message: str
    """The fault, with the value, and how to mend it."""
    path: str = ""
    """JSON path in the object, such as `spec.flows[0].retry.limit`."""
    reason: str = ""
    kind: str = ""
    name: str = ""
    step_path: str = ""
    """The path from the name of its step, such as `train.retry.limit`; empty if it has none."""

    @property
    def file(self) -> str:
        """The Python file, relative to the current folder if it is below it."""
        return display_name(self.place.file)

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self.place.line

    @property
    def sentence(self) -> str:
        """`path: message`, with the name of the step if it is known, or only the message."""
        shown = self.step_path or self.path
        return f"{shown}: {self.message}" if shown else self.message

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.sentence}"

    __repr__ = __str__  # as in the list that `lint` returns


class InvalidFlow(Exception):  # noqa: N818 - the name that users read
    """A flow with faults; the message has all of them, with the lines that made them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(*faults)
        self.faults = list(faults)
        """All faults, in the order of files and lines."""

    def __str__(self) -> str:
        # Imported for faults only, which few flows have.
        from jobflow.client.manifests.sources import Source, SourcePlace
        from jobflow.display.report import excerpt

        lines = ["1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"]
        for fault in self.faults:
            lines.append(str(fault))
            source = Source(fault.file, read_source(fault.place.file))
            if 0 < fault.line <= len(source.lines):
                at = SourcePlace(source, fault.line, fault.place.column, fault.place.width)
                lines += excerpt(at, _WIDTH)
        return "\n".join(lines)


class RunError(Exception):
    """A flow that failed, or cannot end where it runs."""


class ClusterError(Exception):
    """The cluster does not answer, refuses the user, or does not have the flow any more."""


for _error in (InvalidFlow, RunError, ClusterError):
    _error.__module__ = "jobflow.authoring"  # as tracebacks name it


class FlowWarning(UserWarning):
    """Something suspicious in a flow."""


def ends_at_caller(function: Callable[P, T]) -> Callable[P, T]:
    """Let the traceback of InvalidFlow end where the user called this function: frames of this
    package say nothing about the faults, which have their own places."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except InvalidFlow as error:
            # Also of an error that was raised while another was handled.
            error.__traceback__ = None
            error.__suppress_context__ = True
            raise

    return call


def refuse(place: Place, message: str) -> NoReturn:
    raise InvalidFlow([Fault(place, message)])


def display_name(file: str) -> str:
    """Return the name of a file as a user would write it; a cell of a notebook has none."""
    if not os.path.isabs(file):
        return file
    if not os.path.exists(file):
        # IPython numbers the cells of a notebook in a map of its own.
        found = sys.modules.get("IPython")
        shell = found.get_ipython() if found is not None else None
        numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
        return f"<cell {numbers.get(file) or Path(file).stem}>"
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def from_manifest(fault: ManifestFault, report: Report) -> Fault:
    """Return a fault of a manifest that was made from objects of Python; the report has them."""
    at = fault.place
    place = Place(at.source.name, at.line, at.column, at.width)
    # If two objects have the same name, either may have the fault.
    known = [
        each.data
        for each in (*report.flows, *report.crons)
        if (each.kind, each.name) == (fault.kind, fault.name)
    ]
    step_path = step_path_of(fault.path, known[0]) if len(known) == 1 else ""

    def in_python(advice: re.Match[str]) -> str:
        name, variable = advice[1], advice[1].replace("-", "_")
        how = f"write {variable}.items.map(lambda each: each.outputs)"
        how += f", and {variable}.item.outputs" if advice[2] else ""
        return f'"{name}" has for_each, so each of its items has outputs: {how}'

    message = _ITEMS.sub(in_python, fault.message)
    return Fault(place, message, fault.path, fault.reason, fault.kind, fault.name, step_path)


def step_path_of(path: str, data: Mapping[str, Any]) -> str:
    """Return a path from the name of its step, `site/fit` in a child flow; "" if it is of no step,
    or the step has no name."""
    names: list[str] = []
    body, rest = data.get("spec"), path
    if rest.startswith(_SCHEDULED) and isinstance(body, Mapping):
        body, rest = body["jobFlowTemplate"]["spec"], f"spec.{rest.removeprefix(_SCHEDULED)}"
    while (found := _STEP.match(rest)) and isinstance(body, Mapping):
        step = body[found[1]][int(found[2])]
        names.append(str(step.get("name")))
        body, rest = step.get("flow"), rest[found.end() :]
    if not names or not all(map(_NAME.fullmatch, names)):
        return ""
    return "/".join(names) + (f".{rest}" if rest else "")
