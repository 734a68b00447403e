"""Faults of flows that Python wrote, with the file and line that made them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from jobflow.authoring.objects.places import Place, read_source

if TYPE_CHECKING:
    from jobflow.client.manifests.check import Report
    from jobflow.client.manifests.sources import ManifestFault

P = ParamSpec("P")
T = TypeVar("T")
_WIDTH = 100
_SCHEDULED = "spec.jobFlowTemplate.spec."
_STEP = re.compile(r"(?:spec|flow)\.(flows|finally)\[(\d+)\]\.?")
_ITEMS = re.compile(
    r'"([^"]+)" has forEach: each of its items has outputs, as in '
    r'steps\["\1"\]\.items\[0\]\.outputs'
)
"""The advice of admission, which writes CEL."""
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
        head = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        return "\n".join([head, *map(_with_excerpt, self.faults)])


class RunError(Exception):
    """A flow that failed, or cannot end where it runs."""


class ClusterError(Exception):
    """The cluster does not answer, refuses the user, or does not have the flow any more."""


for _error in (InvalidFlow, RunError, ClusterError):
    _error.__module__ = "jobflow.authoring"  # as tracebacks name it


class FlowWarning(UserWarning):
    """Something suspicious in a flow."""


def ends_at_caller(function: Callable[P, T]) -> Callable[P, T]:
    """Let the traceback of InvalidFlow end where the user called this function. Frames of this
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
    """Raise InvalidFlow for one fault."""
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
    known = [
        each.data
        for each in (*report.flows, *report.crons)
        if (each.kind, each.name) == (fault.kind, fault.name)
    ]
    step_path = step_path_of(fault.path, known[0]) if len(known) == 1 else ""

    def in_python(advice: re.Match[str]) -> str:
        name, variable = advice[1], advice[1].replace("-", "_")
        how = f"write {variable}.items.map(lambda each: each.outputs)"
        return f'"{name}" has for_each, so each of its items has outputs: {how}'

    message = _ITEMS.sub(in_python, fault.message)
    return Fault(place, message, fault.path, fault.reason, fault.kind, fault.name, step_path)


def step_path_of(path: str, data: Mapping[str, Any]) -> str:
    """Return a path of this flow or schedule from the name of its step, `site/fit` in a child flow;
    "" if it is of no step, or the step has no name."""
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


def _with_excerpt(fault: Fault) -> str:
    from jobflow.client.manifests.sources import Source, SourcePlace
    from jobflow.display.report import excerpt

    source = Source(fault.file, read_source(fault.place.file))
    if not 0 < fault.line <= len(source.lines):
        return str(fault)
    at = SourcePlace(source, fault.line, fault.place.column, fault.place.width)
    return "\n".join([str(fault), *excerpt(at, _WIDTH)])
