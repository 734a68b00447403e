"""Fields of an Argo manifest that know whether somebody has read them. A key that nothing reads is
a gap, so that no part of a manifest can be dropped in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from jobflow.client.manifests.sources import SourcePlace
from jobflow.client.manifests.yaml_errors import Span
from jobflow.client.manifests.yaml_nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    data_of,
)
from jobflow.client.manifests.yaml_scalars import key_text
from jobflow.core.violations import join_path


class Severity(StrEnum):
    """How much a finding matters."""

    GAP = "error"
    """No equal: the result differs until somebody changes it."""
    CHECK = "warning"
    """Converted with a difference or an assumption."""
    NOTE = "info"
    """Left out, without an effect on the result."""


@dataclass(frozen=True, slots=True)
class Finding:
    place: SourcePlace
    severity: Severity
    path: str
    message: str


class TooLargeError(Exception):
    """A workflow, or the dependencies in it, that take more work than those of the largest flow."""


@dataclass(slots=True)
class Budget:
    """The work of a conversion: templates that call each other many times, and inputs that contain
    each other, can make a small file large without end."""

    left: float

    def spend(self, work: int) -> None:
        """Take some work: a field that is looked at is 1, and so are two characters of a text.
        Raises TooLargeError."""
        self.left -= work
        if self.left < 0:
            raise TooLargeError


@dataclass(slots=True)
class Findings:
    """All findings of a manifest, each once, and the keys that were read."""

    budget: Budget
    found: dict[Finding, None] = field(default_factory=dict)
    read: set[MappingEntry] = field(default_factory=set)
    step: str = ""
    """The step that is being converted; its findings become its comments."""
    comments: dict[str, dict[str, None]] = field(default_factory=dict)
    """Sentences on gaps by step, each once."""
    origins: dict[str, SourcePlace] = field(default_factory=dict)
    """The place of the task of each step, by its name."""

    @property
    def listed(self) -> list[Finding]:
        """All findings in the order of the file."""
        return sorted(self.found, key=lambda each: (each.place.line, each.place.column))

    def add(self, place: SourcePlace, severity: Severity, path: str, message: str) -> None:
        # A template that several tasks call reports the same each time.
        self.found[Finding(place, severity, path, message)] = None
        if severity is Severity.GAP:
            self.comments.setdefault(self.step, {})[message] = None


@dataclass(frozen=True, slots=True)
class Field:
    """A value of an Argo manifest with its path and place."""

    node: Node
    path: str
    key: SourcePlace
    """The place of its key, or of the value in a list."""
    findings: Findings

    def get(self, key: str) -> Field | None:
        """Return the value of a key and mark it as read, or None if it is missing or null."""
        # A template that many tasks call is read for each of them.
        self.findings.budget.spend(1)
        entry = self.node.entries.get(key) if isinstance(self.node, MappingNode) else None
        if entry is None:
            return None
        self.findings.read.add(entry)
        if isinstance(entry.value, ScalarNode) and entry.value.value is None:
            return None
        return self._child(key, entry.value, entry.key)

    def at(self, *keys: str) -> Field | None:
        found: Field | None = self
        for key in keys:
            found = found.get(key) if found is not None else None
        return found

    def present(self, *keys: str) -> Iterator[Field]:
        """Yield the values of those of the keys that are set."""
        for key in keys:
            if (found := self.get(key)) is not None:
                yield found

    def first(self, *keys: str) -> Field | None:
        """Return the value of the first of these keys that is set; later ones are not read."""
        return next(self.present(*keys), None)

    def listed(self, *keys: str) -> list[Field]:
        """Return the values of the list at nested keys; empty if there is none."""
        found = self.at(*keys)
        return found.items() if found is not None else []

    def named(self, key: str) -> Iterator[tuple[str, Field]]:
        """Yield each key of the map at a key, and its value, unless it is null."""
        for found in self.present(key):
            for name, _ in found.entries():
                for value in found.present(name):
                    yield name, value

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Return each key with its value, without marking it as read."""
        if isinstance(self.node, MappingNode):
            self.findings.budget.spend(len(self.node.entries))
            for key, entry in self.node.entries.items():
                yield key, self._child(key, entry.value, entry.key)

    def items(self) -> list[Field]:
        if not isinstance(self.node, ListNode):
            return []
        self.findings.budget.spend(len(self.node.items))
        return [self._child(i, item, item.span) for i, item in enumerate(self.node.items)]

    @property
    def is_map(self) -> bool:
        return isinstance(self.node, MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, ListNode)

    @property
    def data(self) -> Any:
        """The value as JSON. Everything in it counts as read."""
        self.take()
        return data_of(self.node)

    @property
    def text(self) -> str:
        """The scalar as Argo's text: `3`, `true`; a map or list as an empty text."""
        self.take()
        value = self.node.value if isinstance(self.node, ScalarNode) else ""
        # Tags nest texts in texts: an input can double the length of what it is used in.
        self.findings.budget.spend(len(value) // 2 if isinstance(value, str) else 0)
        return value if isinstance(value, str) else key_text(value) or ""

    def text_of(self, *keys: str) -> str:
        """Return the text at nested keys, or "" if it is missing."""
        found = self.at(*keys)
        return "" if found is None else found.text

    def is_true(self, key: str) -> bool:
        return self.text_of(key) == "true"

    def take(self) -> None:
        """Mark everything in the value as read."""
        self.findings.budget.spend(self.node.size)
        pending: list[Node] = [self.node]
        while pending:
            node = pending.pop()
            if isinstance(node, MappingNode):
                self.findings.read.update(node.entries.values())
                pending += (each.value for each in node.entries.values())
            elif isinstance(node, ListNode):
                pending += node.items

    def gap(self, message: str) -> None:
        """Report that the field has no equal."""
        self.take()
        self.findings.add(self.key, Severity.GAP, self.path, message)

    def check(self, message: str) -> None:
        """Report a difference or an assumption."""
        self.findings.add(self.key, Severity.CHECK, self.path, message)

    def note(self, message: str) -> None:
        """Report that the field has no effect on the result."""
        self.take()
        self.findings.add(self.key, Severity.NOTE, self.path, message)

    def report_keys(self, severity: Severity, messages: Mapping[str, str]) -> None:
        """Report each of these keys that is set: one without an equal, or without an effect."""
        for key, message in messages.items():
            for found in self.present(key):
                found.take()
                self.findings.add(found.key, severity, found.path, message)

    def report_unread(self) -> None:
        for key, child in self.entries():
            entry = self.node.entries[key]  # type: ignore[union-attr]
            # All inside of an unknown key is unknown with it.
            if entry not in self.findings.read:
                child.gap("is not known to this command: look for an equal in docs/reference.md")
            else:
                child.report_unread()
        for item in self.items():
            item.report_unread()

    def with_defaults(self, defaults: Field | None) -> Field:
        """Return this map with the keys of another one where it has none, also inside of it."""
        if defaults is None:
            return self
        self.findings.budget.spend(defaults.node.size)
        return replace(self, node=_merge(self.node, defaults.node))

    def _child(self, key: str | int, node: Node, span: Span) -> Field:
        place = SourcePlace(self.key.source, span.line, span.column, span.width)
        return Field(node, join_path(self.path, key), place, self.findings)


def node_of(data: Any, span: Span) -> Node:
    """Return JSON, in which nodes may stand too, as a node at a place."""
    if isinstance(data, dict):
        entries = {key: MappingEntry(span, node_of(each, span)) for key, each in data.items()}
        return MappingNode(span, entries=entries)
    if isinstance(data, list):
        return ListNode(span, items=[node_of(each, span) for each in data])
    return data if isinstance(data, Node) else ScalarNode(span, data)


def _merge(own: Node, defaults: Node) -> Node:
    if not (isinstance(own, MappingNode) and isinstance(defaults, MappingNode)):
        return own
    merged = MappingNode(own.span, own.size, own.depth, dict(own.entries))
    for key, entry in defaults.entries.items():
        mine = merged.entries.get(key)
        if mine is None:
            # The entry itself, and no copy: a default that a template uses counts as read.
            merged.entries[key] = entry
        elif isinstance(mine.value, MappingNode):
            value = _merge(mine.value, entry.value)
            merged.entries[key] = MappingEntry(mine.key, value)
    return merged
