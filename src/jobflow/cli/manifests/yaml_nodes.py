"""YAML documents as nodes with their places. No text raises.

PyYAML's composer drops duplicate keys, follows aliases without end and recurses without bound. So
nodes are built here from libyaml's events, document by document and within limits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from jobflow.api.schema.nesting import MAX_DEPTH
from jobflow.cli.manifests.yaml_errors import NotYAMLError, Span, from_libyaml, invalid_character
from jobflow.cli.manifests.yaml_scalars import NotJSONError, key_text, plain_value

MAX_NODES = 500_000
"""Most values in one text; an alias counts as all its values. A flow of 5,000 steps has about
50,000."""

_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_DOCUMENT_START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_NOTHING_YET = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)|%[^\n]*(?:\n|\Z))*")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab]..)\\u(d[c-f]..)", re.IGNORECASE)


@dataclass(slots=True)
class ScalarNode:
    """A text, number, boolean or null."""

    span: Span
    value: Any
    size: int = 1
    depth: int = 0


@dataclass(slots=True)
class ListNode:
    """A sequence. `size` counts the nodes in it; an alias counts as all its values."""

    span: Span
    items: list[Node] = field(default_factory=list)
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class MappingEntry:
    """The place of a key of a mapping, and its value."""

    key: Span
    value: Node


@dataclass(slots=True)
class Duplicate:
    """A repeated key: its place and that of the first one."""

    key: str
    again: Span
    first: Span


@dataclass(slots=True)
class MappingNode:
    """A mapping with text keys and resolved merge keys; the last of repeated keys is used."""

    span: Span
    entries: dict[str, MappingEntry] = field(default_factory=dict)
    duplicates: list[Duplicate] = field(default_factory=list)
    size: int = 1
    depth: int = 1


Node = ScalarNode | ListNode | MappingNode


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as libyaml counts them."""
    return _LINE_BREAK.split(text)


def documents(text: str) -> Iterator[Node | NotYAMLError]:
    """Return each document of a text or its error, without empty documents, as kubectl does."""
    if (error := invalid_character(text, _LINE_BREAK)) is not None:
        yield error
        return
    if text.lstrip().startswith("{"):
        text = _SURROGATES.sub(_joined_escape, text)
    nodes_left = MAX_NODES
    for first_line, chunk in _chunks(text):
        builder = _Builder(first_line, nodes_left)
        try:
            for event in yaml.parse(chunk, Loader=yaml.CLoader):
                builder.take(event)
        except yaml.MarkedYAMLError as failed:
            builder.give_up(from_libyaml(failed, first_line, lines_of(chunk)))
        except NotYAMLError as failed:
            builder.give_up(failed)
        yield from builder.documents
        nodes_left = builder.nodes_left
        if nodes_left < 0:
            return


def data_of(node: Node) -> Any:
    """Return the node as JSON. Aliased parts are copies."""
    match node:
        case MappingNode():
            return {key: data_of(entry.value) for key, entry in node.entries.items()}
        case ListNode():
            return [data_of(item) for item in node.items]
        case ScalarNode():
            return node.value


