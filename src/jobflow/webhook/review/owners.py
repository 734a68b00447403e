"""Changes of the owners of a flow that need a check of the user.

A plan takes a child flow for what a step has run, and a schedule counts and deletes its flows. So
only the controller makes child flows, and who adds a flow to a CronJobFlow must be allowed to
change it (docs/decisions/child-flows.md, docs/decisions/schedules.md).
"""

from collections.abc import Mapping
from typing import NamedTuple

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, ObjectMeta, OwnerReference

_Owners = Mapping[tuple[str, str], OwnerReference]


class OwnerChanges(NamedTuple):
    """Owners that an update adds or removes: JobFlows (parents) and CronJobFlows. One that becomes
    the controller of the flow counts as added, one that no longer is counts as removed."""

    parents: tuple[OwnerReference, ...] = ()
    lost_parents: tuple[OwnerReference, ...] = ()
    crons: tuple[OwnerReference, ...] = ()


_UNCHANGED = OwnerChanges()


def owner_changes(old: ObjectMeta | None, new: ObjectMeta) -> OwnerChanges:
    """Return what changes; `old` is None for a new flow. `blockOwnerDeletion`, which the garbage
    collector edits, does not count."""
    had = None if old is None else old.owner_references
    # nearly every update
    if had == new.owner_references:
        return _UNCHANGED
    parents, crons = _owners(new, JOBFLOWS.kind), _owners(new, CRONJOBFLOWS.kind)
    old_parents, old_crons = (
        ({}, {}) if old is None else (_owners(old, JOBFLOWS.kind), _owners(old, CRONJOBFLOWS.kind))
    )
    return OwnerChanges(
        parents=_added(old_parents, parents),
        lost_parents=_added(parents, old_parents),
        crons=_added(old_crons, crons),
    )


def _owners(metadata: ObjectMeta, kind: str) -> _Owners:
    """Return the owners of a kind, in any API group, by name and UID."""
    references = [ref for ref in metadata.owner_references or () if ref.kind == kind]
    # the last one of a key wins
    references.sort(key=lambda ref: bool(ref.controller))
    return {(ref.name, ref.uid): ref for ref in references}


def _added(before: _Owners, after: _Owners) -> tuple[OwnerReference, ...]:
    return tuple(
        ref
        for key, ref in after.items()
        if key not in before or (ref.controller and not before[key].controller)
    )
