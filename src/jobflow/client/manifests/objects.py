"""The objects in FILEs, with the place of every value. Their content is not checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

import msgspec

from jobflow.api.resources import Status
from jobflow.client.manifests import sources
from jobflow.client.manifests.sources import ManifestFault, Source, SourcePlace
from jobflow.client.manifests.yaml_errors import NotYAMLError, Span
from jobflow.client.manifests.yaml_nodes import (
    Duplicate,
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    data_of,
    documents,
)
from jobflow.core.violations import join_path, split_first_key

DEFAULT_NAMESPACE = "default"
_NO_OBJECT = "not a Kubernetes object: write a mapping with apiVersion, kind, metadata and spec"


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object as it is written; any value may have the wrong type."""

    source: Source
    node: MappingNode
    default_namespace: str = DEFAULT_NAMESPACE

    @cached_property
    def data(self) -> dict[str, Any]:
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
        return self._metadata("name")

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, or the default one."""
        return self.own_namespace or self.default_namespace

    @property
    def own_namespace(self) -> str:
        return self._metadata("namespace")

    @property
    def generate_name(self) -> str:
        return self._metadata("generateName")

    def _metadata(self, key: str) -> str:
        """Return a field of the metadata, "" if it is missing or no text."""
        metadata = self.data.get("metadata")
        value = metadata.get(key) if isinstance(metadata, dict) else None
        return value if isinstance(value, str) else ""

    def place(self, path: str, *, of_key: bool = False) -> SourcePlace:
        """Return the place of a JSON path, or of the nearest value above it that exists: that of
        its key with `of_key`, and for a mapping, a list, and a value that lacks something."""
        steps, complete = self._steps(path)
        if not steps:
            return self._place(self.node.span)
        nearest = steps[-1][1]
        # the value of a mapping or a list begins on another line
        at_key = of_key or not complete or isinstance(nearest.value, MappingNode | ListNode)
        return self._place(nearest.key if at_key else nearest.value.span)

    def keys(self, path: str) -> list[str | int] | None:
        """Return the keys and indices of a JSON path, or None if it does not exist."""
        steps, complete = self._steps(path)
        return [key for key, _ in steps] if complete else None

    def node_at(self, path: str) -> Node | None:
        """Return the value at a JSON path, or None if it does not exist."""
        steps, complete = self._steps(path)
        found = steps[-1][1].value if steps else self.node
        return found if complete else None

    def add_alias(self, path: str, key: str) -> None:
        """Let a misspelt key be found by its right name too."""
        steps, complete = self._steps(path)
        parent = steps[-2][1].value if len(steps) > 1 else self.node
        if complete and isinstance(parent, MappingNode):
            # the misspelt key stays, so that its fault is found
            parent.entries.setdefault(key, steps[-1][1])

    def _steps(self, path: str) -> tuple[list[tuple[str | int, MappingEntry]], bool]:
        """Return the keys and indices down a JSON path, with their values, as far as it exists, and
        whether all of it does."""
        steps: list[tuple[str | int, MappingEntry]] = []
        node: Node = self.node
        while path:
            if (step := _step(node, path)) is None:
                return steps, False
            key, entry, path = step
            steps.append((key, entry))
            node = entry.value
        return steps, True

    def duplicates(self) -> Iterator[tuple[str, Duplicate, SourcePlace]]:
        """Return each repeated key with its JSON path and the place of the repetition."""
        for path, node in self._mappings():
            for each in node.duplicates:
                yield join_path(path, each.key), each, self._place(each.again)

    def misread_keys(self) -> Iterator[tuple[str, str, str, SourcePlace]]:
        """Return the JSON path of each key that YAML reads as a boolean, the key as it is written
        and as it is read, and its place."""
        for path, node in self._mappings():
            for key, entry in node.entries.items():
                if entry.misread:
                    yield join_path(path, key), entry.misread, key, self._place(entry.key)

    def _mappings(self) -> Iterator[tuple[str, MappingNode]]:
        """Return each mapping with its JSON path, the outer ones first."""
        seen: set[int] = set()  # aliases share nodes
        pending: list[tuple[str, Node]] = [("", self.node)]
        while pending:
            path, node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            children: list[tuple[str, Node]] = []
            if isinstance(node, MappingNode):
                yield path, node
                children = [
                    (join_path(path, key), each.value) for key, each in node.entries.items()
                ]
            elif isinstance(node, ListNode):
                children = [(join_path(path, i), item) for i, item in enumerate(node.items)]
            # a stack, because recursion would end at deep nesting
            pending += reversed(children)

    def _place(self, span: Span) -> SourcePlace:
        return SourcePlace(self.source, span.line, span.column, span.width)


@dataclass(slots=True)
class Manifests:
    """All objects in FILEs, and the faults of what cannot be read as an object."""

    sources: list[Source] = field(default_factory=list)
    objects: list[Manifest] = field(default_factory=list)
    faults: list[ManifestFault] = field(default_factory=list)
    flag_warnings: list[ManifestFault] = field(default_factory=list)
    """Warnings about values of flags."""


def load(files: Iterable[str], stdin: BinaryIO) -> Manifests:
    """Read FILEs (`read_files`) and return all objects; a List is replaced by its items."""
    loaded = Manifests()
    for source in sources.read_files(files, stdin):
        if isinstance(source, ManifestFault):
            loaded.sources.append(source.place.source)
            loaded.faults.append(source)
            continue
        loaded.sources.append(source)
        found = [*documents(source.text)]
        if not found:
            empty = ManifestFault(SourcePlace(source), sources.UNREADABLE, "contains no object")
            loaded.faults.append(empty)
        for document in found:
            if isinstance(document, NotYAMLError):
                loaded.faults.append(_unreadable(source, document.span, document.message))
            else:
                _add_objects(loaded, source, document)
    return loaded


def manifest_of(flow: Mapping[str, Any]) -> Manifest:
    """Return a flow that is no file as a manifest, whose source is named like the flow."""
    text = msgspec.json.encode(flow).decode()
    [node] = documents(text)
    assert isinstance(node, MappingNode), "JSON of an object"
    meta = flow["metadata"]
    # a generateName has no name yet
    name = meta.get("name") or f"{meta['generateName']}<random>"
    return Manifest(Source(f"jf/{name}", text), node)


def _add_objects(loaded: Manifests, source: Source, node: Node) -> None:
    if not isinstance(node, MappingNode):
        loaded.faults.append(_unreadable(source, node.span, _NO_OBJECT))
        return
    manifest, items = Manifest(source, node), node.entries.get("items")
    if items and isinstance(items.value, ListNode) and str(manifest.kind).endswith("List"):
        for item in items.value.items:
            _add_objects(loaded, source, item)
    else:
        loaded.objects.append(manifest)


def _unreadable(source: Source, span: Span, message: str) -> ManifestFault:
    place = SourcePlace(source, span.line, span.column, span.width)
    return ManifestFault(place, sources.UNREADABLE, message)


def _step(node: Node, path: str) -> tuple[str | int, MappingEntry, str] | None:
    """Return one step down a JSON path, and the rest of the path."""
    if isinstance(node, MappingNode):
        # a key may have dots, so a path can be split in several ways
        found = ((key, rest) for key, rest in split_first_key(path) if key in node.entries)
        return next(((key, node.entries[key], rest) for key, rest in found), None)
    index, closed, rest = path.removeprefix("[").partition("]")
    if not (isinstance(node, ListNode) and path.startswith("[") and closed and index.isdecimal()):
        return None
    if int(index) >= len(node.items):
        return None
    item = node.items[int(index)]
    return int(index), MappingEntry(item.span, item), rest


def faults_of(manifest: Manifest, status: Status) -> list[ManifestFault]:
    """Return a fault for each cause of a refusal by the API server, at its place in the file."""
    kind, name, details = str(manifest.kind), manifest.name, status.details
    causes = (details.causes if details else None) or []
    if not causes:
        place = manifest.place("metadata.name")
        return [ManifestFault(place, status.reason, status.message, "", kind, name)]
    faults = []
    for cause in causes:
        path = cause.field.removeprefix(".")
        place = manifest.place(path)
        faults.append(ManifestFault(place, cause.reason, cause.message, path, kind, name))
    return faults
