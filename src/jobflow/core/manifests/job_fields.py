"""Fields of a vcjob spec, down to its pods, and the misfits of a spec or a patch: unknown fields,
which Volcano drops, and values of pods of a wrong type (docs/decisions/job-rules.md). `crd_schema`
reports wrong types of the job's own fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from jobflow.api.crd import openapi_schema, pod_types
from jobflow.core import violations
from jobflow.core.manifests.schema_hints import JOB_WORDS, mistyped
from jobflow.core.suggest import Suggester, did_you_mean, list_supported, normalize_word

_POD_ROOTS = {
    "tasks[].template": "PodTemplateSpec",
    "volumes[].volumeClaim": "PersistentVolumeClaimSpec",
}
"""Fields of the job that have a type of Kubernetes."""
_TASK = "tasks[]"
_POD = f"{_TASK}.template.spec"
_CONTAINER = f"{_POD}.containers[]"
_PLACES = (
    "", _TASK, f"{_TASK}.template", f"{_TASK}.template.metadata", _POD, _CONTAINER,
    f"{_CONTAINER}.resources", f"{_CONTAINER}.securityContext", f"{_CONTAINER}.env[]",
    f"{_CONTAINER}.ports[]", f"{_CONTAINER}.volumeMounts[]", f"{_POD}.volumes[]",
)  # fmt: skip
"""Places to look for a misplaced field, in this order."""
_LONGEST_NAME = 63
"""Characters; longer names get no hint."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of JSON value."""

    kind: str
    """`text`, `integer`, `boolean`, `quantity`, `integer-or-text`, `words`, `list`, `map`, `object`
    or `any`."""
    inner: Type | None = None
    """Type of the elements of a list, or of the values of a map."""
    fields: Mapping[str, Type] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    """Texts that a field of kind `words` takes."""
    is_of_job: bool = False
    """Whether it is in the CRD of JobTemplates, so that `crd_schema` reports a wrong type."""


@lru_cache(maxsize=1)
def job_spec() -> Type:
    return _of_schema(openapi_schema("JobTemplate")["properties"]["spec"], "")


def claim_type() -> Type:
    return _of_pods("PersistentVolumeClaimSpec")


