"""Refusals of the API server and its admission webhooks, as faults of the manifest."""

from __future__ import annotations

from jobflow.client.manifests.faults import ManifestFault
from jobflow.client.manifests.objects import Manifest
from jobflow.kube.client import ApiError


def faults_of(manifest: Manifest, error: ApiError) -> list[ManifestFault]:
    """Return a fault for each cause of the refusal, at its place in the file."""
    kind, name, details = str(manifest.kind), manifest.name, error.status.details
    causes = (details.causes if details else None) or []
    if not causes:
        place = manifest.place("metadata.name")
        return [ManifestFault(place, error.reason, error.message, "", kind, name)]
    faults = []
    for cause in causes:
        path = cause.field.removeprefix(".")
        place = manifest.place(path)
        faults.append(ManifestFault(place, cause.reason, cause.message, path, kind, name))
    return faults
