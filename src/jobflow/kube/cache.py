"""A copy of the objects of one kind that never goes back in time. Talks to nobody but its handler.

Three hands write to it: a list (`replace`), a watch (`changed`, `deleted`) and whoever wrote an
object to the API server or read it live (`learn`). They come in any order, so versions decide.

Resource versions compare as integers within one kind (KEP-5504), across objects too. `version` is
how far list and watch have come: everything up to it is in the copy. Hence an object at or below
`version` that the copy lacks has been deleted since, and one above it is news. (A copy that keeps
only what is `wanted` may lack others too: nobody may ask it by `learn` what has been deleted.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from jobflow.api.meta import ObjectMeta


class Kept(Protocol):
    """An object of any kind."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Kept)
Key = tuple[str, str]
"""Namespace and name."""
OnChange = Callable[[T | None, T | None], None]
"""Told of every change of the copy: (None, new) added, (old, new) changed, (last, None) deleted."""


def version_of(text: str) -> int:
    """A resource version as a number; 0 where there is none."""
    return int(text) if text.isascii() and text.isdigit() else 0


def key_of(obj: Kept) -> Key:
    """Where the copy keeps an object."""
    return obj.metadata.namespace, obj.metadata.name


class Cache(Generic[T]):
    """The copy of one kind, or of what of it is `wanted`. `on_change` is called after the copy has
    changed."""

    def __init__(
        self,
        on_change: OnChange[T] | None = None,
        *,
        slim: Callable[[T], T] | None = None,
        wanted: Callable[[T], bool] | None = None,
    ) -> None:
        self.on_change: OnChange[T] = on_change or _nobody
        self.version = 0
        self.served: bool | None = None
        """False while the server does not serve the kind or forbids it; None: not known yet."""
        self.synced = False
        """Whether the copy has ever been level with a whole list."""
        self.failing = False
        """Whether the last try to follow the kind failed, so that the copy may be empty or old."""
        self.on_state: Callable[[], None] = _nothing
        """Called when `served`, `synced` or `failing` may have changed."""
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
        """Whether the kind was listed, is refused to us, or cannot be followed at present."""
        return self.served is not None or self.failing

    def get(self, namespace: str, name: str) -> T | None:
        """The copy of an object."""
        return self._objects.get((namespace, name))

    # ------------------------------------------------------------------ from list and watch

    def shared(self, obj: T) -> T | None:
        """What to keep of an object that a list brings: our own copy where it is the same version,
        else a slim one; None: nothing. So that a list of a hundred thousand is not held twice."""
        if self._wanted is not None and not self._wanted(obj):
            return None
        held = self._objects.get(key_of(obj))
        if held is not None and _same(held.metadata, obj.metadata):
            if key_of(obj) not in self._doubted:
                return held
        return obj if self._slim is None else self._slim(obj)

    def replace(
        self, objects: Iterable[T], version: str, *, unreadable: Collection[str] = ()
    ) -> None:
        """Bring the copy level with a whole list taken at `version`, its objects as from `shared`.

        What the list lacks is gone, unless it was written after the list was taken, or the list
        holds it in a form we cannot read (`unreadable` UIDs): then the last readable copy stays.
        """
        taken = version_of(version)
        missing = dict(self._objects)
        for obj in objects:
            missing.pop(key_of(obj), None)
            self._take(obj, slim=True)
        self.version = max(self.version, taken)
        for obj in missing.values():
            meta = obj.metadata
            if version_of(meta.resource_version) <= taken and meta.uid not in unreadable:
                self._drop(obj)
        self.served = self.synced = True
        self.failing = False
        self.on_state()

    def doubt(self) -> None:
        """What is held may lack what the server has under the same version, which it served under
        another schema: the next object of that version takes its place."""
        self._doubted.update(self._objects)

    def lacking(self, present: Collection[str], version: str) -> list[T]:
        """What the copy holds though a whole list taken at `version` lacks its UID: it has been
        deleted, and a watch may bring its last object yet."""
        taken = version_of(version)
        return [
            obj
            for obj in self
            if obj.metadata.uid not in present
            and version_of(obj.metadata.resource_version) <= taken
        ]

    def level_with(self, version: str, gone: Iterable[T]) -> None:
        """All that a whole list taken at `version` has newer than the copy was brought by `learn`;
        `gone` is what it lacks, and goes if it is still here."""
        self._advance(version)
        for obj in gone:
            held = self._objects.get(key_of(obj))
            if held is not None and held.metadata.uid == obj.metadata.uid:
                self._drop(held)
        self.synced = True
        self.on_state()

    def absent(self) -> None:
        """The server does not serve the kind, or not to us. What was copied stays."""
        self.served, self.failing = False, False
        self.on_state()

    def follow_fails(self, failing: bool) -> None:
        """The last try to follow the kind failed, or worked. The copy stays as it is."""
        if failing != self.failing:
            self.failing = failing
            self.on_state()

    def unsure(self) -> None:
        """Somebody else has written, and the copy cannot be brought level: it is not `synced` until
        it is level again."""
        self.synced = False
        self.on_state()

    def let_go(self, obj: T) -> None:
        """What is held under this name is wanted no longer. `on_change` is not called: nothing has
        happened to it."""
        self._objects.pop(key_of(obj), None)
        self._doubted.discard(key_of(obj))

    def changed(self, obj: T) -> None:
        """An ADDED or MODIFIED event; passed over where the object has been deleted since."""
        version = version_of(obj.metadata.resource_version)
        if version < self.version and key_of(obj) not in self._objects:
            return
        self._advance(obj.metadata.resource_version)
        self._take(obj)

    def deleted(self, last: T) -> None:
        """A DELETED event; `last` is the object as it was."""
        version = version_of(last.metadata.resource_version)
        self._advance(last.metadata.resource_version)
        held = self._objects.get(key_of(last))
        if held is None:
            return
        newer = version_of(held.metadata.resource_version) < version
        if held.metadata.uid == last.metadata.uid:
            self._drop(last if newer else held)
        elif newer:
            self._drop(held)

    def forgotten(self, namespace: str, name: str, uid: str) -> None:
        """A DELETED event whose last object cannot be read."""
        held = self._objects.get((namespace, name))
        if held is not None and held.metadata.uid == uid:
            self._drop(held)

    def bookmark(self, version: str) -> None:
        """Nothing of this kind has changed up to `version` but what was told."""
        self._advance(version)

    # ------------------------------------------------------------------ from writes and live reads

    def learn(self, obj: T) -> bool:
        """An object as the API server just answered a write or a read with it.

        False where the object has been deleted since: the copy then stays without it.
        """
        version = version_of(obj.metadata.resource_version)
        held = self._objects.get(key_of(obj))
        if held is None and version <= self.version:
            return False
        if held is not None and held.metadata.uid != obj.metadata.uid:
            if version <= version_of(held.metadata.resource_version):
                return False
        self._take(obj)
        return True

    # ------------------------------------------------------------------

    def _take(self, obj: T, *, slim: bool = False) -> None:
        key = key_of(obj)
        held = self._objects.get(key)
        if self._wanted is not None and not self._wanted(obj):
            if held is not None:
                self._drop(held)
            return
        if held is not None:
            newer = version_of(obj.metadata.resource_version)
            older = version_of(held.metadata.resource_version)
            if newer < older or (newer == older and key not in self._doubted):
                return
            if held.metadata.uid != obj.metadata.uid:
                self._drop(held)
                held = None
        if self._slim is not None and not slim:
            obj = self._slim(obj)
        self._objects[key] = obj
        self._doubted.discard(key)
        self.on_change(held, obj)

    def _drop(self, last: T) -> None:
        del self._objects[key_of(last)]
        self._doubted.discard(key_of(last))
        self.on_change(last, None)

    def _advance(self, version: str) -> None:
        self.version = max(self.version, version_of(version))


def _same(held: ObjectMeta, other: ObjectMeta) -> bool:
    return held.uid == other.uid and held.resource_version == other.resource_version


def _nothing() -> None:
    """Nobody waits."""


def _nobody(old: object, new: object) -> None:
    """Nobody listens."""
