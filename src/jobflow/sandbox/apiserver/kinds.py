"""What a kind is to the API server: names, scope, columns, rules. Holds no objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobflow.core.violations import Violation

Object = dict[str, Any]
"""An object as JSON. One that is stored is never changed in place."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Rules:
    """What a kind demands of its objects beyond their metadata. This one demands nothing."""

    def complete(self, obj: Object) -> list[str]:
        """Drop unknown fields and fill in defaults, in place; returns the paths dropped."""
        return []

    def begin(self, obj: Object) -> None:
        """Give a new object what the server adds to it beyond metadata, in place."""

    def finalizers(self, obj: Object) -> list[str]:
        """What an object that is being deleted still waits for."""
        return obj["metadata"].get("finalizers") or []

    def carry_over(self, obj: Object, old: Object) -> None:
        """Keep what an update of the object itself cannot change beyond metadata, in place."""

    def undeletable(self, name: str) -> str:
        """Why the object of this name may not be deleted; empty where it may."""
        return ""

    def grace(self, obj: Object, asked: int | None) -> int:
        """Seconds that an object has before it goes; 0: none. `asked`: by who deletes it."""
        return 0

    def mark(self, obj: Object) -> None:
        """What else changes in an object that is being deleted from now on, in place."""

    def violations(self, obj: Object, old: Object | None) -> Iterable[Violation]:
        """What is wrong with an object that is created (no `old`) or updated."""
        return ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. `value` computes a cell from an object."""

    name: str
    type: str
    value: Callable[[Object], Any]
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Projection:
    """How one stored kind is shown as another version or group, and taken in again."""

    show: Callable[[Object], Object]
    take: Callable[[Object], Object]


def _no_fields(obj: Object) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind in one version, as served."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    """Served from a CustomResourceDefinition: no strategic merge patch, no unconditional PUT."""
    generation: bool = False
    """Whether `metadata.generation` counts changes of what is not metadata or status."""
    returns_deleted: bool = False
    """Whether DELETE answers with the object and not with a Status."""
    label_name: bool = False
    """Whether a name has to be a DNS label (no dots), not a subdomain."""
    columns: tuple[Column, ...] = ()
    rules: Rules = field(default_factory=Rules)
    fields: Callable[[Object], Mapping[str, str]] = _no_fields
    """The field selectors beside metadata.name and metadata.namespace, and their values."""
    selectable: frozenset[str] = frozenset()
    """Names of those field selectors."""
    projection: Projection | None = None
    stored_as: str = ""
    """The bucket, where it is not the kind's own."""
    openapi: Mapping[str, Any] | None = None
    """The schema for `kubectl explain`."""

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`plural.group`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def bucket(self) -> str:
        """Where its objects are stored."""
        return self.stored_as or self.qualified

    @property
    def one(self) -> str:
        """The singular, as in `kubectl get jobflow`."""
        return self.singular or self.kind.lower()

    @property
    def many(self) -> str:
        """The kind of a list."""
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        """Whether status is written through its subresource alone."""
        return "status" in self.subresources


class Registry:
    """The kinds that are served now."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._stored: dict[str, Kind] = {}
        for kind in kinds:
            self.serve(kind)

    def serve(self, kind: Kind) -> None:
        """Serve a kind from now on; one that was served under the same path is replaced."""
        self._kinds[kind.group, kind.version, kind.plural] = kind
        if not kind.stored_as:
            self._stored[kind.bucket] = kind

    def withdraw(self, group: str, plural: str) -> None:
        """Serve no version of this kind any longer."""
        for key in [key for key in self._kinds if (key[0], key[2]) == (group, plural)]:
            self._stored.pop(self._kinds.pop(key).bucket, None)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind under this path."""
        return self._kinds.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object says it is."""
        return next(
            (k for k in self._kinds.values() if (k.api_version, k.kind) == (api_version, kind)),
            None,
        )

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))

    def stored(self) -> Iterator[Kind]:
        """One kind for each bucket."""
        return iter(list(self._stored.values()))

    def of_bucket(self, bucket: str) -> Kind | None:
        """The kind that is stored there."""
        return self._stored.get(bucket)
