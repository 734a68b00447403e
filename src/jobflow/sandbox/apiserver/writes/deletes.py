"""Deletes: preconditions, admission and finalizers. The garbage collector deletes dependents."""

from typing import Any

from msgspec.structs import replace

from jobflow.api.meta import Struct
from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.bodies.checks import Mistyped, convert
from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOperation, WriteOptions
from jobflow.sandbox.apiserver.resources import metadata
from jobflow.sandbox.apiserver.storage import Storage, Stored, encode
from jobflow.sandbox.apiserver.writes.admission import Admission

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers that keep an owner until its dependents are deleted, or released."""

_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_TRIES = 5


class Preconditions(Struct, frozen=True, kw_only=True):
    """Preconditions of a delete."""

    uid: str = ""
    resource_version: str = ""


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """DeleteOptions of a request (k8s.io/apimachinery/pkg/apis/meta/v1)."""

    propagation_policy: str = ""
    orphan_dependents: bool | None = None
    preconditions: Preconditions = Preconditions()
    grace_period_seconds: int | None = None
    dry_run: list[str] = []


def delete_options(options: dict[str, Any], query: dict[str, str]) -> DeleteOptions:
    """Return DeleteOptions from the body, else from the query. Raises RequestFailure."""
    try:
        wanted = convert(options, DeleteOptions)
    except Mistyped as error:
        raise failures.bad_request(str(error)) from error
    policy = wanted.propagation_policy or query.get("propagationPolicy", "")
    reason, fault = Reason.INVALID, None
    if wanted.orphan_dependents is not None and policy:
        fault = "orphanDependents and deletionPropagation cannot be both set"
    elif wanted.orphan_dependents is not None:
        policy = "Orphan" if wanted.orphan_dependents else "Background"
    elif policy not in ("", "Background", "Foreground", "Orphan"):
        reason = Reason.NOT_SUPPORTED
        fault = 'supported values: "Foreground", "Background", "Orphan", "nil"'
    if fault is not None:
        path = "propagationPolicy"
        raise failures.invalid_option("DeleteOptions", path, reason, policy, fault)
    grace, seconds = wanted.grace_period_seconds, query.get("gracePeriodSeconds", "")
    if grace is None and seconds.isdecimal():
        grace = int(seconds)
    return replace(wanted, propagation_policy=policy, grace_period_seconds=grace)


class Deleter:
    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage = storage
        self._admission = admission

    async def delete(
        self, target: Target, wanted: DeleteOptions, write: WriteOptions
    ) -> tuple[Stored, bool]:
        """Delete an object, or mark it as deleted if it must wait for finalizers; return its last
        state, and whether it is gone."""
        if reason := target.kind.rules.undeletable(target.name):
            raise failures.forbidden(target.kind, target.name, reason)
        for _ in range(_TRIES):
            current = self._storage.get(target.kind.bucket, target.key)
            if current is None:
                raise failures.not_found(target.kind, target.name)
            _check(target.kind, current, wanted)
            operation = WriteOperation("DELETE", target, None, current.obj, write)
            await self._admission.validate(operation)
            # Webhooks took time: somebody else may have written meanwhile.
            if self._storage.get(target.kind.bucket, target.key) is current:
                return self._commit(target, current, wanted, write)
        raise failures.conflict(target.kind, target.name)

    def _commit(
        self, target: Target, current: Stored, wanted: DeleteOptions, write: WriteOptions
    ) -> tuple[Stored, bool]:
        kind, meta = target.kind, dict(current.metadata)
        obj = {**current.obj, "metadata": meta}
        grace = kind.rules.grace(obj, wanted.grace_period_seconds)
        if current.is_deleted:  # a second request can only shorten the time
            meta["deletionGracePeriodSeconds"] = min(meta["deletionGracePeriodSeconds"], grace)
        else:
            meta["deletionTimestamp"] = metadata.now()
            meta["deletionGracePeriodSeconds"] = grace
            if kind.generation:
                meta["generation"] = meta.get("generation", 0) + 1
        finalizers, policy = list(meta.pop("finalizers", None) or ()), wanted.propagation_policy
        # A later request may change how dependents are treated.
        if policy:
            finalizers = [name for name in finalizers if name not in _FINALIZER.values()]
        if policy in _FINALIZER:
            finalizers.append(_FINALIZER[policy])
        if finalizers:
            meta["finalizers"] = finalizers
        kind.rules.mark(obj)
        waits = meta["deletionGracePeriodSeconds"] > 0 or bool(kind.rules.finalizers(obj))
        if waits and obj == current.obj:
            return current, False
        if write.dry_run:
            preview = Stored(current.key, obj, encode(obj), current.revision)
            return preview if waits else current, not waits
        if waits:
            return self._storage.put(kind.bucket, target.key, obj), False
        return self._storage.remove(kind.bucket, target.key), True


def _check(kind: Kind, current: Stored, wanted: DeleteOptions) -> None:
    """Raise RequestFailure, 409, if this is another object, or another state of it."""
    conditions, name = wanted.preconditions, current.key[1]
    uid, version, revision = conditions.uid, conditions.resource_version, str(current.revision)
    if uid and uid != current.uid:
        why = "The object might have been deleted and then recreated"
        raise failures.precondition(kind, name, "UID", uid, current.uid, why)
    if version and version != revision:
        why = "The object might have been modified"
        raise failures.precondition(kind, name, "ResourceVersion", version, revision, why)
