"""Deletes: preconditions, admission, finalizers and propagation.

The garbage collector deletes the dependents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.bodies.checks import go_word
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.operations import (
    DELETE,
    Target,
    WriteOperation,
    WriteOptions,
)
from jobflow.sandbox.apiserver.resources import metadata
from jobflow.sandbox.apiserver.storage import Storage, Stored, encode
from jobflow.sandbox.apiserver.writes.admission import Admission

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers that keep an owner until its dependents are deleted, or released."""

_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_TRIES = 5


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """DeleteOptions of a request."""

    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    grace: int | None = None


def delete_options(options: dict[str, Any], query: dict[str, str]) -> DeleteOptions:
    """Return DeleteOptions from the body, else from the query. Raises RequestFailure."""
    _check_types(options)
    preconditions = options.get("preconditions") or {}
    propagation = options.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = options.get("orphanDependents")
    if orphan is not None and propagation:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise _invalid(Reason.INVALID, propagation, why)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        allowed = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _invalid(Reason.NOT_SUPPORTED, propagation, allowed)
    seconds = query.get("gracePeriodSeconds", "")
    grace = options.get("gracePeriodSeconds")
    if grace is None and seconds.isdecimal():
        grace = int(seconds)
    uid, version = preconditions.get("uid") or "", preconditions.get("resourceVersion") or ""
    return DeleteOptions(propagation, uid, version, grace)


def _invalid(reason: Reason, policy: str, detail: str) -> failures.RequestFailure:
    return failures.invalid_option("DeleteOptions", "propagationPolicy", reason, policy, detail)


def _check_types(options: dict[str, Any]) -> None:
    for name, (wanted, go) in _TYPES.items():
        value = options.get(name)
        if value is not None and not isinstance(value, wanted):
            place = f"Go struct field DeleteOptions.{name} of type {go}"
            raise failures.bad_request(f"json: cannot unmarshal {go_word(value)} into {place}")


_TYPES: dict[str, tuple[type[object], str]] = {
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "orphanDependents": (bool, "bool"),
    "preconditions": (dict, "v1.Preconditions"),
    "gracePeriodSeconds": (int, "int64"),
    "dryRun": (list, "[]string"),
}


@dataclass(frozen=True, slots=True)
class Deletion:
    """Result of a delete: the object's last state, and whether it is gone."""

    last: Stored
    gone: bool


class Deleter:
    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage = storage
        self._admission = admission

    async def delete(self, target: Target, wanted: DeleteOptions, write: WriteOptions) -> Deletion:
        """Delete an object, or mark it as deleted if it must wait for finalizers."""
        if reason := target.kind.rules.undeletable(target.name):
            raise failures.forbidden(target.kind, target.name, reason)
        for _ in range(_TRIES):
            current = self._storage.get(target.kind.bucket, target.key)
            if current is None:
                raise failures.not_found(target.kind, target.name)
            _check(target.kind, current, wanted)
            await self._admission.validate(WriteOperation(DELETE, target, None, current.obj, write))
            if self._storage.get(target.kind.bucket, target.key) is current:
                return self._commit(target, current, wanted, write)
        raise failures.conflict(target.kind, target.name)

    def _commit(
        self, target: Target, current: Stored, wanted: DeleteOptions, write: WriteOptions
    ) -> Deletion:
        marked = _marked(target.kind, current, wanted)
        grace = marked["metadata"]["deletionGracePeriodSeconds"]
        waits = grace > 0 or bool(target.kind.rules.finalizers(marked))
        if waits and marked == current.obj:
            return Deletion(current, False)
        if write.dry_run:
            preview = Stored(current.key, marked, encode(marked), current.revision)
            return Deletion(preview if waits else current, not waits)
        if waits:
            return Deletion(self._storage.put(target.kind.bucket, target.key, marked), False)
        return Deletion(self._storage.remove(target.kind.bucket, target.key), True)


def _check(kind: Kind, current: Stored, wanted: DeleteOptions) -> None:
    name, version = current.key[1], str(current.revision)
    if wanted.uid and wanted.uid != current.uid:
        why = "The object might have been deleted and then recreated"
        raise failures.precondition(kind, name, "UID", wanted.uid, current.uid, why)
    if wanted.resource_version and wanted.resource_version != version:
        why, asked = "The object might have been modified", wanted.resource_version
        raise failures.precondition(kind, name, "ResourceVersion", asked, version, why)


def _marked(kind: Kind, current: Stored, wanted: DeleteOptions) -> Object:
    obj = {**current.obj, "metadata": dict(current.obj["metadata"])}
    meta = obj["metadata"]
    grace = kind.rules.grace(obj, wanted.grace)
    if "deletionTimestamp" in meta:
        meta["deletionGracePeriodSeconds"] = min(meta["deletionGracePeriodSeconds"], grace)
    else:
        meta["deletionTimestamp"] = metadata.now()
        meta["deletionGracePeriodSeconds"] = grace
        if kind.generation:
            meta["generation"] = meta.get("generation", 0) + 1
    finalizers = list(meta.pop("finalizers", None) or ())
    if wanted.propagation:
        finalizers = [name for name in finalizers if name not in _FINALIZER.values()]
    if wanted.propagation in _FINALIZER:
        finalizers.append(_FINALIZER[wanted.propagation])
    if finalizers:
        meta["finalizers"] = finalizers
    kind.rules.mark(obj)
    return obj
