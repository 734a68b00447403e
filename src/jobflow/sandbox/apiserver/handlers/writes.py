"""Creates, updates and deletes. Webhooks are called between reading the current state and storing
the next: a write in between is a conflict, or is retried if the request names no version."""

from dataclasses import replace
from typing import Any

import msgspec

from jobflow.api.resources import Struct
from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.handlers.admission import Admission
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.bodies import Change, Mistyped, convert
from jobflow.sandbox.apiserver.requests.http import encode
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOperation, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin, metadata
from jobflow.sandbox.apiserver.storage import ObjectTooLarge, Storage, Stored

_TRIES = 5
_GENERATED_TRIES = 8

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers that keep an owner until its dependents are deleted, or released."""

_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class Preconditions(Struct):
    uid: str = ""
    resource_version: str = ""


class DeleteOptions(Struct):
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
    return msgspec.structs.replace(wanted, propagation_policy=policy, grace_period_seconds=grace)


class Writer:
    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage = storage
        self._admission = admission

    async def create(self, target: Target, obj: Object, write: WriteOptions) -> Stored:
        """Create an object; takes ownership of `obj`. Raises RequestFailure."""
        kind = target.kind
        if kind.has_status:
            obj.pop("status", None)
        metadata.begin(kind, obj)
        write.warnings.extend(metadata.suspicions(obj))
        kind.rules.begin(obj)
        if target.namespace:
            found = self._storage.get(builtin.NAMESPACE.bucket, ("", target.namespace))
            if found is None:
                raise failures.not_found(builtin.NAMESPACE, target.namespace)
            if found.is_deleted:
                namespace = f"namespace {target.namespace}"
                cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
                cause["message"] = f"{namespace} is being terminated"
                name = obj["metadata"].get("name") or ""
                why = f"unable to create new content in {namespace} because it is being terminated"
                raise failures.forbidden(target.kind, name, why, causes=[cause])
        obj = await self._admit(WriteOperation("CREATE", target, obj, None, write))
        name = obj["metadata"]["name"]
        tries = _GENERATED_TRIES
        # After the webhooks, which take time: another object may have the name by now.
        while existing := self._storage.get(kind.bucket, (target.namespace, name)):
            prefix = obj["metadata"].get("generateName")
            if not prefix:
                is_deleted = existing.is_deleted
                raise failures.already_exists(kind, name, is_deleted=is_deleted)
            if not tries:
                raise failures.already_exists(kind, prefix)
            tries -= 1
            name = obj["metadata"]["name"] = metadata.generate_name(prefix)
        return self._store(kind, (target.namespace, name), obj, write)

    async def update(self, target: Target, change: Change, write: WriteOptions) -> Stored:
        """Apply a change to an object. Raises RequestFailure; 409 if it changed meanwhile."""
        for _ in range(_TRIES):
            current = self._storage.get(target.kind.bucket, target.key)
            if current is None:
                raise failures.not_found(target.kind, target.name)
            wanted = change(current)
            version = wanted["metadata"].get("resourceVersion")
            if version and version != str(current.revision):
                if version.isdecimal():
                    raise failures.conflict(target.kind, target.name)
                why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
                raise failures.failure(500, "", why)
            new = self._next(target, wanted, current)
            new = await self._admit(WriteOperation("UPDATE", target, new, current.obj, write))
            # Webhooks took time: somebody else may have written meanwhile.
            if self._storage.get(target.kind.bucket, target.key) is not current:
                continue
            # A write that changes nothing has no new version and no event, as in kube-apiserver.
            if new == current.obj:
                return current
            kind, meta = target.kind, new["metadata"]
            waits = meta.get("deletionGracePeriodSeconds") or kind.rules.finalizers(new)
            if not meta.get("deletionTimestamp") or waits:
                return self._store(kind, target.key, new, write)
            if write.dry_run:
                return Stored(target.key, new, encode(new), current.revision)
            return self._storage.remove(kind.bucket, target.key, new)
        raise failures.conflict(target.kind, target.name)

    async def delete(
        self, target: Target, wanted: DeleteOptions, write: WriteOptions
    ) -> tuple[Stored, bool]:
        """Delete an object, or mark it as deleted if it must wait for finalizers; return its last
        state, and whether it is gone."""
        # Before the webhooks: nobody is asked about what is not allowed anyway.
        if reason := target.kind.rules.undeletable(target.name):
            raise failures.forbidden(target.kind, target.name, reason)
        for _ in range(_TRIES):
            current = self._storage.get(target.kind.bucket, target.key)
            if current is None:
                raise failures.not_found(target.kind, target.name)
            uid, version = wanted.preconditions.uid, wanted.preconditions.resource_version
            for field, asked, found in (
                ("UID", uid, current.uid),
                ("ResourceVersion", version, str(current.revision)),
            ):
                if asked and asked != found:
                    raise failures.precondition(target.kind, target.name, field, asked, found)
            operation = WriteOperation("DELETE", target, None, current.obj, write)
            await self._admission.validate(operation)
            # Webhooks took time: somebody else may have written meanwhile.
            if self._storage.get(target.kind.bucket, target.key) is current:
                return self._commit_delete(target, current, wanted, write)
        raise failures.conflict(target.kind, target.name)

    def _next(self, target: Target, wanted: Object, current: Stored) -> Object:
        kind, old = target.kind, current.obj
        # Each side keeps what only the other may write.
        if target.subresource == "status":
            kept = {key: value for key, value in old.items() if key != "status"}
            status = {} if wanted.get("status") is None else {"status": wanted["status"]}
            return {**kept, "metadata": dict(old["metadata"]), **status}
        if kind.has_status:
            wanted.pop("status", None)
            if "status" in old:
                wanted["status"] = old["status"]
        kind.rules.carry_over(wanted, old)
        metadata.carry_over(kind, wanted, old)
        wanted["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return wanted

    async def _admit(self, asked: WriteOperation) -> Object:
        kind, old = asked.target.kind, asked.old
        obj: Object = await self._admission.mutate(asked)
        # A webhook may add unknown fields, or leave out defaults.
        if obj is not asked.obj:
            kind.rules.complete(obj)
            asked = replace(asked, obj=obj)
        faults = [*metadata.violations(kind, obj, old), *kind.rules.violations(obj, old)]
        if faults:
            name = obj["metadata"].get("name") or ""
            raise failures.invalid_as(kind.group, kind.kind, name, faults)
        await self._admission.validate(asked)
        return obj

    def _commit_delete(
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

    def _store(self, kind: Kind, key: tuple[str, str], obj: Object, write: WriteOptions) -> Stored:
        if write.dry_run:
            return Stored(key, obj, encode(obj), 0)
        try:
            return self._storage.put(kind.bucket, key, obj)
        except ObjectTooLarge as error:
            raise failures.failure(500, "", "etcdserver: request is too large") from error
