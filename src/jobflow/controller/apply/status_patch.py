"""The JSON merge patch that turns one status of a flow into another."""

from typing import Any

import msgspec
from msgspec.structs import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus


def status_patch(flow: JobFlow, status: JobFlowStatus) -> bytes:
    """Return the body of a PATCH of the flow's status subresource.

    It has the fields that differ, and null for those to remove (RFC 7396), so fields that this
    version does not know stay. Because of version and UID, the API server refuses it (409) if the
    flow has changed.
    """
    changes = difference(*(msgspec.to_builtins(each) for each in _reduced(flow.status, status)))
    if (records := status.job_status_list) and records != flow.status.job_status_list:
        changes["jobStatusList"] = msgspec.Raw(msgspec.json.encode(records))
    meta = flow.metadata
    return msgspec.json.encode(
        {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": changes,
        }
    )


def _reduced(before: JobFlowStatus, after: JobFlowStatus) -> tuple[JobFlowStatus, JobFlowStatus]:
    """Return both without most of their equal parts, and without the list of records, which is
    replaced as a whole. Few of a thousand steps change at a time, and comparing structs costs a
    tenth of comparing their JSON."""
    old, new = before.conditions, after.conditions
    if old and new:
        changed = [key for key, each in new.items() if old.get(key) != each]
        was = {key: old[key] for key in changed if key in old}
        gone = {key: old[key] for key in old if key not in new}
        before = replace(before, conditions=was | gone)
        after = replace(after, conditions={key: new[key] for key in changed})
    if after.job_status_list or before.job_status_list == after.job_status_list:
        before, after = replace(before, job_status_list=None), replace(after, job_status_list=None)
    return before, after


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one JSON object to another."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
