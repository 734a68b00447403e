"""Nesting depth of JSON: the number of lists and maps in each other, 2 for `{"a": [1]}`. Computed
without recursion, because recursion limits differ."""

import re
from array import array
from collections.abc import Iterable
from hashlib import sha256
from itertools import accumulate
from typing import Any

MAX_DEPTH = 100
"""Maximum depth of an object that admission accepts."""
READABLE_DEPTH = 500
"""Maximum depth of a stored object that is read. It exceeds MAX_DEPTH, because objects may be older
than that rule, and Python 3.11, whose recursion limit is 1,000, can process it."""
CUT_DEPTH = READABLE_DEPTH + 5
"""Maximum depth that `cut` leaves. Lists, events and reviews have two or three levels around an
object, so an object that was too deep still is."""

_NO_BRACKETS = bytes(set(range(256)) - set(b'{}[]"'))
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTED = re.compile(rb'"[^"]*"')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[}\]]', re.DOTALL)
_QUOTE = ord('"')
_OPENING = frozenset(b"{[")


def is_deeper(raw: bytes, most: int) -> bool:
    """Return whether a JSON text is deeper than `most`. Brackets in strings do not count."""
    # nearly every text, at the cost of two searches
    if raw.count(b"{") + raw.count(b"[") <= most:
        return False
    if b"\\" in raw:
        raw = _ESCAPED.sub(b"", raw)
    # a string without brackets is now a pair of quotes
    brackets = raw.translate(None, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _QUOTED.sub(b"", brackets)
    return max(accumulate(array("b", brackets.translate(_STEPS))), default=0) > most


def cut(raw: bytes, most: int = CUT_DEPTH) -> bytes:
    """Return the JSON text with lists and maps deeper than `most` replaced by strings."""
    kept: list[bytes] = []
    done = depth = begin = 0
    for token in _TOKEN.finditer(raw):
        at = token.start()
        if raw[at] == _QUOTE:
            continue
        if raw[at] in _OPENING:
            depth += 1
            if depth == most + 1:
                begin = at
            continue
        if depth == most + 1:
            # hashes, so that different values stay different
            kept += raw[done:begin], b'"%s"' % sha256(raw[begin : at + 1]).hexdigest().encode()
            done = at + 1
        depth -= 1
    kept.append(raw[done:begin] if depth > most else raw[done:])  # malformed JSON without its end
    return b"".join(kept)


def way_beyond(value: Any, most: int) -> list[str | int] | None:
    """Return the keys of the path to the first list or map deeper than `most`, or None."""
    # values with the entry of the level above that holds them, and their key
    level: list[tuple[Any, Any, str | int]] = [(value, None, "")]
    for _ in range(most):
        level = [
            (part, entry, key)
            for entry in level
            for key, part in _parts(entry[0])
            if isinstance(part, dict | list)
        ]
        if not level:
            return None
    way: list[str | int] = []
    entry = level[0]
    while entry[1] is not None:
        way.append(entry[2])
        entry = entry[1]
    return way[::-1]


def _parts(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()
