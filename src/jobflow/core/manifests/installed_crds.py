"""Faults of the CustomResourceDefinition that an API server serves, compared with ours. One that
admits more is no fault: an older version works with a newer definition."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.api.crd import INT_OR_STRING, PRESERVED, Schema, crd
from jobflow.api.kinds import KINDS

_EITHER = "integer or string"
_ANY = "anything"
_WIDER = {"integer": ("number", _EITHER), "string": (_EITHER,)}
"""Types that admit every value of a type; all are admitted by _ANY."""
_NOT_OURS = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of an object that the API server knows by itself."""


def definition_faults(kind: str, served: Mapping[str, Any]) -> list[str]:
    """Return the faults of the definition of one of JobFlow's kinds that keep this version from
    working, a clause each, in the order of our schema. KeyError for any other kind."""
    (ours,) = crd(kind)["spec"]["versions"]
    versions = (served.get("spec") or {}).get("versions") or ()
    # other versions do not matter to this one
    theirs = next((each for each in versions if each.get("name") == ours["name"]), None)
    if theirs is None or not theirs.get("served"):
        return [f"version {ours['name']} is not served"]
    faults = []
    if "status" not in (theirs.get("subresources") or {}):
        faults.append("there is no subresource status")
    schema = (theirs.get("schema") or {}).get("openAPIV3Schema") or {}
    faults += _below(ours["schema"]["openAPIV3Schema"], schema, "")
    defaults = _defaults(schema, "", KINDS[kind].job_specs)
    return faults + [f"{path} has a default" for path in defaults]


def _faults(ours: Schema, theirs: Schema, path: str) -> Iterator[str]:
    want, have = _type(ours), _type(theirs)
    if have not in (want, _ANY, *_WIDER.get(want, ())):
        yield f"{path} is of type {have}, not {want}"
        return
    if ours.get(PRESERVED) and not theirs.get(PRESERVED):
        yield f"{path} drops what it does not name"
    if ours.get("nullable") and not theirs.get("nullable"):
        yield f"{path} takes no null"
    yield from _below(ours, theirs, path)


def _below(ours: Schema, theirs: Schema, path: str) -> Iterator[str]:
    named = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        if not path and name in _NOT_OURS:
            continue
        below = f"{path}.{name}" if path else name
        if name in named:
            yield from _faults(schema, named[name], below)
        elif not theirs.get(PRESERVED):
            yield f"{below} is missing"
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema := ours.get(keyword), dict) and not theirs.get(PRESERVED):
            inner = theirs.get(keyword)
            yield from _faults(schema, inner if isinstance(inner, dict) else {}, path + mark)


def _type(schema: Schema) -> str:
    if schema.get(INT_OR_STRING):
        return _EITHER
    return str(schema.get("type") or (_ANY if schema.get(PRESERVED) else "nothing"))


def _defaults(schema: Schema, path: str, roots: tuple[str, ...]) -> Iterator[str]:
    inside = any(
        path == root or path.startswith((f"{root}.", f"{root}[", f"{root}{{")) for root in roots
    )
    # a default in the spec of a job would become part of every job
    if inside and "default" in schema:
        yield path
    if not inside and path and not any(root.startswith(path) for root in roots):
        return
    for name, below in (schema.get("properties") or {}).items():
        yield from _defaults(below, f"{path}.{name}" if path else name, roots)
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(below := schema.get(keyword), dict):
            yield from _defaults(below, path + mark, roots)
