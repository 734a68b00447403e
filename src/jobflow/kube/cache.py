"""A copy of the objects of one kind that goes back in time only if the server does. A list
(`replace`), a watch (`changed`, `deleted`), and answers to writes and live reads (`learn`) write to
it in any order; resource versions decide which object is newer.

Resource versions of one kind compare as integers, across objects too (KEP-5504). `version` is the
last version that list and watch have reported: everything up to it is in the copy. So an object at
or below `version` that the copy lacks has been deleted, and one above it is new. (A copy that keeps
only `wanted` objects may lack others too: its `learn` does not tell what was deleted.)

A server whose etcd was restored from a snapshot counts versions again from an earlier one, or has
objects at earlier versions. `precedes` and `includes_older` show it, and `start_over` replaces the
copy whatever its versions are (docs/decisions/copies.md).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from jobflow.api.resources import ObjectMeta
from jobflow.kube.answers import Identity


class KubeObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=KubeObject)
Key = tuple[str, str]
"""Namespace and name."""
OnChange = Callable[[T | None, T | None], None]
"""Called with (None, new) for an addition, (old, new) for a change, (last, None) for a deletion."""


def version_of(text: str) -> int:
    """Return a resource version as a number, 0 for text that is not one."""
    return int(text) if text.isascii() and text.isdigit() else 0


def key_of(obj: KubeObject) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def full_name(obj: KubeObject) -> str:
    return "/".join(key_of(obj))


class Cache(Generic[T]):
    """The copy of one kind, or of its `wanted` objects. `on_change` is called after each change."""

    def __init__(
        self,
        on_change: OnChange[T] | None = None,
        *,
        slim: Callable[[T], T] | None = None,
        wanted: Callable[[T], bool] | None = None,
    ) -> None:
        self.on_change: OnChange[T] = on_change or (lambda old, new: None)
        self.version = 0
        self.newest = 0
        """The highest version that list, watch, writes or live reads have reported."""
        self.served: bool | None = None
        """False while the server does not serve the kind or forbids it; None: not known yet."""
        self.synced = False
        """Whether the copy has been equal to a whole list, and has been followed since."""
        self.failing = False
        """Whether the last attempt to follow the kind failed, so that the copy may be old."""
        self.on_state: Callable[[], None] = lambda: None
        """Called when `served`, `synced` or `failing` may have changed."""
        self.suspect = False
        """Whether the server went back in time by what another copy shows, and this one has not
        started over since: missing objects may be lost instead of deleted."""
        self.on_start_over: Callable[[bool], None] = lambda expected: None
        """Called when the copy was replaced because the server went back in time; `expected` if it
        was `suspect` before."""
        self._objects: dict[Key, T] = {}
        self._doubted: set[Key] = set()
        self._slim = slim
        self._wanted = wanted

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    @property
    def answered(self) -> bool:
        """Whether the kind was listed, is not available, or cannot be followed at present."""
        return self.served is not None or self.failing

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def same(self, obj: T) -> T | None:
        held = self._objects.get(key_of(obj))
        return held if held is not None and held.metadata.uid == obj.metadata.uid else None

    def shared(self, obj: T) -> T | None:
        """Return what to keep of an object in a list: the existing copy if it has this version,
        else a slim one, None if the object is not wanted. So a list is not held twice."""
        if self._wanted is not None and not self._wanted(obj):
            return None
        held, version = self.same(obj), obj.metadata.resource_version
        # after a change of the schema, the same version may have other content
        if held is not None and held.metadata.resource_version == version:
            if key_of(obj) not in self._doubted:
                return held
        return obj if self._slim is None else self._slim(obj)

    def replace(
        self, objects: Iterable[T], version: str, *, unreadable: Collection[str] = ()
    ) -> None:
        """Make the copy equal to a whole list at `version`, whose objects came from `shared`. An
        object that the list lacks is dropped, unless it was written after the list was taken, or
        the list holds it in a form that cannot be read (`unreadable` UIDs)."""
        taken = version_of(version)
        missing = dict(self._objects)
        for obj in objects:
            missing.pop(key_of(obj), None)
            self._take(obj, slim=True)
        self.bookmark(version)
        for obj in missing.values():
            # an answer to a write may have come while the list was read
            meta = obj.metadata
            if version_of(meta.resource_version) <= taken and meta.uid not in unreadable:
                self._drop(obj)
        self._note_synced()

    def precedes(self, version: str, known: int) -> bool:
        """Return whether a consistent list at `version` is older than `known`, the `newest` version
        when the list was requested."""
        # a list must have all that was known before; another one may have started over meanwhile
        return version_of(version) < min(known, self.newest)

    def lags(self, meta: ObjectMeta | Identity) -> bool:
        """Return whether the copy lacks an object, or has an older version of it."""
        held = self._objects.get((meta.namespace, meta.name))
        copied = version_of(held.metadata.resource_version) if held is not None else 0
        return copied < version_of(meta.resource_version)

    def includes_older(self, meta: ObjectMeta | Identity, version: str) -> bool:
        """Return whether a list at `version` has an object that is older than its copy, although
        the list includes everything up to `version`."""
        held = self._objects.get((meta.namespace, meta.name))
        if held is None:
            return False
        copied = version_of(held.metadata.resource_version)
        return version_of(meta.resource_version) < copied <= version_of(version)

    def start_over(self, objects: Iterable[T], version: str) -> None:
        """Make the copy equal to a whole list at `version` of a server that went back in time. The
        objects came from `shared` after a call of `doubt`."""
        missing = dict(self._objects)
        expected, self.suspect = self.suspect, False
        # versions of the time before say nothing any more
        self.version = self.newest = version_of(version)
        for obj in objects:
            missing.pop(key_of(obj), None)
            self._put(obj)
        for obj in missing.values():
            self._drop(obj)
        self._note_synced()
        self.on_start_over(expected)

    def doubt(self) -> None:
        """Let the next object of the same version replace each copy, which may have another
        schema."""
        self._doubted.update(self._objects)

    def lacking(self, present: Collection[str], version: str) -> list[T]:
        """Return the copies that a whole list at `version` lacks, by UID. A watch may still bring
        their last state."""
        taken = version_of(version)
        missing = (obj for obj in self if obj.metadata.uid not in present)
        # the others were created after the list was taken
        return [obj for obj in missing if version_of(obj.metadata.resource_version) <= taken]

    def level_with(self, version: str, gone: Iterable[T]) -> None:
        """Mark the copy as equal to a whole list at `version`, after `learn` was called for its
        newer objects. Drops those of `gone` that are still copied."""
        self.bookmark(version)
        for obj in gone:
            if (held := self.same(obj)) is not None:
                self._drop(held)
        # each newer object was read, and each missing one is dropped
        self.synced = True
        self.on_state()

    def absent(self) -> None:
        """Note that the server does not serve the kind or forbids it. The copy stays."""
        self.served, self.failing = False, False
        self.on_state()

    def follow_fails(self) -> None:
        if not self.failing:
            self.failing = True
            self.on_state()

    def unsure(self) -> None:
        """Mark the copy as not `synced`: others have written, and it could not be updated."""
        self.synced = False
        self.on_state()

    def let_go(self, obj: T) -> None:
        """Drop an object that is no longer wanted. It has not changed, so nobody is called."""
        self._objects.pop(key_of(obj), None)
        self._doubted.discard(key_of(obj))

    def changed(self, obj: T) -> None:
        version = version_of(obj.metadata.resource_version)
        # a watch that starts again may repeat events of objects that are gone
        if version < self.version and key_of(obj) not in self._objects:
            return
        # versions of one kind only grow, so everything before this one has been brought
        self.bookmark(obj.metadata.resource_version)
        self._take(obj)

    def deleted(self, last: T) -> None:
        version = version_of(last.metadata.resource_version)
        self.bookmark(last.metadata.resource_version)
        held = self._objects.get(key_of(last))
        if held is None:
            return
        newer = version_of(held.metadata.resource_version) < version
        # the name may have been used again: then the event is about the object before
        if held.metadata.uid == last.metadata.uid:
            self._drop(last if newer else held)
        elif newer:
            self._drop(held)

    def forgotten(self, namespace: str, name: str, uid: str) -> None:
        """Apply a DELETED event whose object cannot be read."""
        held = self._objects.get((namespace, name))
        # a new object of the same name is another one
        if held is not None and held.metadata.uid == uid:
            self._drop(held)

    def bookmark(self, version: str) -> None:
        self.version = max(self.version, version_of(version))
        self.newest = max(self.newest, self.version)

    def learn(self, obj: T) -> bool:
        """Apply an object from the API server's answer to a write or read. Returns False if the
        object has been deleted since; the copy does not change then."""
        version = version_of(obj.metadata.resource_version)
        held = self._objects.get(key_of(obj))
        if held is None and version <= self.version:
            return False
        if held is not None and held.metadata.uid != obj.metadata.uid:
            if version <= version_of(held.metadata.resource_version):
                return False
        self._take(obj)
        return True

    def _note_synced(self) -> None:
        self.served = self.synced = True
        self.failing = False
        self.on_state()

    def _take(self, obj: T, *, slim: bool = False) -> None:
        key = key_of(obj)
        version = version_of(obj.metadata.resource_version)
        self.newest = max(self.newest, version)
        held = self._objects.get(key)
        if self._wanted is not None and not self._wanted(obj):
            if held is not None:
                self._drop(held)
            return
        if held is not None:
            copied = version_of(held.metadata.resource_version)
            if version < copied or (version == copied and key not in self._doubted):
                return
        self._put(obj if self._slim is None or slim else self._slim(obj))

    def _put(self, obj: T) -> None:
        key = key_of(obj)
        held = self._objects.get(key)
        if held is not None and held.metadata.uid != obj.metadata.uid:
            # listeners never see an object become another one
            self._drop(held)
            held = None
        self._objects[key] = obj
        self._doubted.discard(key)
        self.on_change(held, obj)

    def _drop(self, last: T) -> None:
        del self._objects[key_of(last)]
        self._doubted.discard(key_of(last))
        self.on_change(last, None)
