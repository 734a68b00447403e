"""A fault in a manifest: where it stands and what is wrong. Knows neither YAML nor the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

UNREADABLE = "Unreadable"
"""Reason of a fault that kept a file, or a document in it, from being read at all."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that was read, and the name to call it by."""

    name: str
    lines: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a source: line and column from 1, 0 where the whole source is meant."""

    source: Source
    line: int = 0
    column: int = 0
    width: int = 1

    def __str__(self) -> str:
        """`file:line:column`, as compilers say it and editors follow it."""
        return f"{self.source.name}:{self.line}:{self.column}" if self.line else self.source.name

    @property
    def text(self) -> str:
        """The line itself; empty where the whole source is meant."""
        return self.source.lines[self.line - 1] if self.line else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, at a place, with the object it belongs to where there is one."""

    place: Place
    reason: str
    message: str
    """What is wrong and what to do, without place and path."""
    path: str = ""
    kind: str = ""
    name: str = ""
    is_doubt: bool = False
    """Whether admission only warns of it."""

    @property
    def sentence(self) -> str:
        """`path: message`, or the message alone where the fault is not in an object."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def as_json(self) -> dict[str, str | int]:
        """The element of `jobflow lint -o json`'s list (DESIGN §7)."""
        return {
            "file": self.place.source.name,
            "line": self.place.line,
            "column": self.place.column,
            "kind": self.kind,
            "name": self.name,
            "path": self.path,
            "reason": self.reason,
            "message": self.message,
        }
