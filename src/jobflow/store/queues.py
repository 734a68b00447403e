"""Volcano's queues, as far as admission reads them. Types only."""

from __future__ import annotations

import msgspec

from jobflow.api.meta import ObjectMeta, Struct


class QueueStatus(Struct, frozen=True, kw_only=True):
    """`status` of a Volcano Queue, as far as admission reads it."""

    state: str = ""


class Queue(Struct, frozen=True, kw_only=True):
    """`scheduling.volcano.sh/v1beta1` Queue."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)