def place_of(path: Sequence[str | int]) -> str:
    """Return a path in a spec without its indices: `tasks[].template`."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def meant(place: str, name: str, kind: Type | None = None) -> str:
    """Return a hint for the unknown field `name` of the object at `place` (`tasks[].template`, ""
    for the spec): a clause that begins with `; `, or "". `kind`: the type of the whole value if it
    is not the spec of a vcjob."""
    # comparing it with every field would take long
    if len(name) > _LONGEST_NAME:
        return ""
    if kind is not None:
        return did_you_mean(Suggester([*_at(place, kind).fields]).nearest(name))
    return _meant(place, name)


@lru_cache(maxsize=1024)
def _meant(place: str, name: str) -> str:
    known = list(_at(place, job_spec()).fields)
    guess = Suggester(known).nearest(name)
    if guess is not None and normalize_word(guess) == normalize_word(name):
        return did_you_mean(guess)
    if (word := JOB_WORDS.get(name)) is not None:
        return f"; {_belongs(place, word)}"
    for other in _PLACES:
        if other != place and name in _at(other, job_spec()).fields:
            return f"; {_belongs(place, f'{other}.{name}' if other else name)}"
    flow_fields = openapi_schema("JobFlow")["properties"]["spec"]["properties"]
    if guess is None and name in flow_fields["flows"]["items"]["properties"]:
        return f"; it is a field of a JobFlow's step: spec.flows[].{name}"
    return did_you_mean(guess)


def _belongs(place: str, target: str) -> str:
    below = target.removeprefix(f"{place}.")
    if below != target or not place:
        return f"it belongs in {below}"
    return f"it belongs in spec.{target} of the job"


def _at(place: str, found: Type) -> Type:
    for part in place.split(".") if place else ():
        found = found.fields[part.removesuffix("[]")]
        if part.endswith("[]") and found.inner is not None:
            found = found.inner
    return found


def _of_schema(schema: Mapping[str, Any], place: str) -> Type:
    if place in _POD_ROOTS:
        return _of_pods(_POD_ROOTS[place])
    if "items" in schema:
        return Type("list", _of_schema(schema["items"], f"{place}[]"), is_of_job=True)
    if "properties" in schema:
        at = f"{place}." if place else ""
        fields = schema["properties"].items()
        inner = {name: _of_schema(below, at + name) for name, below in fields}
        return Type("object", fields=inner, is_of_job=True)
    return Type("any", is_of_job=True)


_LIST_OR_MAP = re.compile(r"\[(?P<list>.+)\]|\{(?P<map>.+)\}")


@lru_cache(maxsize=256)
def _of_pods(word: str) -> Type:
    if inner := _LIST_OR_MAP.fullmatch(word):
        assert inner.lastgroup is not None
        return Type(inner.lastgroup, _of_pods(inner[inner.lastgroup]))
    if " " in word:
        return Type("words", words=tuple(word.split()))
    declared = pod_types().get(word)
    if declared is None:
        return Type(word)
    return Type("object", fields={name: _of_pods(kind) for name, kind in declared.items()})


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


def misfits(
    spec: Any,
    path: str,
    *,
    kind: Type | None = None,
    is_open: IsOpen | None = None,
    has_directives: bool = False,
    unknown_before: int = 0,
) -> violations.Verdict:
    """Return the misfits of a vcjob spec at `path`, or of a value of another `kind`. `is_open`
    tells whether a text has a reference and so fits any type. `has_directives`: it is a patch, in
    which a key may begin with `$`. `unknown_before` counts unknown fields of earlier patches."""
    wrong: list[violations.Violation] = []
    warnings: list[violations.FieldWarning] = []
    for place, wanted, value in _list_misfits(
        spec, kind or job_spec(), is_open or (lambda text: False), has_directives=has_directives
    ):
        before = unknown_before + len(warnings)
        if wanted is None and before >= violations.MAX_FINDINGS:
            continue
        keys, at = violations.list_keys(place), violations.format_path(place, path)
        if wanted is not None:
            may_guess = len(wrong) < MAX_GUESSES
            wrong.append(_wrong_type(keys, at, wanted, value, may_guess=may_guess))
            # a refusal shows no more
            if len(wrong) == violations.MAX_FINDINGS:
                break
        else:
            # guessing compares the name with every field
            may_guess = before < MAX_GUESSES
            word = meant(place_of(keys[:-1]), str(keys[-1]), kind) if may_guess else ""
            reason = violations.Reason.FORBIDDEN
            warnings.append(violations.FieldWarning(at, UNKNOWN + word, reason))
    return violations.Verdict(tuple(wrong), field_warnings=tuple(warnings))


def _list_misfits(
    spec: Any, kind: Type, is_open: IsOpen, *, has_directives: bool
) -> Iterator[tuple[violations.Place, Type | None, Any]]:
    """Yield the place, the expected type, which is None for an unknown field, and the value."""
    work: list[tuple[Any, Type, violations.Place]] = [(spec, kind, None)]
    # level by level, so that no depth of a value meets Python's recursion limit
    for node, kind, place in work:
        children = _children(node, kind)
        if children is None:
            if not (kind.is_of_job or (isinstance(node, str) and is_open(node))):
                yield place, kind, node
            continue
        for key, value, inner in children:
            if inner is None:
                if not (has_directives and key.startswith("$")):
                    yield (place, key), None, value
            elif inner.inner is not None or inner.kind == "object":
                work.append((value, inner, (place, key)))
            elif not _FITS[inner.kind](value, inner):
                if not (isinstance(value, str) and is_open(value)):
                    yield (place, key), inner, value


def _children(node: Any, kind: Type) -> Iterable[tuple[Any, Any, Type | None]] | None:
    """Return key, value and type of each child; None for another type."""
    if kind.kind == "list":
        return ((i, v, kind.inner) for i, v in enumerate(node)) if isinstance(node, list) else None
    if not isinstance(node, dict):
        return None
    if kind.kind == "map":
        return ((k, v, kind.inner) for k, v in node.items() if v is not None)
    # a null counts as a missing field, but a field that does not exist is one in any case
    fields = kind.fields
    return ((k, v, fields.get(k)) for k, v in node.items() if v is not None or k not in fields)


def _is_integer(value: Any, kind: Type) -> bool:
    # 3.0 is an integer in JSON
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


def _wrong_type(
    keys: Sequence[str | int], at: str, kind: Type, value: Any, *, may_guess: bool
) -> violations.Violation:
    if kind.kind == "words" and isinstance(value, str):
        detail = list_supported(value if may_guess else None, kind.words)
        return violations.Violation(at, violations.Reason.NOT_SUPPORTED, value, detail)
    if kind.kind == "quantity":
        guess = ""
        if found := _ALMOST.fullmatch(value.strip()) if isinstance(value, str) else None:
            letter, binary, byte = found["letter"], found["binary"].lower(), found["byte"]
            # `500 m` is a fraction, `500 mb` is not
            if binary or byte or letter not in ("n", "u", "m"):
                letter = letter.upper()
            suffix = "k" if letter == "K" and not binary else letter + binary
            guess = found["number"] + suffix
        detail = 'must be a quantity, such as 2, "500m" or "2Gi"'
        detail += did_you_mean(guess if _QUANTITY.fullmatch(guess) else None)
        return violations.Violation(at, violations.Reason.TYPE_INVALID, value, detail)
    violation = mistyped(keys, _JSON_TYPES.get(kind.kind, kind.kind), value)
    detail = violation.detail.removeprefix(f"{violation.path} in body ")
    return replace(violation, path=at, detail=detail)
