"""The objects in FILEs, each value with its place. Judges only whether something is an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

from jobflow.cli.manifests.faults import UNREADABLE, Fault, Place, Source
from jobflow.cli.manifests.files import Text, read
from jobflow.cli.manifests.yaml_errors import NotYAMLError, Span
from jobflow.cli.manifests.yaml_nodes import (
    Duplicate,
    Entry,
    ListNode,
    MappingNode,
    Node,
    data_of,
    documents,
)
from jobflow.core.violations import split_first_key

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object as it is written. Nothing in it is checked: getters take any JSON."""

    source: Source
    node: MappingNode

    @cached_property
    def data(self) -> dict[str, Any]:
        """The object as plain JSON."""
        data: dict[str, Any] = data_of(self.node)
        return data

    @property
    def api_version(self) -> Any:
        return self.data.get("apiVersion")

    @property
    def kind(self) -> Any:
        return self.data.get("kind")

    @property
    def name(self) -> str:
        """`metadata.name`; empty where it is missing or no text."""
        return self._metadata("name") or ""

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, or `default`, where kubectl puts it when nobody says otherwise."""
        return self._metadata("namespace") or DEFAULT_NAMESPACE

    def _metadata(self, key: str) -> str | None:
        metadata = self.data.get("metadata")
        value = metadata.get(key) if isinstance(metadata, dict) else None
        return value if isinstance(value, str) else None

    def place(self, path: str, *, of_key: bool = False) -> Place:
        """Where a JSON path stands, or the nearest thing above it that is there.

        A text, number, boolean or null is at its value, or at its key with `of_key`; a mapping, a
        list and whatever lacks something at its key.
        """
        steps, complete = self._along(path)
        if not steps:
            return self._at(self.node.span)
        nearest = steps[-1].entry
        at_key = of_key or not complete or isinstance(nearest.value, MappingNode | ListNode)
        return self._at(nearest.key if at_key else nearest.value.span)

    def keys(self, path: str) -> list[str | int] | None:
        """The keys and indices that a JSON path goes through, or None where it leads nowhere."""
        steps, complete = self._along(path)
        return [step.key for step in steps] if complete else None

    def read_as(self, path: str, key: str) -> None:
        """From now on a misspelt key is also found by its right name."""
        steps, complete = self._along(path)
        parent = steps[-2].entry.value if len(steps) > 1 else self.node
        if complete and isinstance(parent, MappingNode):
            parent.entries.setdefault(key, steps[-1].entry)

    def _along(self, path: str) -> tuple[list[_Step], bool]:
        """What a JSON path goes through as far as it is there, and whether that is all of it."""
        steps: list[_Step] = []
        node: Node = self.node
        while path:
            step = _step(node, path)
            if step is None:
                return steps, False
            steps.append(step)
            node, path = step.entry.value, step.rest
        return steps, True

    def duplicates(self) -> Iterator[tuple[str, Duplicate, Place]]:
        """Each key that is given again: its JSON path, the places as spans, and the later place."""
        for path, duplicate in _duplicates(self.node):
            yield path, duplicate, self._at(duplicate.again)

    def _at(self, span: Span) -> Place:
        return Place(self.source, span.line, span.column, span.width)


@dataclass(slots=True)
class Manifests:
    """All objects in FILEs, and what of FILEs could not be read as objects."""

    sources: list[Source] = field(default_factory=list)
    """In the order in which they were read."""
    objects: list[Manifest] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def load(files: Iterable[str], stdin: BinaryIO) -> Manifests:
    """Read FILE arguments (`sources.read`): all objects, those of Lists one by one."""
    loaded = Manifests()
    for text in read(files, stdin):
        if isinstance(text, Fault):
            loaded.sources.append(text.place.source)
            loaded.faults.append(text)
            continue
        loaded.sources.append(text.source)
        for found in _objects(text):
            if isinstance(found, Fault):
                loaded.faults.append(found)
            else:
                loaded.objects.append(found)
    return loaded


def child(path: str, key: str) -> str:
    """The JSON path of a mapping's value, written as the API server writes it."""
    if key.replace("-", "").replace("_", "").isalnum():
        return f"{path}.{key}" if path else key
    return f"{path}[{key}]"


def _objects(text: Text) -> Iterator[Manifest | Fault]:
    empty = True
    for document in documents(text.content):
        empty = False
        if isinstance(document, NotYAMLError):
            yield _fault(text.source, document.span, UNREADABLE, document.message)
        else:
            yield from _expanded(text.source, document)
    if empty:
        yield Fault(Place(text.source), UNREADABLE, "empty: no object in it")


def _expanded(source: Source, node: Node) -> Iterator[Manifest | Fault]:
    """The object, or the objects of a `kind: List`."""
    if not isinstance(node, MappingNode):
        message = "no Kubernetes object: that is a mapping with apiVersion, kind, metadata and spec"
        yield _fault(source, node.span, UNREADABLE, message)
        return
    items = node.entries.get("items")
    if items is None or not isinstance(items.value, ListNode) or not _is_list(node):
        yield Manifest(source, node)
        return
    for item in items.value.items:
        yield from _expanded(source, item)


def _is_list(node: MappingNode) -> bool:
    kind = node.entries.get("kind")
    value = data_of(kind.value) if kind else None
    return isinstance(value, str) and value.endswith("List")


def _fault(source: Source, span: Span, reason: str, message: str) -> Fault:
    return Fault(Place(source, span.line, span.column, span.width), reason, message)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step down a JSON path: what was taken, and what is left of the path."""

    key: str | int
    entry: Entry
    rest: str


def _step(node: Node, path: str) -> _Step | None:
    if isinstance(node, MappingNode):
        return _step_into_mapping(node, path)
    index, closed, rest = path.removeprefix("[").partition("]")
    if not (isinstance(node, ListNode) and path.startswith("[") and closed and index.isdecimal()):
        return None
    if int(index) >= len(node.items):
        return None
    item = node.items[int(index)]
    return _Step(int(index), Entry(item.span, item), rest)


def _step_into_mapping(node: MappingNode, path: str) -> _Step | None:
    for key, rest in split_first_key(path):
        if key in node.entries:
            return _Step(key, node.entries[key], rest)
    return None


def _duplicates(root: Node) -> Iterator[tuple[str, Duplicate]]:
    """In the order they are written; a value that aliases share is looked at once."""
    seen: set[int] = set()
    waiting: list[tuple[str, Node]] = [("", root)]
    while waiting:
        path, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        below: list[tuple[str, Node]] = []
        if isinstance(node, MappingNode):
            yield from ((child(path, each.key), each) for each in node.duplicates)
            below = [(child(path, key), entry.value) for key, entry in node.entries.items()]
        elif isinstance(node, ListNode):
            below = [(f"{path}[{i}]", item) for i, item in enumerate(node.items)]
        waiting += reversed(below)
