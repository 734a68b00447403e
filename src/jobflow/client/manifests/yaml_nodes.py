"""YAML documents as nodes with their places, from libyaml's events and within limits: PyYAML's own
composer drops duplicate keys, follows aliases without end and recurses without bound."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from jobflow.api.nesting import MAX_DEPTH
from jobflow.client.manifests.yaml_errors import NotYAMLError, Span, from_libyaml, invalid_character
from jobflow.client.manifests.yaml_scalars import NotJSONError, Scalar, key_text, plain_value

MAX_NODES = 500_000
"""Most values in one text, with those of aliases. A flow of 5,000 steps has about 50,000."""
MAX_DOCUMENTS = 10_000
"""Most documents in one text; to write a hundred thousand takes longer than to read them."""
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_DOCUMENT_START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_NOTHING_YET = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)|%[^\n]*(?:\n|\Z))*")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab]..)\\u(d[c-f]..)", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class ScalarNode:
    span: Span
    value: Any
    size: int = 1
    depth: int = 0


@dataclass(slots=True, eq=False)
class _Collection:
    span: Span
    size: int = 1
    """Nodes in it, with itself; an alias counts as all its values."""
    depth: int = 1

    def count(self, node: Node) -> None:
        self.size += node.size
        self.depth = max(self.depth, node.depth + 1)


@dataclass(slots=True, eq=False)
class ListNode(_Collection):
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MappingEntry:
    """The place of a key of a mapping, and its value."""

    key: Span
    value: Node
    misread: str = ""
    """The key as written, such as `N`, if YAML reads it as true or false; else empty."""


@dataclass(slots=True)
class Duplicate:
    """A repeated key: its place and that of the first one."""

    key: str
    again: Span
    first: Span


@dataclass(slots=True, eq=False)
class MappingNode(_Collection):
    """A mapping with text keys and resolved merge keys; the last of repeated keys is used."""

    entries: dict[str, MappingEntry] = field(default_factory=dict)
    duplicates: list[Duplicate] = field(default_factory=list)


Node = ScalarNode | ListNode | MappingNode


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as libyaml counts them."""
    return _LINE_BREAK.split(text)


def documents(
    text: str, read_plain: Callable[[str], Scalar] = plain_value
) -> Iterator[Node | NotYAMLError]:
    """Return each document of a text or its error, without empty documents, as kubectl does. No
    text raises. `read_plain` returns the value of a scalar without quotes."""
    if (error := invalid_character(text, _LINE_BREAK)) is not None:
        yield error
        return
    # only JSON writes a character as two escapes
    if text.lstrip().startswith(("{", "[", '"')):
        text = _SURROGATES.sub(_joined_escape, text)
    nodes_left = MAX_NODES
    # document by document, so that one that cannot be read hides no other
    for number, (first_line, chunk) in enumerate(_chunks(text)):
        if number == MAX_DOCUMENTS:
            many = f"more than {MAX_DOCUMENTS:,} documents; split the file"
            yield NotYAMLError(Span(first_line + 1, 1), many)
            return
        composer = _Composer(chunk, first_line, nodes_left, read_plain)
        found: list[Node | NotYAMLError] = []
        fault: NotYAMLError | None = None
        try:
            for node in composer.documents():
                found.append(node)  # noqa: PERF402  # keeps the documents before an error
        except yaml.MarkedYAMLError as failed:
            fault = from_libyaml(failed, first_line, lines_of(chunk))
        except NotYAMLError as failed:
            fault = failed
        if fault is not None:  # a scalar before it was part of the unreadable text
            found = [*(node for node in found if not isinstance(node, ScalarNode)), fault]
        yield from found
        nodes_left = composer.nodes_left
        # the limit is one for the whole text
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
        # directives and comments belong to the document behind them
        if not _NOTHING_YET.fullmatch(text, starts[-1], match.start()):
            starts.append(match.start())
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        chunk = text[start:end]
        yield line, chunk
        line += len(_LINE_BREAK.findall(chunk))