def _joined_escape(match: re.Match[str]) -> str:
    """Join the two escapes that JSON uses for 😀, because YAML has one."""
    pair = bytes.fromhex(match[2] + match[3]).decode("utf-16-be", errors="replace")
    return f"{match[1]}\\U{ord(pair[0]):08x}"


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Return the text of each document, with its first line (from 0)."""
    starts = [0]
    for match in _DOCUMENT_START.finditer(text):
        if not _NOTHING_YET.fullmatch(text, starts[-1], match.start()):
            starts.append(match.start())
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        chunk = text[start:end]
        yield line, chunk
        line += len(_LINE_BREAK.findall(chunk))


class _Builder:
    """Builds nodes from events; `documents` has the complete ones."""

    def __init__(self, first_line: int, nodes_left: int) -> None:
        self.documents: list[Node | NotYAMLError] = []
        self._first_line = first_line
        self.nodes_left = nodes_left
        self._open: list[_Frame] = []
        self._anchors: dict[str, Node | None] = {}

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._anchors = {}
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._add(self._aliased(event))
            case yaml.SequenceStartEvent():
                self._start(ListNode(self._span(event)), event.anchor)
            case yaml.MappingStartEvent():
                self._start(MappingNode(self._span(event)), event.anchor)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()

    def give_up(self, error: NotYAMLError) -> None:
        """Add the error, and drop a scalar before it, which was part of the unreadable text."""
        self.documents = [node for node in self.documents if not isinstance(node, ScalarNode)]
        self.documents.append(error)

    def _span(self, event: yaml.Event) -> Span:
        start, end = event.start_mark, event.end_mark
        assert start is not None and end is not None, "libyaml marks every event"
        width = end.column - start.column if end.line == start.line else 1
        return Span(self._first_line + start.line + 1, start.column + 1, max(width, 1))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        span = self._span(event)
        if self._expects_key() and event.value == "<<" and event.implicit[0]:
            self._open[-1].key = _MERGE
            return
        self._spend(1, span)
        node = ScalarNode(span, _value(event, span))
        if event.anchor:
            self._anchors[event.anchor] = node
        self._add(node)

    def _aliased(self, event: yaml.AliasEvent) -> Node:
        span = self._span(event)
        if event.anchor not in self._anchors:
            raise NotYAMLError(span, f"*{event.anchor} has no anchor above it")
        node = self._anchors[event.anchor]
        if node is None:
            raise NotYAMLError(span, f"the value of anchor &{event.anchor} contains itself")
        self._spend(node.size, span)
        if len(self._open) + node.depth > MAX_DEPTH:
            raise NotYAMLError(span, f"nested more than {MAX_DEPTH} deep")
        return node

    def _spend(self, nodes: int, span: Span) -> None:
        self.nodes_left -= nodes
        if self.nodes_left < 0:
            raise NotYAMLError(span, f"more than {MAX_NODES:,} values, with those of aliases")

    def _expects_key(self) -> bool:
        return bool(self._open) and self._open[-1].expects_key

    def _start(self, node: ListNode | MappingNode, anchor: str | None) -> None:
        self._spend(1, node.span)
        if len(self._open) >= MAX_DEPTH:
            raise NotYAMLError(node.span, f"nested more than {MAX_DEPTH} deep")
        if self._expects_key():
            braces = isinstance(node, MappingNode)
            raise NotYAMLError(node.span, _BRACES if braces else "a key must be text")
        if anchor:
            self._anchors[anchor] = None
        self._open.append(_Frame(node, anchor))

    def _end(self) -> None:
        frame = self._open.pop()
        frame.resolve_merges()
        if frame.anchor:
            self._anchors[frame.anchor] = frame.node
        self._add(frame.node)

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].add(node)
        elif not (isinstance(node, ScalarNode) and node.value is None):
            self.documents.append(node)


@dataclass(frozen=True, slots=True)
class _Key:
    text: str
    span: Span


_MERGE = _Key("<<", Span(0, 0))


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is not complete, and the key whose value comes next."""

    node: ListNode | MappingNode
    anchor: str | None
    key: _Key | None = None
    merges: list[MappingNode] = field(default_factory=list)

    @property
    def expects_key(self) -> bool:
        return isinstance(self.node, MappingNode) and self.key is None

    def add(self, node: Node) -> None:
        if isinstance(self.node, ListNode):
            self.node.items.append(node)
        elif self.key is None:
            self.key = _key(node)
            return
        elif self.key is _MERGE:
            self.key = None
            self.merges += _merged(node)
        else:
            _put(self.node, self.key, node)
            self.key = None
        self.node.size += node.size
        self.node.depth = max(self.node.depth, node.depth + 1)

    def resolve_merges(self) -> None:
        """Add merged entries; keys of the mapping itself win, then those of earlier merges."""
        for merged in self.merges:
            for key, entry in merged.entries.items():
                self.node.entries.setdefault(key, entry)  # type: ignore[union-attr]


_BRACES = "a key must be text; render {{ … }} of a Helm or Jinja template first"


def _key(node: Node) -> _Key:
    text = key_text(node.value) if isinstance(node, ScalarNode) else None
    if text is None:
        raise NotYAMLError(node.span, "a key must be text")
    return _Key(text, node.span)


def _put(parent: MappingNode, key: _Key, node: Node) -> None:
    if key.text in parent.entries:
        first = parent.entries[key.text].key
        parent.duplicates.append(Duplicate(key.text, key.span, first))
    parent.entries[key.text] = MappingEntry(key.span, node)


def _merged(node: Node) -> list[MappingNode]:
    sources = node.items if isinstance(node, ListNode) else [node]
    if all(isinstance(source, MappingNode) for source in sources):
        return sources  # type: ignore[return-value]
    raise NotYAMLError(node.span, "<<: can only merge a mapping or a list of mappings")


def _value(event: yaml.ScalarEvent, span: Span) -> Any:
    kind = (event.tag or "").removeprefix("tag:yaml.org,2002:")
    if kind == "binary":
        return _binary(event.value, span)
    if kind in ("int", "float", "bool", "null") or (event.implicit[0] and kind != "!"):
        try:
            return plain_value(event.value)
        except NotJSONError:
            raise NotYAMLError(span, f"{event.value} is a number that JSON does not have") from None
    return event.value


def _binary(text: str, span: Span) -> str:
    try:
        return base64.b64decode(text, validate=False).decode()
    except ValueError:  # binascii.Error, not ASCII, or not UTF-8
        raise NotYAMLError(span, "!!binary must contain base64 of UTF-8 text") from None
