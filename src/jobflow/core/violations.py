"""What is wrong with an object, as values that read like the API server's own errors.

A violation says where, what and what to do; nothing here decides whether something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import islice
from typing import Any, TypeAlias

import msgspec

MAX_FINDINGS = 1_000
"""Violations of one object after which nothing more of it is judged."""
MAX_SHOWN = 100
"""Violations that a refusal lists; the others are counted."""
MAX_QUOTED = 200
"""Characters of an offending value that a message repeats; the rest is cut, with dots."""
DOUBTS_SHOWN = 16
"""Most doubts that the warnings of one review name."""
_WORD = re.compile(r"[-$\w]+")
_KEY_END = re.compile(r"[].[]")
_MOST_ENDS = 200
"""How many dots and brackets of a path are looked at for the end of one key."""


class Reason(StrEnum):
    """The kind of a violation, as `Status.details.causes[].reason` names it.

    Source: k8s.io/apimachinery/pkg/util/validation/field, ErrorType.
    """

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    FORBIDDEN = "FieldValueForbidden"
    TYPE_INVALID = "FieldValueTypeInvalid"


_WORDS = {
    Reason.INVALID: "Invalid value",
    Reason.REQUIRED: "Required value",
    Reason.DUPLICATE: "Duplicate value",
    Reason.NOT_SUPPORTED: "Unsupported value",
    Reason.NOT_FOUND: "Not found",
    Reason.TOO_LONG: "Too long",
    Reason.TOO_MANY: "Too many",
    Reason.FORBIDDEN: "Forbidden",
    Reason.TYPE_INVALID: "Invalid value",
}

_WITHOUT_VALUE = frozenset({Reason.REQUIRED, Reason.FORBIDDEN, Reason.TOO_LONG, Reason.TOO_MANY})


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of an object."""

    path: str
    """JSON path without a leading dot: `spec.flows[2].dependsOn.targets[0]`."""
    reason: Reason
    value: Any
    """The offending value; the text leaves it out where it says nothing (Required, Forbidden,
    Too long, Too many)."""
    detail: str
    """What is wrong and what to do; may be empty where the reason says all (Duplicate)."""
    words: str = ""
    """The whole message, where it is another's; then value and detail say nothing."""

    def __str__(self) -> str:
        """`path: message`, as kubectl prints a cause; the message alone for the object itself."""
        return f"{self.path}: {self.message}" if self.path else self.message

    @property
    def message(self) -> str:
        """The text without the path: what a `StatusCause` holds."""
        if self.words:
            return self.words
        word = _WORDS[self.reason]
        if self.reason not in _WITHOUT_VALUE:
            word = f"{word}: {quote(self.value)}"
        return f"{word}: {self.detail}" if self.detail else word


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something at one place of an object that admission warns of."""

    path: str
    detail: str
    """The problem and what to do."""
    reason: Reason | None = None
    """The reason of the fault that lint makes of it; None: lint warns too."""
    value: Any = None
    """The offending value, for a fault that shows it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What admission says of an object: refused where there is a violation."""

    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is only suspicious; one sentence each, for `Warning:` headers."""
    doubts: tuple[Doubt, ...] = ()
    """Suspicions that have a place."""

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings of a review: at most DOUBTS_SHOWN of the doubts, and how many more."""
        if not self.doubts:
            return self.warnings
        shown = [str(doubt) for doubt in self.doubts[:DOUBTS_SHOWN]]
        if (more := len(self.doubts) - DOUBTS_SHOWN) > 0:
            shown.append(f"and {more} more like these")
        return (*self.warnings, *shown)


def quote(value: Any) -> str:
    """A value as JSON for a message, cut to `MAX_QUOTED` characters; never raises."""
    if isinstance(value, str):
        value = value[:MAX_QUOTED]
    try:
        text = msgspec.json.encode(value).decode()
    except RecursionError:
        text = "{…}" if isinstance(value, dict) else "[…]"
    except (TypeError, ValueError, OverflowError):
        text = msgspec.json.encode(ascii(value)).decode()
    return text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"


def join_path(path: str, key: str | int) -> str:
    """The JSON path of what is at `key` below `path`: `a.b`, `a[0]`, and `a[x.io/b]` where a map's
    key is more than a word (k8s.io/apimachinery/pkg/util/validation/field, Path)."""
    if isinstance(key, str) and _WORD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key}]"


Place: TypeAlias = "tuple[Place, str | int] | None"
"""A key or index and the place that it is in: a path that costs nothing to extend."""


def list_keys(place: Place) -> list[str | int]:
    """The keys and indices of a place, from the outermost inwards."""
    keys: list[str | int] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return keys[::-1]


def format_path(place: Place, path: str) -> str:
    """The JSON path of a place below `path`."""
    return reduce(join_path, list_keys(place), path)


def split_first_key(path: str) -> Iterator[tuple[str, str]]:
    """The keys that a JSON path below a map may begin with, longest first, each with the rest of
    the path: keys may hold dots and brackets themselves."""
    bracketed = path.startswith("[")
    bare = path[1:] if bracketed else path.removeprefix(".")
    ends = [found.start() for found in islice(_KEY_END.finditer(bare), _MOST_ENDS)]
    if not bracketed:
        ends.append(len(bare))
    for end in reversed(ends):
        if (bare[end : end + 1] == "]") == bracketed:
            yield bare[:end], bare[end + bracketed :]


def some(names: Iterable[str], shown: int = 3) -> str:
    """`a, b, c and 996 more`: at most `shown` names, in the order given."""
    listed = list(names)
    text = ", ".join(listed[:shown])
    return f"{text} and {len(listed) - shown} more" if len(listed) > shown else text
