"""Base types of Kubernetes objects, and their mapping to JSON.

All types are frozen msgspec structs with camelCase names in JSON. Encoding omits fields with their
default value, so an empty timestamp is absent and never null. Decoding accepts every value that a
stored object may have; the rules are in `jobflow.core.admission`.
"""

from datetime import datetime
from typing import Any

import msgspec


def Schema(**schema: Any) -> msgspec.Meta:  # noqa: N802 - reads as an annotation
    """Return additions to a field's schema in the CRD, which do not constrain decoding."""
    return msgspec.Meta(extra_json_schema=schema)


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all resource types."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """The owner of a dependent object; the garbage collector follows it by `uid`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """`metadata` of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference that has `controller: true`, if any."""
        return next((ref for ref in self.owner_references or () if ref.controller), None)

    def is_owned_by(self, other: "ObjectMeta") -> bool:
        """Return whether the controller of the object is the one with this metadata: a later object
        of the same name has another UID."""
        return (owner := self.controller) is not None and owner.uid == other.uid


class Object(Struct, frozen=True, kw_only=True):
    """An object of any kind, with its metadata only."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ListMeta(Struct, frozen=True, kw_only=True):
    """`metadata` of a list: the version to watch from, and `continue` except on the last page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
