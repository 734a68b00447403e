"""Messages between a replica and its worker process for large reviews.

The replica sends a review; the worker asks questions about the cluster, each of which gets a reply,
and ends with the finished review.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from jobflow.webhook.review.envelope import UserInfo

LENGTH = struct.Struct(">I")
"""The head of a frame: the number of bytes of MessagePack that follow."""


class Review(msgspec.Struct, tag=True):
    """The body of a request to a review path."""

    path: str
    body: bytes


class Reply(msgspec.Struct, tag=True):
    """The answer to a question."""

    value: msgspec.Raw


class FinishedReview(msgspec.Struct, tag=True):
    """The answer to a review, a `review.Answer`."""

    answer: msgspec.Raw


class Follows(msgspec.Struct, tag=True):
    """Asks for `Cluster.follows`. Each class below asks for one method of `judges.Cluster`."""

    namespace: str


class Knows(msgspec.Struct, tag=True):
    namespace: str


class TemplateNames(msgspec.Struct, tag=True):
    """Asks for the keys of `templates`."""

    namespace: str


class OneTemplate(msgspec.Struct, tag=True):
    """Asks for one value of `templates`."""

    namespace: str
    name: str


class Queues(msgspec.Struct, tag=True):
    pass


class NeededBy(msgspec.Struct, tag=True):
    namespace: str
    template: str


class Terminating(msgspec.Struct, tag=True):
    namespace: str


class DryRunQuestion(msgspec.Struct, tag=True):
    namespace: str
    templates: list[bytes]


class Lacking(msgspec.Struct, tag=True):
    """Asks for `judges.Rights.lacking`."""

    user: UserInfo
    namespace: str


Question = (
    Follows
    | Knows
    | TemplateNames
    | OneTemplate
    | Queues
    | NeededBy
    | Terminating
    | DryRunQuestion
    | Lacking
)

_encode = msgspec.msgpack.Encoder().encode
_to_worker: msgspec.msgpack.Decoder[Review | Reply] = msgspec.msgpack.Decoder(Review | Reply)
_to_replica: msgspec.msgpack.Decoder[FinishedReview | Question] = msgspec.msgpack.Decoder(
    FinishedReview | Question
)


def decode_in_worker(body: bytes) -> Review | Reply:
    """Return a message from the replica."""
    return _to_worker.decode(body)


def decode_in_replica(body: bytes) -> FinishedReview | Question:
    """Return a message from the worker."""
    return _to_replica.decode(body)


def raw(value: Any) -> msgspec.Raw:
    """Return a value as a field of a message."""
    return msgspec.Raw(_encode(value))


def frame(message: Review | Reply | FinishedReview | Question) -> bytes:
    """Return a message as a frame."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
