"""Who has last written the status of a flow, by `metadata.managedFields`.

The API server notes for each writer the fields that it has changed last, with the time of its last
change. `status.conditions` has one owner as a whole, so whoever changed any of them owns all.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from jobflow.api.meta import Struct
from jobflow.kube.reading import decoder

OWN_MANAGER = "jobflow"
"""The name of every replica, which the API server takes from the User-Agent of its requests."""


class StatusFields(Struct, frozen=True, kw_only=True):
    """Fields of a status that somebody owns, as far as they matter."""

    conditions: msgspec.Raw = msgspec.field(name="f:conditions", default=msgspec.Raw())


class OwnedFields(Struct, frozen=True, kw_only=True):
    """`fieldsV1`."""

    status: StatusFields | None = msgspec.field(name="f:status", default=None)


class FieldOwner(Struct, frozen=True, kw_only=True):
    """One entry of `managedFields`."""

    manager: str = ""
    time: datetime | None = None
    fields: OwnedFields = msgspec.field(name="fieldsV1", default_factory=OwnedFields)


class StatusWriter(NamedTuple):
    """Somebody else who has written the status of a flow last."""

    name: str
    """Its field manager, such as vc-controller-manager."""
    after_ours: bool
    """Whether JobFlow has written the status too. If not, JobFlow may not have begun the flow."""


def find_status_writer(managed_fields: bytes | msgspec.Raw) -> StatusWriter | None:
    """Return who has written the status of a flow after JobFlow; None if nobody has.
    `managed_fields` is JSON. Raises UnreadableAnswer."""
    owners: Sequence[FieldOwner] = decoder(list[FieldOwner]).decode(managed_fields)
    ours = [each.time for each in owners if _writes(each) and each.manager == OWN_MANAGER]
    last = max((time for time in ours if time is not None), default=None)
    for each in owners:
        if each.manager == OWN_MANAGER or each.fields.status is None:
            continue
        is_later = last is not None and each.time is not None and each.time > last
        if is_later or each.fields.status.conditions:
            return StatusWriter(each.manager, after_ours=bool(ours))
    return None


def _writes(owner: FieldOwner) -> bool:
    return owner.fields.status is not None
