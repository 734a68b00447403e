"""CustomResourceDefinitions: their rules, and the kinds that they define."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import (
    Kind,
    Object,
    Projection,
    Registry,
    Rules,
    missing,
)
from jobflow.sandbox.apiserver.resources.metadata import now
from jobflow.sandbox.apiserver.resources.schema import SchemaRules
from jobflow.sandbox.apiserver.resources.table import AGE, NAME, printed
from jobflow.sandbox.apiserver.storage import ObjectChange

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a CRD until its objects are deleted."""


class DefinitionRules(Rules):
    """Rules of a CustomResourceDefinition. Its objects are served as soon as it is stored."""

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("conversion", {"strategy": "None"})
            names = spec.get("names")
            if isinstance(names, dict) and names.get("kind"):
                names.setdefault("listKind", f"{names['kind']}List")
                names.setdefault("singular", str(names["kind"]).lower())
        return []

    def begin(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        stored = (version for version in spec.get("versions") or () if version.get("storage"))
        established = ("InitialNamesAccepted", "the initial names have been accepted")
        obj["status"] = {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                _condition("Established", *established),
            ],
            "acceptedNames": spec.get("names") or {},
            "storedVersions": [version.get("name") for version in stored],
        }

    def mark(self, obj: Object) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        yield from missing(spec, "spec", "group", "scope", "names", "versions")
        yield from missing(names, "spec.names", "plural", "kind")
        if obj["metadata"]["name"] != f"{names.get('plural')}.{spec.get('group')}":
            detail = 'must be spec.names.plural+"."+spec.group'
            yield Violation("metadata.name", Reason.INVALID, obj["metadata"]["name"], detail)
        if spec.get("scope") not in ("Cluster", "Namespaced", None):
            detail = 'supported values: "Cluster", "Namespaced"'
            yield Violation("spec.scope", Reason.NOT_SUPPORTED, spec["scope"], detail)
        versions = spec.get("versions") or []
        if sum(bool(version.get("storage")) for version in versions) != 1:
            detail = "must have exactly one version marked as storage version"
            names_of_versions = [version.get("name") for version in versions]
            yield Violation("spec.versions", Reason.INVALID, names_of_versions, detail)
        for index, version in enumerate(versions):
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            where = f"spec.versions[{index}].schema.openAPIV3Schema"
            if not schema:
                yield Violation(where, Reason.REQUIRED, None, "schemas are required")
                continue
            if schema.get("type") != "object":
                detail = "must be object at the root"
                yield Violation(f"{where}.type", Reason.INVALID, schema.get("type"), detail)
            yield from _structural(schema, where)
        if spec.get("conversion", {}).get("strategy") != "None":
            detail = "this server converts by changing apiVersion alone"
            yield Violation("spec.conversion.strategy", Reason.NOT_SUPPORTED, "Webhook", detail)


def _condition(kind: str, reason: str, message: str) -> dict[str, str]:
    condition = {"type": kind, "status": "True", "lastTransitionTime": now()}
    return {**condition, "reason": reason, "message": message}


def _structural(schema: Any, path: str) -> Iterator[Violation]:
    """Yield violations of schemas that this server does not support: untyped places, and CEL."""
    if not isinstance(schema, dict):
        yield Violation(path, Reason.TYPE_INVALID, type(schema).__name__, "must be a schema")
        return
    # Accepted but not evaluated, rules would seem to hold.
    if "x-kubernetes-validations" in schema:
        detail = "this server does not evaluate CEL"
        yield Violation(f"{path}.x-kubernetes-validations", Reason.FORBIDDEN, None, detail)
    typed = ("type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not any(schema.get(word) for word in typed):
        detail = "must not be empty for specified object fields"
        yield Violation(f"{path}.type", Reason.REQUIRED, None, detail)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _structural(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _structural(schema[word], f"{path}.{word}")


def kinds_of(definition: Mapping[str, Any]) -> Iterator[Kind]:
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        name, schema = version["name"], version["schema"]["openAPIV3Schema"]
        subresources = frozenset({"status"} & set(version.get("subresources") or ()))
        columns = [
            printed(
                column["name"],
                column["type"],
                column["jsonPath"],
                column.get("priority", 0),
                column.get("description", ""),
            )
            for column in version.get("additionalPrinterColumns") or ()
        ]
        kind = Kind(
            group=group,
            version=name,
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            subresources=subresources,
            custom=True,
            generation=True,
            columns=(NAME, *(columns or [AGE])),
            rules=SchemaRules(schema, status_apart=bool(subresources)),
            openapi=schema,
        )
        if name != stored:
            shown, kept = f"{group}/{name}", f"{group}/{stored}"
            projection = Projection(show=_with_version(shown), take=_with_version(kept))
            kind = replace(kind, stored_as=kind.qualified, projection=projection)
        yield kind


def _with_version(api_version: str) -> Callable[[Object], Object]:
    return lambda obj: obj | {"apiVersion": api_version}


def update_registry(registry: Registry, crd_bucket: str, bucket: str, change: ObjectChange) -> None:
    """Serve the kinds of a definition that was written, or withdraw them if it was deleted."""
    if bucket != crd_bucket:
        return
    spec, is_gone = change.new.obj["spec"], change.type == "DELETED"
    if change.old is not None and change.old.obj["spec"] == spec and not is_gone:
        return
    # A version that is no longer served must not stay.
    registry.withdraw(spec["group"], spec["names"]["plural"])
    for kind in () if is_gone else kinds_of(change.new.obj):
        registry.serve(kind)
