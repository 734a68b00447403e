"""Fields of a vcjob spec, down to its pods, and the right place of a misplaced field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jobflow.api.schema.crd import openapi_schema
from jobflow.api.schema.pod_types import POD_TYPES
from jobflow.core.manifests.schema_hints import JOB_WORDS
from jobflow.core.suggest import Suggester, did_you_mean, normalize_word

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
    """Fields of an object."""
    words: tuple[str, ...] = ()
    """Texts that a field of kind `words` takes."""
    is_of_job: bool = False
    """Whether it is in the CRD of JobTemplates, so that `crd_schema` reports a wrong type."""

    @property
    def is_leaf(self) -> bool:
        """Whether it has no fields or elements below it."""
        return self.inner is None and self.kind != "object"


@lru_cache(maxsize=1)
def job_spec() -> Type:
    """Return the type of a vcjob spec."""
    return _of_schema(openapi_schema("JobTemplate")["properties"]["spec"], "")


def claim_type() -> Type:
    """Return the type of the spec of a PersistentVolumeClaim."""
    return _of_pods("PersistentVolumeClaimSpec")


def place_of(path: Sequence[str | int]) -> str:
    """Return a path in a spec without its indices: `tasks[].template`."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def meant(place: str, name: str, kind: Type | None = None) -> str:
    """Return the field that a user meant by the unknown `name` of the object at `place`
    (`tasks[].template`, "" for the spec): a clause that begins with `; `, or "". `kind`: the type
    of the whole value if it is not the spec of a vcjob."""
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
    declared = _pod_types().get(word)
    if declared is None:
        return Type(word)
    return Type("object", fields={name: _of_pods(kind) for name, kind in declared.items()})


@lru_cache(maxsize=1)
def _pod_types() -> Mapping[str, Mapping[str, str]]:
    types = {}
    for paragraph in POD_TYPES.replace("\n  ", " ").splitlines():
        name, _, fields = paragraph.partition(": ")
        types[name] = dict(field.split(" ", 1) for field in fields.split(", "))
    return types
