"""JSON values: copies, walks, equality and differences, without recursion."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from jobflow.core.violations import Place, join_path


def copy_json(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of a JSON object."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(spec)
        return found
    except RecursionError:  # it is nested deeper than C follows
        root = dict(spec)
    for _, inner in walk(root):
        if isinstance(inner, dict | list):
            for key, value in inner.items() if isinstance(inner, dict) else enumerate(inner):
                inner[key] = value.copy() if isinstance(value, dict | list) else value
    return root


def walk(value: Any) -> Iterator[tuple[Place, Any]]:
    """Yield a JSON value and all values in it, with their places, each map or list before what it
    holds then: the caller may change it."""
    pending: list[tuple[Place, Any]] = [(None, value)]
    while pending:
        place, inner = pending.pop()
        yield place, inner
        # reversed, because the last one is popped first
        if isinstance(inner, dict):
            pending += [((place, key), each) for key, each in reversed(inner.items())]
        elif isinstance(inner, list):
            pending += [((place, i), inner[i]) for i in reversed(range(len(inner)))]


def maps(value: Any) -> list[dict[str, Any]]:
    """Return the maps in a list; empty for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def map_at(value: Any, *keys: str) -> dict[str, Any] | None:
    """Return the map at these keys, one below the other, or None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def count_values(text: bytes) -> int:
    """Return about how many values a JSON text has, quickly: signs in strings count too."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def is_same_json(old: Any, new: Any) -> bool:
    """Return whether two values are the same JSON in any order of keys and to any depth. Unlike for
    `==`, true is not 1. A null is not the same as a missing key."""
    # nearly all equal values have their keys in the same order
    try:
        is_same = msgspec.json.encode(old) == msgspec.json.encode(new)
    except RecursionError:
        is_same = False
    return is_same or next(find_differences("", old, new), None) is None


def find_differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the JSON paths at which two values differ, as deep as they have the same shape."""
    work = [(path, old, new)]
    while work:
        path, old, new = work.pop()
        if old is new:
            continue
        before, after = _get_parts(old), _get_parts(new)
        if before is None or after is None or type(old) is not type(new):
            if type(old) is not type(new) or old != new:
                yield path
        elif isinstance(old, list) and len(before) != len(after):
            yield path
        else:
            for key in reversed(dict.fromkeys(chain(before, after))):
                inner = join_path(path, key)
                work.append((inner, before.get(key, _MISSING), after.get(key, _MISSING)))


def find_missing(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the JSON paths at which `old` has a value and `new` has none or null."""
    work = [(path, old, new)]
    while work:
        path, old, new = work.pop()
        if old is None or old is new:
            continue
        if new is None:
            yield path
        elif (before := _get_parts(old)) is not None and (after := _get_parts(new)) is not None:
            work += [
                (join_path(path, key), before[key], after.get(key)) for key in reversed(before)
            ]


def _get_parts(value: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a value by key or index, or None for a scalar."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return dict(enumerate(value))
    if isinstance(value, msgspec.Struct):
        fields = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {key: getattr(value, field) for key, field in fields}
    return None


_MISSING = object()
