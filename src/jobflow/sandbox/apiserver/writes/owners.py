"""Who owns whom: an index of owner references by UID, kept up with every change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobflow.sandbox.apiserver.kinds import Object
from jobflow.sandbox.apiserver.storage import DELETED, Change, Key

Place = tuple[str, Key]
"""A bucket and the key of an object in it."""


class Owners:
    """The index."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}

    def learn(self, bucket: str, change: Change) -> None:
        """A change of any bucket."""
        place = (bucket, change.new.key)
        if change.old is not None:
            for reference in references(change.old.obj):
                self._release(reference["uid"], place)
        if change.type == DELETED:
            self._places.pop(change.new.uid, None)
            return
        self._places[change.new.uid] = place
        for reference in references(change.new.obj):
            self._dependents.setdefault(reference["uid"], set()).add(place)

    def _release(self, uid: str, place: Place) -> None:
        held = self._dependents.get(uid)
        if held is not None:
            held.discard(place)
            if not held:
                del self._dependents[uid]

    def place(self, uid: str) -> Place | None:
        """Where the object of this UID is; None where there is none."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[Place]:
        """The objects that name this UID as an owner, in order."""
        return sorted(self._dependents.get(uid, ()))


def references(obj: Object) -> list[dict[str, Any]]:
    """`metadata.ownerReferences`; empty where there are none."""
    return obj["metadata"].get("ownerReferences") or []


def without(obj: Object, uids: Iterable[str]) -> Object:
    """The object without the references to these owners."""
    gone = set(uids)
    kept = [reference for reference in references(obj) if reference["uid"] not in gone]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}}
