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
MAX_FIELD_WARNINGS = 16
"""Field warnings that one review names; the others are counted."""
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
            word = f"{word}: {quoted(self.value)}"
        return f"{word}: {self.detail}" if self.detail else word


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """A warning about one field of an object."""

    path: str
    detail: str
    """The problem and what to do."""
    reason: Reason | None = None
    """The reason if `jobflow lint` reports it as a fault; None if lint warns too."""
    value: Any = None
    """The offending value, for a fault that shows it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What admission says of an object: refused where there is a violation."""

    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    """Suspicious but legal; one sentence each, for `Warning:` headers."""
    field_warnings: tuple[FieldWarning, ...] = ()

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """All warnings of a review: at most MAX_FIELD_WARNINGS with a field, and how many more."""
        if not self.field_warnings:
            return self.warnings
        shown = [str(warning) for warning in self.field_warnings[:MAX_FIELD_WARNINGS]]
        if (more := len(self.field_warnings) - MAX_FIELD_WARNINGS) > 0:
            shown.append(f"and {more} more like these")
        return (*self.warnings, *shown)


def quoted(value: Any) -> str:
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


def below(path: str, key: str | int) -> str:
    """The JSON path of what is at `key` below `path`: `a.b`, `a[0]`, and `a[x.io/b]` where a map's
    key is more than a word (k8s.io/apimachinery/pkg/util/validation/field, Path)."""
    if isinstance(key, str) and _WORD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key}]"


Place: TypeAlias = "tuple[Place, str | int] | None"
"""A key or index and the place that it is in: a path that costs nothing to extend."""


def keys_of(place: Place) -> list[str | int]:
    """The keys and indices of a place, from the outermost inwards."""
    keys: list[str | int] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return keys[::-1]


def path_of(place: Place, path: str) -> str:
    """The JSON path of a place below `path`."""
    return reduce(below, keys_of(place), path)


def beginnings(path: str) -> Iterator[tuple[str, str]]:
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
