"""Locates the values of a pod template that an API server could not decode.

Its message names at most the field of the first fault, without indexes of lists.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.core.pods.resources import parse_quantity
from jobflow.core.violations import join_path

_MISTYPED = re.compile(
    r"json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \w+\.([\w.]+) of type"
)
"""A message of Go's encoding/json, with the number if it is too large or not an integer."""
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


def decode_error_paths(template: Any, message: str) -> list[str]:
    """Return the paths of all values that may be meant; only `template` if none is found."""
    if found := _MISTYPED.search(message):
        kind, number, path = found.groups()
        fields = path.split(".")
        nodes = [("template", template)] if fields[0] == "template" else []
        for field in fields[1:]:
            nodes = [pair for path, node in nodes for pair in _under(path, node, field)]
        places = [place for path, node in nodes for place in _mistyped(path, node, kind, number)]
    elif _NO_QUANTITY.search(message):
        places = [path for path, value in _quantities(template) if parse_quantity(value) is None]
    else:
        places = []
    return places or ["template"]


def _under(path: str, node: Any, field: str) -> Iterator[tuple[str, Any]]:
    for at, each in _elements(path, node) if isinstance(node, list) else [(path, node)]:
        if isinstance(each, dict) and field in each:
            yield join_path(at, field), each[field]


def _mistyped(path: str, node: Any, kind: str, number: str | None) -> Iterator[str]:
    for at, each in ((path, node), *_elements(path, node)):
        if _TYPES.get(type(each)) == kind and number in (None, str(each)):
            yield at


def _elements(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        yield from ((join_path(path, i), each) for i, each in enumerate(node))
    elif isinstance(node, Mapping):
        yield from ((join_path(path, key), each) for key, each in node.items())


def _quantities(template: Any) -> Iterator[tuple[str, Any]]:
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
