"""Faults of manifests and their places in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from jobflow.client.manifests.yaml_nodes import lines_of

UNREADABLE = "Unreadable"
"""Reason of a fault because of which a file or a document could not be read at all."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file or stdin."""

    name: str
    text: str = field(default="", repr=False)

    @cached_property
    def lines(self) -> list[str]:
        return lines_of(self.text)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in a source: line and column from 1; line 0 is the whole source."""

    source: Source
    line: int = 0
    column: int = 0
    width: int = 1

    def __str__(self) -> str:
        """`file:line:column`, the format that editors can follow."""
        return f"{self.source.name}:{self.line}:{self.column}" if self.line else self.source.name


@dataclass(frozen=True, slots=True)
class ManifestFault:
    """A fault or a warning at a place, with the object that has it if there is one."""

    place: SourcePlace
    reason: str
    """"" for a warning that is never a fault."""
    message: str
    """The fault and how to mend it, without place and path."""
    path: str = ""
    kind: str = ""
    name: str = ""
    is_field_warning: bool = False
    """Whether admission only warns about it."""

    @property
    def sentence(self) -> str:
        """`path: message`, or the message if there is no path."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def as_json(self) -> dict[str, object]:
        """Return an element of the list of `jobflow lint -o json`."""
        place, fields = self.place, ("kind", "name", "path", "reason", "message")
        found = {"file": place.source.name, "line": place.line, "column": place.column}
        return found | {name: getattr(self, name) for name in fields}
