"""Misfits of a vcjob spec or a patch: unknown fields, and values of pods with a wrong type.

Volcano refuses a wrong type and drops an unknown field (docs/decisions/job-rules.md).
`crd_schema` reports wrong types of the job's own fields.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from jobflow.core.manifests.crd_schema import mistyped
from jobflow.core.manifests.job_fields import Type, job_spec, meant, place_of
from jobflow.core.suggest import did_you_mean, list_supported
from jobflow.core.violations import (
    MAX_FINDINGS,
    FieldWarning,
    Place,
    Reason,
    Verdict,
    Violation,
    format_path,
    list_keys,
)

MAX_GUESSES = 100
"""Guesses of unknown fields, and of unknown words, for one object."""
UNKNOWN = "unknown field"
_QUANTITY = re.compile(
    r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))?"
)
"""Pattern of quantities in Volcano's definition of the vcjob."""
_ALMOST = re.compile(
    r"(?P<number>[-+]?[0-9.]+)\s*(?P<letter>[numkgtpe]?)(?P<binary>i?)(?P<byte>b?)", re.IGNORECASE
)
"""A number and a suffix in any case, with or without a space and a B."""

IsOpen = Callable[[str], bool]


class Misfit(NamedTuple):
    """A field or value that its type does not have."""

    place: Place
    type: Type | None
    """Expected type; None: the field does not exist."""
    value: Any


def misfits(
    spec: Any,
    path: str,
    *,
    kind: Type | None = None,
    is_open: IsOpen | None = None,
    has_directives: bool = False,
    unknown_before: int = 0,
) -> Verdict:
    """Return the misfits of a vcjob spec at `path`, or of a value of another `kind`, in linear
    time. `is_open` tells whether a text has a reference and so fits any type. `has_directives`: it
    is a patch, in which a key may begin with `$`.
    `unknown_before` counts earlier patches."""
    violations: list[Violation] = []
    warnings: list[FieldWarning] = []
    for found in _list_misfits(
        spec, kind or job_spec(), is_open or (lambda text: False), has_directives=has_directives
    ):
        if found.type is not None:
            may_guess = len(violations) < MAX_GUESSES
            violations.append(_wrong_type(found, found.type, path, guess=may_guess))
            # a refusal shows no more
            if len(violations) == MAX_FINDINGS:
                break
        elif (before := unknown_before + len(warnings)) < MAX_FINDINGS:
            keys = list_keys(found.place)
            word = ""
            if before < MAX_GUESSES:
                word = meant(place_of(keys[:-1]), str(keys[-1]), kind)
            at = format_path(found.place, path)
            warnings.append(FieldWarning(at, UNKNOWN + word, Reason.FORBIDDEN))
    return Verdict(tuple(violations), field_warnings=tuple(warnings))


def _list_misfits(
    spec: Any, kind: Type, is_open: IsOpen, *, has_directives: bool
) -> Iterator[Misfit]:
    work: list[tuple[Any, Type, Place]] = [(spec, kind, None)]
    for node, kind, place in work:  # grows as it goes, level by level
        children = _children(node, kind)
        if children is None:
            if not (kind.is_of_job or (isinstance(node, str) and is_open(node))):
                yield Misfit(place, kind, node)
            continue
        for key, value, inner in children:
            if inner is None:
                if not (has_directives and key.startswith("$")):
                    yield Misfit((place, key), None, value)
            elif not inner.is_leaf:
                work.append((value, inner, (place, key)))
            elif not _FITS[inner.kind](value, inner):
                if not (isinstance(value, str) and is_open(value)):
                    yield Misfit((place, key), inner, value)


def _children(node: Any, kind: Type) -> Iterable[tuple[Any, Any, Type | None]] | None:
    """Return key, value and type of each child; None for another type. A null counts as missing."""
    if kind.kind == "list":
        return ((i, v, kind.inner) for i, v in enumerate(node)) if isinstance(node, list) else None
    if not isinstance(node, dict):
        return None
    if kind.kind == "map":
        return ((k, v, kind.inner) for k, v in node.items() if v is not None)
    fields = kind.fields
    return ((k, v, fields.get(k)) for k, v in node.items() if v is not None or k not in fields)


def _is_integer(value: Any, kind: Type) -> bool:
    """Whether a value is an integer in JSON; `3.0` is one."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[Any, Type], bool]] = {
    "any": lambda value, kind: True,
    "boolean": lambda value, kind: isinstance(value, bool),
    "integer": _is_integer,
    "integer-or-text": lambda value, kind: isinstance(value, str) or _is_integer(value, kind),
    "quantity": lambda value, kind: (
        _QUANTITY.fullmatch(value.strip()) is not None
        if isinstance(value, str)
        else isinstance(value, int | float) and not isinstance(value, bool)
    ),
    "text": lambda value, kind: isinstance(value, str),
    "words": lambda value, kind: value in kind.words if value else value == "",
}
"""Whether a value fits a leaf type. An empty word counts as not set."""
_JSON_TYPES = {
    "integer-or-text": "integer,string",
    "list": "array",
    "map": "object",
    "text": "string",
    "words": "string",
}
"""Our types -> the API server's words, if they differ."""


def _wrong_type(found: Misfit, kind: Type, path: str, *, guess: bool) -> Violation:
    at, value = format_path(found.place, path), found.value
    if kind.kind == "words" and isinstance(value, str):
        detail = list_supported(value if guess else None, kind.words)
        return Violation(at, Reason.NOT_SUPPORTED, value, detail)
    if kind.kind == "quantity":
        guessed = _meant_quantity(value.strip()) if isinstance(value, str) else None
        detail = 'must be a quantity, such as 2, "500m" or "2Gi"' + did_you_mean(guessed)
        return Violation(at, Reason.TYPE_INVALID, value, detail)
    violation = mistyped(list_keys(found.place), _JSON_TYPES.get(kind.kind, kind.kind), value)
    detail = violation.detail.removeprefix(f"{violation.path} in body ")
    return replace(violation, path=at, detail=detail)


def _meant_quantity(text: str) -> str | None:
    """Return how to write a quantity: `2 GB` is `2G`."""
    found = _ALMOST.fullmatch(text)
    if found is None:
        return None
    letter, binary, byte = found["letter"], found["binary"].lower(), found["byte"]
    if binary or byte or letter not in ("n", "u", "m"):  # `500 m` is a fraction, `500 mb` is not
        letter = letter.upper()
    suffix = "k" if letter == "K" and not binary else letter + binary
    quantity = found["number"] + suffix
    return quantity if _QUANTITY.fullmatch(quantity) else None
