"""Creates and updates: server-set fields, admission, validation, compare and swap.

A webhook call takes place between reading the current state and storing the next. A write in
between is a conflict, or is retried if the request names no version.
"""

from collections.abc import Callable
from dataclasses import replace

from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOperation, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin, metadata
from jobflow.sandbox.apiserver.storage import ObjectTooLarge, Storage, Stored, encode
from jobflow.sandbox.apiserver.writes.admission import Admission

_TRIES = 5
_GENERATED_TRIES = 8

Revise = Callable[[Stored], Object]
"""Returns the wanted state for the current one; the caller may change the result."""


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
        while existing := self._storage.get(kind.bucket, (target.namespace, name)):
            prefix = obj["metadata"].get("generateName")
            if not prefix:
                is_deleted = existing.is_deleted
                raise failures.already_exists(kind, name, is_deleted=is_deleted)
            if not tries:
                raise failures.already_exists(kind, prefix)
            tries -= 1
            name = obj["metadata"]["name"] = metadata.generated(prefix)
        return self._store(kind, (target.namespace, name), obj, write)

    async def update(self, target: Target, change: Revise, write: WriteOptions) -> Stored:
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
            if self._storage.get(target.kind.bucket, target.key) is current:
                return self._commit(target, new, current, write)
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
            raise failures.invalid(kind, obj["metadata"].get("name") or "", faults)
        await self._admission.validate(asked)
        return obj

    def _commit(self, target: Target, new: Object, current: Stored, write: WriteOptions) -> Stored:
        kind, meta = target.kind, new["metadata"]
        # A write that changes nothing has no new version and no event, as in kube-apiserver.
        if new == current.obj:
            return current
        waits = meta.get("deletionGracePeriodSeconds") or kind.rules.finalizers(new)
        if meta.get("deletionTimestamp") and not waits:
            if write.dry_run:
                return Stored(target.key, new, encode(new), current.revision)
            return self._storage.remove(kind.bucket, target.key, new)
        return self._store(kind, target.key, new, write)

    def _store(self, kind: Kind, key: tuple[str, str], obj: Object, write: WriteOptions) -> Stored:
        if write.dry_run:
            return Stored(key, obj, encode(obj), 0)
        try:
            return self._storage.put(kind.bucket, key, obj)
        except ObjectTooLarge as error:
            raise failures.failure(500, "", "etcdserver: request is too large") from error
