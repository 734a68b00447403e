"""Values with every field of a vcjob and of its pods, and all changes of one field of them.

The fields come from the types of `api/volcano/job.py` and from the table of Kubernetes' pod types,
so that a new field is there by itself.
"""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from jobflow.api.crd import pod_types
from jobflow.api.flow.traits import fields_of
from jobflow.api.volcano.job import JobSpec

Path = tuple[str | int, ...]
OPAQUE = {"template": "PodTemplateSpec", "volumeClaim": "PersistentVolumeClaimSpec"}
"""The pod types of the fields that a vcjob's schema leaves open."""
UNKNOWN = "fieldOfTomorrow"
"""A field that no type has."""


def whole_job() -> dict[str, Any]:
    """Return the spec of a vcjob in which every field has a value, of every list one entry."""
    made = _struct(JobSpec)
    assert isinstance(made, dict)
    return made


def _struct(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.json: _of_pod(OPAQUE[field.json])
        if field.json in OPAQUE
        else _of_hint(hints[field.name])
        for field in fields_of(kind)
    }


def _of_hint(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        return _of_hint(next(each for each in get_args(hint) if each is not type(None)))
    inner = get_args(hint)
    if get_origin(hint) is list:
        return [_of_hint(inner[0])]
    if get_origin(hint) is dict:
        return {"key": _of_hint(inner[1])}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    return {str: "text", int: 1, bool: True}[hint]


def _of_pod(word: str) -> Any:
    if word.startswith("["):
        return [_of_pod(word[1:-1])]
    if word.startswith("{"):
        return {"key": _of_pod(word[1:-1])}
    if (fields := pod_types().get(word)) is not None:
        return {name: _of_pod(inner) for name, inner in fields.items()}
    plain = {"integer": 1, "boolean": True, "quantity": "1", "any": "any", "integer-or-text": 1}
    return plain.get(word, "text" if word == "text" else word.split(" ")[0])


def changes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every change of one place in a JSON value, with its path: another value, a field or an
    entry less, an entry or an unknown field more."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*path, key), {each: value[each] for each in value if each != key}
            for where, changed in changes(inner, (*path, key)):
                yield where, {**value, key: changed}
        yield (*path, UNKNOWN), {**value, UNKNOWN: 1}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for where, changed in changes(inner, (*path, index)):
                yield where, [*value[:index], changed, *value[index + 1 :]]
        yield (*path, len(value)), [*value, *value]
    else:
        yield path, f"{value}-changed" if isinstance(value, str) else not value


def plain(path: Path) -> str:
    """Return the path of a field without the places in lists."""
    return ".".join(str(each) for each in path if isinstance(each, str))
