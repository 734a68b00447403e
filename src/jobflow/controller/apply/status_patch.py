"""The JSON merge patch that turns one status into another. Reads nothing but its arguments."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from jobflow.api.flow_status import JobFlowStatus, StepCondition
from jobflow.api.jobflow import JobFlow


def status_patch(flow: JobFlow, status: JobFlowStatus) -> bytes:
    """The body of a PATCH of the flow's status subresource.

    It holds what differs and null for what is to go (RFC 7396), so fields that this version does
    not know stay. Version and UID make the API server refuse it (409) where the flow is no longer
    what the status was made from.
    """
    changes = difference(*(msgspec.to_builtins(each) for each in _apart(flow.status, status)))
    if (records := status.job_status_list) and records != flow.status.job_status_list:
        changes["jobStatusList"] = msgspec.Raw(msgspec.json.encode(records))
    meta = flow.metadata
    return msgspec.json.encode(
        {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": changes,
        }
    )


def _apart(before: JobFlowStatus, after: JobFlowStatus) -> tuple[JobFlowStatus, JobFlowStatus]:
    """Both without most of what is the same in both, and without a list of records that replaces
    another: of a thousand steps few change at a time, and comparing structs costs a tenth of
    comparing what they look like in JSON."""
    old, new = before.conditions, after.conditions
    if old and new:
        changed = [key for key, each in new.items() if not _same(old.get(key), each)]
        was = {key: old[key] for key in changed if key in old}
        gone = {key: old[key] for key in old if key not in new}
        before = replace(before, conditions=was | gone)
        after = replace(after, conditions={key: new[key] for key in changed})
    if after.job_status_list or before.job_status_list == after.job_status_list:
        before, after = replace(before, job_status_list=None), replace(after, job_status_list=None)
    return before, after


def _same(old: StepCondition | None, new: StepCondition) -> bool:
    return old is new or old == new


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
