"""The JSON merge patch that turns one status into another. Reads nothing but its arguments."""

from __future__ import annotations

from typing import Any

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowStatus


def status_patch(flow: JobFlow, status: JobFlowStatus) -> bytes:
    """The body of a PATCH of the flow's status subresource.

    It holds what differs and null for what is to go (RFC 7396), so fields that this version does
    not know stay. Version and UID make the API server refuse it (409) where the flow is no longer
    what the status was made from.
    """
    before, after = msgspec.to_builtins(flow.status), msgspec.to_builtins(status)
    meta = flow.metadata
    return msgspec.json.encode(
        {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": difference(before, after),
        }
    )


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one JSON object to another: lists are replaced whole."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
