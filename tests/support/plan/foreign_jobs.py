"""Owners of vcjobs in worlds of `plan`: the flow, or another object."""

from datetime import UTC, datetime

from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.api.volcano.job import Job
from jobflow.core.planning.observed.view import Holder


def owner(name: str, uid: str) -> OwnerReference:
    """The controller reference of a flow's vcjob."""
    return OwnerReference(
        api_version="flow.volcano.sh/v1alpha1",
        kind="JobFlow",
        name=name,
        uid=uid,
        controller=True,
        block_owner_deletion=True,
    )


def foreign(*, owner_alive: bool = True, deleting: bool = False, owned: bool = True) -> Holder:
    metadata = ObjectMeta(
        name="f-a",
        uid="uid-other",
        owner_references=[owner("other", "uid-o")] if owned else None,
        deletion_timestamp=datetime(2026, 1, 1, 12, tzinfo=UTC) if deleting else None,
    )
    return Holder(Job(metadata=metadata), owner_alive)