class _Composer:
    """Builds the nodes of one text from its events."""

    def __init__(
        self, text: str, first_line: int, nodes_left: int, read_plain: Callable[[str], Scalar]
    ) -> None:
        self.nodes_left = nodes_left
        self._first_line = first_line
        self._read_plain = read_plain
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CLoader)
        self._anchors: dict[str | None, Node | None] = {}
        """None while the value is not complete."""

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                node = self._node(next(self._events), 0)
                if not (isinstance(node, ScalarNode) and node.value is None):
                    yield node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        """Return the node that begins with an event. `depth` counts the nodes around it."""
        span = self._span(event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise NotYAMLError(span, f"*{event.anchor} has no anchor above it")
            if (aliased := self._anchors[event.anchor]) is None:
                raise NotYAMLError(span, f"the value of anchor &{event.anchor} contains itself")
            # aliases of aliases grow exponentially, and their nodes are copied later
            self._spend(aliased.size, span)
            self._check_depth(depth + aliased.depth, span)
            return aliased
        self._spend(1, span)
        if isinstance(event, yaml.ScalarEvent):
            node: Node = ScalarNode(span, _value(event, span, self._read_plain))
        else:
            assert isinstance(event, yaml.CollectionStartEvent)
            self._check_depth(depth + 1, span)
            self._anchors[event.anchor] = None
            is_list = isinstance(event, yaml.SequenceStartEvent)
            node = self._list(span, depth + 1) if is_list else self._mapping(span, depth + 1)
        self._anchors[event.anchor] = node
        return node

    def _list(self, span: Span, depth: int) -> ListNode:
        made = ListNode(span)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            made.items.append(item := self._node(event, depth))
            made.count(item)
        return made

    def _mapping(self, span: Span, depth: int) -> MappingNode:
        made, merges = MappingNode(span), list[MappingNode]()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            is_merge = (
                isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            )
            key, place, misread = ("", span, "") if is_merge else self._key(event, depth)
            value = self._node(next(self._events), depth)
            made.count(value)
            if is_merge:
                for each in value.items if isinstance(value, ListNode) else [value]:
                    if not isinstance(each, MappingNode):
                        why = "<<: can only merge a mapping or a list of mappings"
                        raise NotYAMLError(value.span, why)
                    merges.append(each)
                continue
            if key in made.entries:
                made.duplicates.append(Duplicate(key, place, made.entries[key].key))
            made.entries[key] = MappingEntry(place, value, misread)
        for merged in merges:  # the mapping's own keys win, then those of earlier merges
            for key, entry in merged.entries.items():
                made.entries.setdefault(key, entry)
        return made

    def _key(self, event: yaml.Event, depth: int) -> tuple[str, Span, str]:
        """Return a key, its place and, if it is a boolean, the text that was written."""
        if isinstance(event, yaml.MappingStartEvent):
            braces = "a key must be text; render {{ … }} of a Helm or Jinja template first"
            raise NotYAMLError(self._span(event), braces)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        node = None if is_list else self._node(event, depth)
        text = key_text(node.value) if isinstance(node, ScalarNode) else None
        if text is None:
            raise NotYAMLError(self._span(event), "a key must be text")
        # `on:` and `y:` are keys that users mean as text
        is_boolean = isinstance(node, ScalarNode) and isinstance(node.value, bool)
        written = event.value if is_boolean and isinstance(event, yaml.ScalarEvent) else text
        return text, self._span(event), written if written != text else ""

    def _span(self, event: yaml.Event) -> Span:
        start, end = event.start_mark, event.end_mark
        assert start is not None and end is not None, "libyaml marks every event"
        # a span is on one line
        width = end.column - start.column if end.line == start.line else 1
        return Span(self._first_line + start.line + 1, start.column + 1, max(width, 1))

    def _spend(self, nodes: int, span: Span) -> None:
        self.nodes_left -= nodes
        if self.nodes_left < 0:
            raise NotYAMLError(span, f"more than {MAX_NODES:,} values, with those of aliases")

    def _check_depth(self, depth: int, span: Span) -> None:
        if depth > MAX_DEPTH:
            raise NotYAMLError(span, f"nested more than {MAX_DEPTH} deep")


def _value(event: yaml.ScalarEvent, span: Span, read_plain: Callable[[str], Scalar]) -> Any:
    kind = (event.tag or "").removeprefix("tag:yaml.org,2002:")
    if kind == "binary":
        try:
            return base64.b64decode(event.value, validate=False).decode()
        except ValueError:  # binascii.Error, not ASCII, or not UTF-8
            raise NotYAMLError(span, "!!binary must contain base64 of UTF-8 text") from None
    if kind in ("int", "float", "bool", "null") or (event.implicit[0] and kind != "!"):
        try:
            return read_plain(event.value)
        except NotJSONError:
            raise NotYAMLError(span, f"{event.value} is a number that JSON does not have") from None
    return event.value
