"""Violations and warnings of admission, in the format of the API server's own errors."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import islice
from typing import Any, TypeAlias

import msgspec

MAX_FINDINGS = 1_000
"""Violations of one object, after which validation stops."""
MAX_SHOWN = 100
"""Violations in a refusal; others are counted."""
MAX_QUOTED = 200
"""Characters of an invalid value in a message, which is cut with an ellipsis."""
MAX_FIELD_WARNINGS = 16
"""Field warnings in the answer to a review; others are counted."""
_WORD = re.compile(r"[-$\w]+")
_KEY_END = re.compile(r"[].[]")
_MAX_ENDS = 200
"""Dots and brackets of a path at which one key may end."""


class Reason(StrEnum):
    """Reason of a cause in a Status (k8s.io/apimachinery/pkg/util/validation/field, ErrorType)."""

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
    """The invalid value, which messages of Required, Forbidden, Too long and Too many omit."""
    detail: str
    """The problem and what to do; may be empty if the reason is enough (Duplicate)."""
    words: str = ""
    """The whole message, if it is that of an API server; value and detail are then unused."""

    def __str__(self) -> str:
        """Return `path: message`, as kubectl prints a cause; only the message without a path."""
        return f"{self.path}: {self.message}" if self.path else self.message

    @property
    def message(self) -> str:
        """The text without the path, as in a `StatusCause`."""
        if self.words:
            return self.words
        word = _WORDS[self.reason]
        if self.reason not in _WITHOUT_VALUE:
            word = f"{word}: {quote(self.value)}"
        return f"{word}: {self.detail}" if self.detail else word


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """A suspicious value at one field of an object, for a warning."""

    path: str
    detail: str
    """The problem and what to do."""
    reason: Reason | None = None
    """The reason with which `jobflow lint` reports a violation instead; None: lint warns too."""
    value: Any = None
    """The value for that violation."""

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of admission: an object with violations is refused."""

    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for `Warning:` headers."""
    field_warnings: tuple[FieldWarning, ...] = ()
    """Warnings with a place."""

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """All warnings of a review, with at most MAX_FIELD_WARNINGS field warnings."""
        if not self.field_warnings:
            return self.warnings
        shown = [str(warning) for warning in self.field_warnings[:MAX_FIELD_WARNINGS]]
        if (more := len(self.field_warnings) - MAX_FIELD_WARNINGS) > 0:
            shown.append(f"and {more} more like these")
        return (*self.warnings, *shown)


def quote(value: Any) -> str:
    """Return a value as JSON for a message, cut to `MAX_QUOTED` characters; never raises."""
    # before it is encoded, because a text may have megabytes
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
    """Return the JSON path of a key: `a.b`, `a[0]`, or `a[x.io/b]` if the key is not a word
    (k8s.io/apimachinery/pkg/util/validation/field, Path)."""
    if isinstance(key, str) and _WORD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key}]"


Place: TypeAlias = "tuple[Place, str | int] | None"
"""A path as a linked list, which is cheap to extend: the outer place, and a key or index in it."""


def list_keys(place: Place) -> list[str | int]:
    """Return the keys and indices of a place, the outermost first."""
    keys: list[str | int] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return keys[::-1]


def format_path(place: Place, path: str) -> str:
    return reduce(join_path, list_keys(place), path)


def split_first_key(path: str) -> Iterator[tuple[str, str]]:
    """Yield each first key that a JSON path below a map may have, longest first, with the rest of
    the path. Several are possible because keys may contain dots and brackets."""
    bracketed = path.startswith("[")
    bare = path[1:] if bracketed else path.removeprefix(".")
    ends = [found.start() for found in islice(_KEY_END.finditer(bare), _MAX_ENDS)]
    if not bracketed:
        ends.append(len(bare))
    for end in reversed(ends):
        if (bare[end : end + 1] == "]") == bracketed:
            yield bare[:end], bare[end + bracketed :]
