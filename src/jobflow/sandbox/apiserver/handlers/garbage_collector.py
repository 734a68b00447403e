"""Garbage collector and namespace controller, as in kube-controller-manager. It works from changes,
one object at a time, and retries after a second if admission refuses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from jobflow.sandbox.apiserver.handlers import writes
from jobflow.sandbox.apiserver.kinds import Kind, Object, Registry
from jobflow.sandbox.apiserver.requests.access import service_account
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin
from jobflow.sandbox.apiserver.resources.crds import CLEANUP
from jobflow.sandbox.apiserver.storage import Key, ObjectChange, Storage, Stored

COLLECTOR = service_account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = service_account("kube-system", "namespace-controller")
_RETRY_SECONDS = 1.0


class GarbageCollector:
    def __init__(self, storage: Storage, registry: Registry, writer: writes.Writer) -> None:
        self._storage = storage
        self._registry = registry
        self._writer = writer
        self._owners = OwnerIndex()
        self._queue: dict[Place, None] = {}
        self._wake = asyncio.Event()
        storage.listeners.append(self._notice)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                place = next(iter(self._queue))
                del self._queue[place]
                await self._handle(place)

    def _notice(self, bucket: str, change: ObjectChange) -> None:
        meta, key, is_gone = change.new.metadata, change.new.key, change.type == "DELETED"
        if is_gone:
            self._enqueue(self._owners.dependents(change.new.uid))
        self._owners.learn(bucket, change)
        if not is_gone and (meta.get("deletionTimestamp") or meta.get("ownerReferences")):
            self._enqueue([(bucket, key)])
        if change.old is not None:  # its owners may wait for it
            owners = [self._owners.places.get(each["uid"]) for each in references(change.old)]
            self._enqueue(filter(None, owners))
        if is_gone:  # its namespace or its definition may wait for the last of their objects
            for kind, name in ((builtin.NAMESPACE, key[0]), (builtin.CRD, bucket)):
                found = self._storage.get(kind.bucket, ("", name))
                if found is not None and found.is_deleted:
                    self._enqueue([(kind.bucket, ("", name))])

    def _enqueue(self, places: Iterable[Place]) -> None:
        for place in places:
            self._queue[place] = None
            self._wake.set()

    async def _handle(self, place: Place) -> None:
        bucket, key = place
        stored, kind = self._storage.get(bucket, key), self._registry.of_bucket(bucket)
        if stored is None or kind is None:
            return
        try:
            if not stored.is_deleted:
                await self._collect(kind, stored)
            elif kind is builtin.NAMESPACE:
                await self._finalize(kind, stored)
                kinds = [kind for kind in self._registry.stored() if kind.namespaced]
                for each in kinds:
                    await self._empty(each, key[1], WriteOptions(user=NAMESPACE_CONTROLLER))
                is_empty = not any(self._storage.bucket(k.bucket).select(key[1]) for k in kinds)
                if is_empty and not stored.finalizers:
                    self._storage.remove(bucket, key)
            else:
                await self._finalize(kind, stored)
        except RequestFailure as failed:
            if failed.code != 404:
                # A conflict is over at once; a webhook that refuses may need time.
                seconds = 0 if failed.code == 409 else _RETRY_SECONDS
                asyncio.get_running_loop().call_later(seconds, self._enqueue, [place])

    async def _collect(self, kind: Kind, stored: Stored) -> None:
        """Delete a dependent without living owners, or remove its references to gone owners."""
        states = {owner["uid"]: self._state(owner, stored) for owner in references(stored)}
        lost = [uid for uid, state in states.items() if state != "alive"]
        target = Target(kind, *stored.key)
        if not lost:
            return
        # An owner that lives keeps it.
        if len(lost) < len(states):
            await self._keep(target, "ownerReferences", lambda each: each["uid"] not in lost)
            return
        # Its owner waits for it, so it must wait for its own dependents too.
        waits = "waiting" in states.values() and self._owners.dependents(stored.uid)
        policy = "Foreground" if waits else ""
        # Webhooks see these options.
        options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        options["propagationPolicy"] = policy or "Background"
        # An object of the same name may have been created meanwhile.
        uid = writes.Preconditions(uid=stored.uid)
        wanted = writes.DeleteOptions(propagation_policy=policy, preconditions=uid)
        await self._writer.delete(target, wanted, WriteOptions(user=COLLECTOR, options=options))

    def _state(self, reference: dict[str, Any], dependent: Stored) -> str:
        """Return the state of an owner: alive, gone, or waiting, which means foreground deletion.
        An owner is cluster-scoped or in the namespace of its dependent."""
        place = self._owners.places.get(reference["uid"])
        is_near = place is not None and place[1][0] in ("", dependent.key[0])
        owner = self._storage.get(*place) if place is not None and is_near else None
        if owner is not None:
            waits = owner.is_deleted and writes.FOREGROUND in owner.finalizers
            return "waiting" if waits else "alive"
        # An owner of a kind that is not served here may exist elsewhere.
        is_served = self._registry.of(reference["apiVersion"], reference["kind"])
        return "gone" if is_served else "alive"

    async def _keep(self, target: Target, field: str, stays: Callable[[Any], bool]) -> None:
        def change(current: Stored) -> Object:
            kept = [each for each in current.metadata.get(field) or () if stays(each)]
            return {**current.obj, "metadata": {**current.metadata, field: kept}}

        await self._writer.update(target, change, WriteOptions(user=COLLECTOR))

    async def _finalize(self, kind: Kind, stored: Stored) -> None:
        """Do what the next finalizer of a deleted object waits for, and remove it if it is done."""
        dependents, uid, is_done = self._owners.dependents(stored.uid), stored.uid, True
        if (finalizer := writes.ORPHAN) in stored.finalizers:
            for bucket, key in dependents:
                owned = self._registry.of_bucket(bucket)
                if owned is not None and self._storage.get(bucket, key) is not None:
                    target = Target(owned, *key)
                    await self._keep(target, "ownerReferences", lambda each: each["uid"] != uid)
        elif (finalizer := writes.FOREGROUND) in stored.finalizers:
            for bucket, key in dependents:
                owned, dependent = self._registry.of_bucket(bucket), self._storage.get(bucket, key)
                if owned is not None and dependent is not None and not dependent.is_deleted:
                    await self._collect(owned, dependent)
                remaining = self._storage.get(bucket, key)
                is_done &= remaining is None or not any(
                    reference["uid"] == uid and reference.get("blockOwnerDeletion")
                    for reference in references(remaining)
                )
        elif (finalizer := CLEANUP) in stored.finalizers:
            defined = self._registry.of_bucket(stored.key[1])
            if defined is not None:
                await self._empty(defined, "", WriteOptions(user=COLLECTOR))
            is_done = not self._storage.bucket(stored.key[1]).objects
        else:
            return
        if is_done:
            target = Target(kind, *stored.key)
            await self._keep(target, "finalizers", lambda each: each != finalizer)

    async def _empty(self, kind: Kind, namespace: str, write: WriteOptions) -> None:
        """Start the deletion of all objects; raise a refusal at the end."""
        refused: RequestFailure | None = None
        for stored in self._storage.bucket(kind.bucket).select(namespace):
            if stored.is_deleted:
                continue
            wanted = writes.DeleteOptions(propagation_policy="Background")
            try:
                await self._writer.delete(Target(kind, *stored.key), wanted, write)
            except RequestFailure as failed:
                # The others are deleted all the same; then the place is tried again.
                refused = failed if failed.code != 404 else refused
        if refused is not None:
            raise refused


Place = tuple[str, Key]
"""A bucket and the key of an object in it."""


class OwnerIndex:
    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self._dependents: defaultdict[str, set[Place]] = defaultdict(set)

    def learn(self, bucket: str, change: ObjectChange) -> None:
        place = (bucket, change.new.key)
        if change.old is not None:
            for reference in references(change.old):
                self._dependents[reference["uid"]].discard(place)
                if not self._dependents[reference["uid"]]:
                    del self._dependents[reference["uid"]]
        if change.type == "DELETED":
            self.places.pop(change.new.uid, None)
            return
        self.places[change.new.uid] = place
        for reference in references(change.new):
            self._dependents[reference["uid"]].add(place)

    def dependents(self, uid: str) -> list[Place]:
        """Return the objects that name this UID as an owner, in order."""
        return sorted(self._dependents.get(uid, ()))


def references(stored: Stored) -> list[dict[str, Any]]:
    return stored.metadata.get("ownerReferences") or []
