"""Where in a pod template stands what an API server could not read. Its words name the field, but
no place in lists, or only that a quantity is none; and they name the first fault alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.core.pods.resources import parse_quantity
from jobflow.core.violations import join_path

_MISTYPED = re.compile(
    r"json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \w+\.([\w.]+) of type"
)
"""As Go's encoding/json says it; of a number that is too large or no integer it says which."""
_NO_QUANTITY = re.compile(r"\bquantit(?:y|ies)\b")
_QUANTITIES = frozenset({"limits", "requests", "overhead"})
"""Maps of quantities."""
_QUANTITY = frozenset({"sizeLimit", "divisor"})
_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def unreadable(template: Any, words: str) -> list[str]:
    """JSON paths, beginning with `template`, of all that these words hold against a template;
    the template itself where they say too little."""
    if found := _MISTYPED.search(words):
        kind, number, path = found.groups()
        fields = path.split(".")
        nodes = [("template", template)] if fields[0] == "template" else []
        for field in fields[1:]:
            nodes = [pair for path, node in nodes for pair in _under(path, node, field)]
        places = [place for path, node in nodes for place in _wrong(path, node, kind, number)]
    elif _NO_QUANTITY.search(words):
        places = [path for path, value in _quantities(template) if parse_quantity(value) is None]
    else:
        places = []
    return places or ["template"]


def _under(path: str, node: Any, field: str) -> Iterator[tuple[str, Any]]:
    """What a field is in a map, or in each map of a list."""
    for at, each in _elements(path, node) if isinstance(node, list) else [(path, node)]:
        if isinstance(each, dict) and field in each:
            yield join_path(at, field), each[field]


def _wrong(path: str, node: Any, kind: str, number: str | None) -> Iterator[str]:
    """The node, or what it holds, as far as it is of that type of JSON, or that number."""
    for at, each in ((path, node), *_elements(path, node)):
        if _TYPES.get(type(each)) == kind and number in (None, str(each)):
            yield at


def _elements(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        yield from ((join_path(path, i), each) for i, each in enumerate(node))
    elif isinstance(node, Mapping):
        yield from ((join_path(path, key), each) for key, each in node.items())


def _quantities(template: Any) -> Iterator[tuple[str, Any]]:
    """Everything that is to be a quantity, in no particular order."""
    work: list[tuple[str, Any]] = [("template", template)]
    while work:
        path, node = work.pop()
        for at, each in _elements(path, node):
            field = at.rpartition(".")[2]
            if field in _QUANTITY:
                yield at, each
            elif field in _QUANTITIES and isinstance(each, dict):
                yield from _elements(at, each)
            else:
                work.append((at, each))
