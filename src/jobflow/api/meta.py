"""What every Kubernetes object carries, and how our types meet JSON.

All types are frozen msgspec structs with camelCase names on the wire. A field at its default is
left out when encoding, so an empty timestamp is absent and never null. Decoding is lenient: what
a stored object may hold, a type here accepts; rules live in `jobflow.core.admission.validate`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec


def Doc(description: str, **schema: Any) -> msgspec.Meta:  # noqa: N802 - reads as an annotation
    """A field's description for `kubectl explain`, and what its CRD schema says besides its type.

    `schema` never constrains decoding: it reaches the CRD alone.
    """
    return msgspec.Meta(description=description, extra_json_schema=schema or None)


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
    """`metadata` of an object, as far as JobFlow reads it."""

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


class Object(Struct, frozen=True, kw_only=True):
    """An object of a kind that JobFlow only needs the metadata of."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ListMeta(Struct, frozen=True, kw_only=True):
    """`metadata` of a list: the version to watch from and, while pages are left, the next one."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


Timestamp = Annotated[datetime, Doc("RFC 3339, UTC, whole seconds.")]
