"""Manifests of JobFlow's kinds as typed objects, with the faults of their schema.

A value of the wrong type is left out, and a misspelt key is read by its right name, so that the
rules can check the rest.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.kinds import KINDS, FlowObject
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.core.admission.object_names import name_violations
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.suggest import Suggester, list_supported
from jobflow.core.violations import Reason, Violation

API_VERSION = JOBFLOWS.api_version

_UNKNOWN_FIELD = "unknown field"
_EXPECTS_TEXT = "must be of type string"
_MEANT = re.compile(r'; did you mean "([^"]+)"\?$')
_ROUNDS = 5
"""Levels of misspelt keys below misspelt keys that are mended."""


@dataclass(frozen=True, slots=True)
class TypedManifest:
    """A manifest of one of JobFlow's kinds."""

    manifest: Manifest
    kind: str
    violations: list[Violation]
    """Faults of kind, apiVersion, schema and metadata."""
    object: FlowObject | None
    """The mended object; None if it cannot be mended."""


def to_typed(manifest: Manifest) -> TypedManifest | None:
    """Return the manifest as one of JobFlow's kinds, or None if it is of another kind."""
    kind, violations = _kind(manifest)
    if kind is None:
        if not violations:
            return None
        return TypedManifest(manifest, str(manifest.kind or ""), violations, None)
    data = data_of(manifest.node) | {"apiVersion": API_VERSION, "kind": kind}
    data.pop("status", None)  # the server's; `kubectl get -o yaml` prints it too
    violations += _mended_violations(manifest, kind, data)
    violations += _metadata_violations(kind, data)
    try:
        typed = msgspec.convert(without_nulls(kind, data), KINDS[kind].object_type)
    except msgspec.ValidationError as error:
        typed = None
        if not violations:
            violations.append(Violation("", Reason.TYPE_INVALID, kind, str(error)))
    return TypedManifest(manifest, kind, violations, typed)


def is_about_key(violation: Violation) -> bool:
    """Whether a violation is about a key itself and not about its value."""
    return violation.detail.startswith(_UNKNOWN_FIELD)


def meant_key(violation: Violation) -> str | None:
    """Return the key that a violation about a misspelt key suggests, if it does."""
    meant = _MEANT.search(violation.detail) if is_about_key(violation) else None
    return meant[1] if meant is not None else None


def _kind(manifest: Manifest) -> tuple[str | None, list[Violation]]:
    """Return the kind, mended if it is misspelt, and the faults of kind and apiVersion."""
    kind, version = manifest.kind, manifest.api_version
    violations = []
    meant = kind if isinstance(kind, str) and kind in KINDS else None
    if meant is None:
        # other kinds may be in FILEs too: they are not checked
        is_ours = not isinstance(kind, str) or not kind or str(version).split("/")[0] == FLOW_GROUP
        guess = Suggester(list(KINDS)).nearest(kind) if isinstance(kind, str) else None
        if guess and (is_ours or guess.casefold() == kind.casefold()):
            meant = guess  # in another group only the letter case may be wrong
        elif not is_ours:
            return None, []
        reason = Reason.NOT_SUPPORTED if kind else Reason.REQUIRED
        violations.append(Violation("kind", reason, kind, list_supported(kind, KINDS)))
    if meant and version != API_VERSION:
        reason = Reason.NOT_SUPPORTED if version else Reason.REQUIRED
        detail = f"for a {meant} write {API_VERSION}"
        violations.append(Violation("apiVersion", reason, version, detail))
    return meant, violations


def _metadata_violations(kind: str, data: dict[str, Any]) -> Iterator[Violation]:
    """Return the faults that an API server finds before the webhook, which checks flows' names."""
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = metadata.get("name")
    if kind == "JobTemplate" and not name and not metadata.get("generateName"):
        detail = "a JobTemplate has a name, by which steps refer to it"
        yield Violation("metadata.name", Reason.REQUIRED, name, detail)
    elif kind == "JobTemplate" and isinstance(name, str):
        yield from name_violations("metadata.name", name)
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace:
        yield from name_violations("metadata.namespace", namespace)


def _mended_violations(manifest: Manifest, kind: str, data: dict[str, Any]) -> list[Violation]:
    """Return the faults of the schema and mend `data`; repeat below keys that were renamed."""
    # a later round finds most faults of the one before again
    found: dict[tuple[str, Reason], Violation] = {}
    for _ in range(_ROUNDS):
        violations = schema_violations(kind, data, strict=True)
        found |= {(each.path, each.reason): each for each in violations}
        renamed = [_mend(manifest, data, each) for each in violations]
        if not any(renamed):
            break
    return list(found.values())


def _mend(manifest: Manifest, data: Any, violation: Violation) -> bool:
    """Remove a value of the wrong type, or rename a misspelt key; return whether it renamed."""
    keys = manifest.keys(violation.path)
    if not keys:
        return False
    *above, last = keys
    for key in above:
        data = data[key]
    if is_about_key(violation):
        meant = meant_key(violation)
        # both keys are there: which is meant, nobody knows
        if meant is None or meant in data:
            return False
        data[meant] = data.pop(last)
        manifest.add_alias(violation.path, meant)
        return True
    if violation.reason is Reason.TYPE_INVALID and isinstance(data, dict):
        del data[last]
    elif violation.reason is Reason.TYPE_INVALID:
        data[last] = "" if _EXPECTS_TEXT in violation.detail else {}
    return False
