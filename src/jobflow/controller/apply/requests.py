"""The requests of a plan: those that are due, how many at once, the status patch, their result."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.resources import ObjectMeta
from jobflow.core.planning import actions
from jobflow.core.reasons import StepReason

REQUESTS_AT_ONCE = 16
"""Most requests of one plan that are under way at once."""


@dataclass(slots=True)
class Applied:
    """The result of applying a plan; the reconciler handles it in one place."""

    again: bool = False
    """Plan again at once: no watch event brings what was learned."""
    errors: list[str] = field(default_factory=list)
    """Errors after which a later try may succeed."""
    failed: set[str] = field(default_factory=set)
    """The requests that had them, by `request_of`; the status write is STATUS."""
    retry_after: float = 0.0
    """Seconds the server asked to wait; the longest."""
    status_written: bool = False
    held_back: bool = False
    """A quota or missing rights refused a create; the creates that were not sent yet are left to
    the next plan."""
    outdated: bool = field(default=False, compare=False)
    """The flow has changed since the plan was made, so nothing was sent."""
    answered: bool = field(default=False, compare=False)
    """A create succeeded."""


class Slots(asyncio.Semaphore):
    """How many requests of a plan are under way at once. If there are many creates, or the stored
    status says that creates are refused, it is one until the first create is answered: so one try
    is enough to learn that the namespace takes no more."""

    def __init__(self, flow: JobFlow, plan: actions.Plan) -> None:
        creates = sum(isinstance(action, actions.CreateJob) for action in plan.actions)
        refused = flow.status.state.reason == StepReason.CREATE_REFUSED
        careful = creates > REQUESTS_AT_ONCE or (refused and creates > 0)
        self._spared = REQUESTS_AT_ONCE - 1 if careful else 0
        super().__init__(REQUESTS_AT_ONCE - self._spared)

    def widen(self) -> None:
        while self._spared:
            self._spared -= 1
            self.release()


STATUS = "status"
"""The status write among the requests of a plan."""


def request_of(action: actions.Action) -> str:
    """Return a name for the request of an action; equal requests of later plans have the same."""
    what = action.uid if isinstance(action, actions.ReadPods | actions.DeleteFlow) else action.name
    if isinstance(action, actions.CommandFlow):
        what = f"{action.name} {action.action}"
    return f"{type(action).__name__} {what}"


def status_patch(flow: JobFlow, status: JobFlowStatus) -> bytes:
    """Return the body of a PATCH of the flow's status subresource: the fields that differ, and null
    for those to remove (RFC 7396). Fields that this version does not know stay."""
    before, after = flow.status, status
    # few of a thousand steps change at a time, and comparing structs costs a tenth of their JSON
    old, new = before.conditions, after.conditions
    if old and new:
        changed = [key for key, each in new.items() if old.get(key) != each]
        was = {key: old[key] for key in changed if key in old}
        gone = {key: old[key] for key in old if key not in new}
        before = replace(before, conditions=was | gone)
        after = replace(after, conditions={key: new[key] for key in changed})
    # records are replaced as a whole
    if after.job_status_list or before.job_status_list == after.job_status_list:
        before = replace(before, job_status_list=None)
        after = replace(after, job_status_list=None)
    changes = difference(*(msgspec.to_builtins(each) for each in (before, after)))
    if (records := status.job_status_list) and records != flow.status.job_status_list:
        changes["jobStatusList"] = msgspec.Raw(msgspec.json.encode(records))
    return guarded_patch(flow.metadata, {"status": changes})


def guarded_patch(meta: ObjectMeta, changes: dict[str, Any]) -> bytes:
    """Return a merge patch, which is refused (409) if the object has changed."""
    versions = {"resourceVersion": meta.resource_version, "uid": meta.uid}
    metadata = versions | changes.get("metadata", {})
    return msgspec.json.encode(changes | {"metadata": metadata})


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
