"""Holds the CustomResourceDefinition that an API server serves against what this version needs.

An API server drops, silently, what its schema does not name, and fills in what has a default: of a
flow stored under another schema nobody can tell any more what its user wrote. Fields that we do
not know are no fault, so a newer definition does not stop an older version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.api.crd import crd

Schema = Mapping[str, Any]

_PRESERVED = "x-kubernetes-preserve-unknown-fields"
_TYPES = ("type", "format", "x-kubernetes-int-or-string")
_NOT_OURS = frozenset({"apiVersion", "kind", "metadata"})
"""Of the whole object; the API server knows these itself."""
JOB_SPECS = frozenset(
    {"spec.flows[].patch.jobSpec", "spec.flows[].patch.spec"}
)


def definition_faults(kind: str, served: Mapping[str, Any]) -> list[str]:
    """Each thing about the definition of `JobFlow` or `JobTemplate` (an object of
    `apiextensions.k8s.io/v1`) with which this version cannot work, a clause each; the fields in the
    order of our schema. KeyError for any other kind."""
    (ours,) = crd(kind)["spec"]["versions"]
    versions = (served.get("spec") or {}).get("versions") or ()
    theirs = next((each for each in versions if each.get("name") == ours["name"]), None)
    if theirs is None or not theirs.get("served"):
        return [f"version {ours['name']} is not served"]
    faults = []
    if "status" not in (theirs.get("subresources") or {}):
        faults.append("there is no subresource status")
    schema = (theirs.get("schema") or {}).get("openAPIV3Schema") or {}
    return faults + list(_faults(kind, ours["schema"]["openAPIV3Schema"], schema))


def _faults(kind: str, ours: Schema, theirs: Schema) -> Iterator[str]:
    if theirs.get(_PRESERVED):
        yield from _of_properties(ours, theirs, "")
