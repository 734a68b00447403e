"""Kinds: their names, scope, columns and rules, and the registry of those served."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobflow.api.resources import Resource
from jobflow.core.violations import Reason, Violation

Object = dict[str, Any]
"""An object as JSON. A stored object is never changed in place."""


def value_at(obj: Any, path: str) -> Any:
    """Return the value at a path like `status.phase`; None if it is missing."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def require(obj: Mapping[str, Any], path: str, *names: str) -> Iterator[Violation]:
    """Yield a violation for each of these required fields that an object lacks."""
    for name in names:
        if not obj.get(name):
            yield Violation(f"{path}.{name}", Reason.REQUIRED, None, "")


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Rules:
    """Requirements of a kind beyond metadata. The base class has none."""

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        """Drop unknown fields and set defaults, in place; return the dropped paths. Parts shared
        with `old`, the stored object, stay."""
        return []

    def begin(self, obj: Object) -> None:
        """Set fields of a new object that the server owns, beyond metadata, in place."""

    def finalizers(self, obj: Object) -> list[str]:
        return obj["metadata"].get("finalizers") or []

    def carry_over(self, obj: Object, old: Object) -> None:
        """Restore fields that an update cannot change, beyond metadata, in place."""

    def undeletable(self, name: str) -> str | None:
        """Return the reason why this object may not be deleted, if there is one."""
        return None

    def grace(self, obj: Object, asked: int | None) -> int:
        """Return the grace period of a deletion in seconds; `asked` is the client's."""
        return 0

    def mark(self, obj: Object) -> None:
        """Change other fields of an object whose deletion starts, in place."""

    def violations(self, obj: Object, old: Object | None) -> Iterable[Violation]:
        """Return the violations of an object that is created (`old` is None) or updated."""
        return ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; `value` computes a cell from an object."""

    name: str
    value: Callable[[Object], Any]
    priority: int = 0
    type: str = "string"
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Resource):
    group: str = ""
    version: str = "v1"
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    """Whether a CRD defines it: no strategic merge patch, no unconditional PUT."""
    generation: bool = False
    """Whether `metadata.generation` counts changes outside metadata and status."""
    returns_deleted: bool = False
    """Whether DELETE returns the object instead of a Status."""
    label_name: bool = False
    """Whether a name must be a DNS label instead of a subdomain."""
    columns: tuple[Column, ...] = ()
    rules: Rules = field(default_factory=Rules)
    selectable: Mapping[str, str] = field(default_factory=dict)
    """Path of each field selector besides metadata.name and metadata.namespace."""
    show: Callable[[Object], Object] = lambda obj: obj
    """Converts a stored object to this version or group."""
    take: Callable[[Object], Object] = lambda obj: obj
    """Converts an object of this version or group to the stored one."""
    stored_as: str = ""
    """Bucket of another kind that holds the objects."""
    openapi: Mapping[str, Any] | None = None

    @property
    def base(self) -> str:
        """Path of the group and version, without the slash before it."""
        return f"apis/{self.api_version}" if self.group else f"api/{self.version}"

    @property
    def bucket(self) -> str:
        return self.stored_as or self.qualified

    @property
    def one(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def many(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        """Whether status is written only through its subresource."""
        return "status" in self.subresources


class Registry:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in kinds:
            self.serve(kind)

    def serve(self, kind: Kind) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind

    def withdraw(self, group: str, plural: str) -> None:
        for key in [key for key in self._kinds if (key[0], key[2]) == (group, plural)]:
            del self._kinds[key]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        wanted = (api_version, kind)
        return next((k for k in self._kinds.values() if (k.api_version, k.kind) == wanted), None)

    def __iter__(self) -> Iterator[Kind]:
        # A copy, because a write during the iteration may serve another kind.
        return iter(list(self._kinds.values()))

    def stored(self) -> Iterator[Kind]:
        # Another version of a kind has the objects of the stored one.
        return (kind for kind in self if not kind.stored_as)

    def of_bucket(self, bucket: str) -> Kind | None:
        return next((kind for kind in self.stored() if kind.bucket == bucket), None)
