"""Places in manifests: all of one, and the one that a violation names."""

import copy
import re
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]

_KEY = re.compile(r"\[(?P<index>\d+)\]|\[(?P<key>[^\]]*)\]|\.?(?P<word>[^.\[\]]+)")


def has_place(node: Any, path: str) -> bool:
    """Return whether the object or list exists that holds the value at a JSON path."""
    keys: list[str | int] = [
        int(it["index"]) if it["index"] else it[it.lastgroup or 0] for it in _KEY.finditer(path)
    ]
    for key in keys[:-1]:
        if isinstance(key, int):
            if not isinstance(node, list) or key >= len(node):
                return False
        elif not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return isinstance(node, list if isinstance(keys[-1], int) else dict)


def places_below(node: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the places of all fields and elements, however deep."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places_below(value, (*at, key))


def with_value(manifest: Any, at: Place, value: Any) -> Any:
    """Return a copy of a manifest with this value at one place."""
    made = copy.deepcopy(manifest)
    node = made
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return made
