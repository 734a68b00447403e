"""What kind of ours a manifest is and where it has the wrong shape; then an object for the rules.

A misfit is taken for what was meant, or out, and never hides what else is wrong. No rule is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS, JOBTEMPLATES
from jobflow.cli.manifests.objects import Manifest
from jobflow.cli.manifests.yaml_nodes import data_of
from jobflow.core.admission.object_names import name_violations
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.suggest import Suggester, list_supported
from jobflow.core.violations import Reason, Violation

API_VERSION = JOBFLOWS.api_version
TYPES: dict[str, type[JobFlow] | type[JobTemplate]] = {
    JOBFLOWS.kind: JobFlow,
    JOBTEMPLATES.kind: JobTemplate,
}

_UNKNOWN_FIELD = "unknown field"
_EXPECTS_TEXT = "must be of type string"
_MEANT = re.compile(r'; did you mean "([^"]+)"\?$')
_ROUNDS = 5
"""How often misspelt keys are mended and looked below."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A manifest of a kind of ours."""

    manifest: Manifest
    kind: str
    violations: list[Violation]
    """Where its shape is wrong."""
    object: JobFlow | JobTemplate | None
    """What it most likely means; None where even that cannot be said."""


def shaped(manifest: Manifest) -> Shaped | None:
    """The manifest as one of our kinds, or None where it is another one's business."""
    kind, violations = _kind(manifest)
    if kind is None and not violations:
        return None
    if kind is None:
        return Shaped(manifest, str(manifest.kind or ""), violations, None)
    data = data_of(manifest.node)
    data |= {"apiVersion": API_VERSION, "kind": kind}
    data.pop("status", None)  # the server's, also where `kubectl get -o yaml` brought it along
    violations += _misfits(manifest, kind, data)
    violations += _metadata(kind, data)
    try:
        meant = msgspec.convert(without_nulls(kind, data), TYPES[kind])
    except msgspec.ValidationError as error:
        meant = None
        if not violations:
            violations.append(Violation("", Reason.TYPE_INVALID, kind, str(error)))
    return Shaped(manifest, kind, violations, meant)


def of_key(violation: Violation) -> bool:
    """Whether a violation is about a key itself and not about what it holds."""
    return violation.detail.startswith(_UNKNOWN_FIELD)


def _kind(manifest: Manifest) -> tuple[str | None, list[Violation]]:
    """Our kind that this is or was meant to be, and what is wrong with kind and apiVersion."""
    kind, version = manifest.kind, manifest.api_version
    violations = []
    if kind in TYPES if isinstance(kind, str) else False:
        meant = kind
    else:
        meant = _meant(kind, version)
        if meant is None and not _ours(kind, version):
            return None, []
        reason = Reason.NOT_SUPPORTED if kind else Reason.REQUIRED
        violations.append(Violation("kind", reason, kind, list_supported(kind, TYPES)))
    if meant and version != API_VERSION:
        reason = Reason.NOT_SUPPORTED if version else Reason.REQUIRED
        detail = f"for a {meant} write {API_VERSION}"
        violations.append(Violation("apiVersion", reason, version, detail))
    return meant, violations


def _ours(kind: Any, version: Any) -> bool:
    """Whether an object says that it is ours, or says nothing."""
    return not kind or not isinstance(kind, str) or str(version).split("/")[0] == FLOW_GROUP


def _meant(kind: Any, version: Any) -> str | None:
    """The kind of ours that somebody misspelt; of another group only a slip of letter case."""
    if not isinstance(kind, str):
        return None
    guess = Suggester(list(TYPES)).nearest(kind)
    if guess and (_ours(kind, version) or guess.casefold() == kind.casefold()):
        return guess
    return None


def _metadata(kind: str, data: dict[str, Any]) -> Iterator[Violation]:
    """What an API server checks before it asks a webhook. A flow's name is a rule of its own."""
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


def _misfits(manifest: Manifest, kind: str, data: dict[str, Any]) -> list[Violation]:
    """All that is wrong with the shape of `data`; mends it in place.

    What stands below a misspelt key is looked at once the key has its right name.
    """
    found: dict[tuple[str, Reason], Violation] = {}
    for _ in range(_ROUNDS):
        misfits = schema_violations(kind, data, strict=True)
        found |= {(each.path, each.reason): each for each in misfits}
        renamed = [_mend(manifest, data, misfit) for misfit in misfits]
        if not any(renamed):
            break
    return list(found.values())


def _mend(manifest: Manifest, data: Any, misfit: Violation) -> bool:
    """Take out what has the wrong type, or rename a key to what was meant by it.

    Returns whether it renamed one.
    """
    keys = manifest.keys(misfit.path)
    if not keys:
        return False
    *above, last = keys
    for key in above:
        data = data[key]
    if of_key(misfit):
        meant = _MEANT.search(misfit.detail)
        if meant is None or meant[1] in data:
            return False
        data[meant[1]] = data.pop(last)
        manifest.read_as(misfit.path, meant[1])
        return True
    if misfit.reason is Reason.TYPE_INVALID and isinstance(data, dict):
        del data[last]
    elif misfit.reason is Reason.TYPE_INVALID:
        data[last] = "" if _EXPECTS_TEXT in misfit.detail else {}
    return False
