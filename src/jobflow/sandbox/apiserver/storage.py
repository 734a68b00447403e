"""Storage of objects with resource versions and the history of changes for watches.

One revision counts all writes, as in etcd. A stored object is never changed in place, so pages and
watches may keep it.
"""

import asyncio
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

Object = dict[str, Any]

Key = tuple[str, str]
"""Namespace ("" for a cluster-scoped object) and name."""

Manager = tuple[str, str]
"""Name of the field manager of an apply, and the subresource that it applies to."""

CREATOR: Manager = ("", "")
"""Manager of the fields of an object that was created without an apply."""

MAX_OBJECT = 1536 * 1024
"""Maximum size of a stored object in bytes: etcd's request limit."""

MAX_HISTORY, MAX_PENDING = 16 * 1024 * 1024, 100_000
"""Maximum of the changes of a kind in bytes, and of those that a watch has not read yet."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Stored:
    key: Key
    obj: Object
    body: bytes
    revision: int
    applied: Mapping[Manager, bytes] = field(default_factory=dict)
    """Body that each manager applied last. It stays in later states of the object."""

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.obj["metadata"]
        return metadata

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.get("labels") or {}

    @property
    def finalizers(self) -> list[str]:
        return self.metadata.get("finalizers") or []

    @property
    def uid(self) -> str:
        return str(self.metadata["uid"])

    @property
    def is_deleted(self) -> bool:
        return "deletionTimestamp" in self.metadata


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One write. For a deletion, `new` is the last state with the deletion's revision."""

    type: ChangeType
    new: Stored
    old: Stored | None


class PendingChanges:
    def __init__(self, since: int) -> None:
        self.pending: deque[ObjectChange] = deque()
        self.wake = asyncio.Event()
        self.closed = False
        self._since = since

    def offer(self, change: ObjectChange) -> None:
        if change.new.revision <= self._since:
            return
        # A client that does not read must not hold all changes in memory.
        if len(self.pending) >= MAX_PENDING:
            self.close()
        else:
            self.pending.append(change)
            self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()


@dataclass(slots=True)
class Bucket:
    remembered: int
    """Maximum number of changes kept; fewer if they are large."""
    history: deque[ObjectChange] = field(default_factory=deque)
    objects: dict[Key, Stored] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    watches: set[PendingChanges] = field(default_factory=set)
    forgotten: int = 0
    """Last revision that is no longer in `history`."""
    held: int = 0

    def select(self, namespace: str) -> list[Stored]:
        start, end = 0, len(self.keys)
        if namespace:
            start = bisect_left(self.keys, (namespace, ""))
            end = bisect_left(self.keys, (namespace + "\0", ""))
        return [self.objects[key] for key in self.keys[start:end]]


class Expired(Exception):
    """The revision is no longer kept."""


class ObjectTooLarge(Exception):
    """The object exceeds `MAX_OBJECT`."""


class Storage:
    def __init__(self, *, history: int) -> None:
        self.revision = 1
        self.listeners: list[Callable[[str, ObjectChange], None]] = []
        """Called with bucket and change on every write, in the same step of the event loop."""
        self._buckets = defaultdict[str, Bucket](lambda: Bucket(history))

    def bucket(self, name: str) -> Bucket:
        return self._buckets[name]

    def get(self, bucket: str, key: Key) -> Stored | None:
        return self.bucket(bucket).objects.get(key)

    def put(self, bucket: str, key: Key, obj: Object) -> Stored:
        """Store an object's next state; takes over `obj`. Raises ObjectTooLarge."""
        where = self.bucket(bucket)
        old, stored = where.objects.get(key), self._next(key, obj)
        # Later writes keep who applied what; the creator counts as the first to apply.
        stored = replace(stored, applied=old.applied if old else {CREATOR: stored.body})
        if old is None:
            insort(where.keys, key)
        where.objects[key] = stored
        self._publish(bucket, ObjectChange("MODIFIED" if old else "ADDED", stored, old))
        return stored

    def keep_applied(self, bucket: str, key: Key, applied: Mapping[Manager, bytes]) -> None:
        """Keep the bodies that managers applied, if the object still exists. This is no write."""
        objects = self.bucket(bucket).objects
        if key in objects:
            objects[key] = replace(objects[key], applied=applied)

    def remove(self, bucket: str, key: Key, last: Object | None = None) -> Stored:
        where = self.bucket(bucket)
        old = where.objects.pop(key)
        del where.keys[bisect_left(where.keys, key)]
        # Pages and watches may still hold the old state.
        obj = dict(last or old.obj)
        obj["metadata"] = dict(obj["metadata"])
        # A deletion has a revision of its own, by which watchers go on.
        gone = self._next(key, obj)
        self._publish(bucket, ObjectChange("DELETED", gone, old))
        return gone

    def watch(self, bucket: str, since: int) -> PendingChanges:
        """Return a watch on all changes after `since`, even in the future. Raises Expired."""
        where = self.bucket(bucket)
        if since < where.forgotten:
            raise Expired(f"too old resource version: {since} ({where.forgotten + 1})")
        watch = PendingChanges(since)
        # First what happened since that version, then what happens from now on.
        for change in where.history:
            watch.offer(change)
        where.watches.add(watch)
        return watch

    def close_watches(self) -> None:
        for bucket in self._buckets.values():
            for watch in list(bucket.watches):
                watch.close()

    def _next(self, key: Key, obj: Object) -> Stored:
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        body = encode(obj)
        # Before the revision is counted: a write that is refused has none.
        if len(body) > MAX_OBJECT:
            raise ObjectTooLarge
        self.revision = revision
        return Stored(key, obj, body, revision)

    def _publish(self, bucket: str, change: ObjectChange) -> None:
        where = self.bucket(bucket)
        where.history.append(change)
        where.held += len(change.new.body)
        # Few large objects count as much as many small ones.
        while len(where.history) > where.remembered or where.held > MAX_HISTORY:
            oldest = where.history.popleft()
            where.held -= len(oldest.new.body)
            where.forgotten = oldest.new.revision
        for watch in list(where.watches):
            watch.offer(change)
        for listener in self.listeners:
            listener(bucket, change)
