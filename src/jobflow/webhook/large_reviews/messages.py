"""Messages between a replica and its worker process for large reviews.

A review is answered by questions about the cluster, with a reply to each, and its finished review.
"""

import struct
from typing import Any

import msgspec

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


class ClusterQuestion(msgspec.Struct, tag=True):
    """A call of a method of `judges.Cluster`, or of one of those in `offload.Aside`."""

    method: str
    arguments: list[Any]


_encode = msgspec.msgpack.Encoder().encode
_to_worker: msgspec.msgpack.Decoder[Review | Reply] = msgspec.msgpack.Decoder(Review | Reply)
_to_replica: msgspec.msgpack.Decoder[FinishedReview | ClusterQuestion] = msgspec.msgpack.Decoder(
    FinishedReview | ClusterQuestion
)
decode_in_worker = _to_worker.decode
decode_in_replica = _to_replica.decode


def raw(value: Any) -> msgspec.Raw:
    """Return a value as a field of a message."""
    return msgspec.Raw(_encode(value))


def frame(message: Review | Reply | FinishedReview | ClusterQuestion) -> bytes:
    """Return a message as a frame."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
