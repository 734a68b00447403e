"""Messages between a replica and its worker process for large reviews.

A review, or a check, is answered by questions about the cluster, with a reply to each, and its end.
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


class Check(msgspec.Struct, tag=True):
    """A flow (JSON) that may have been stored without review. The answer is its violations."""

    flow: bytes


class Reply(msgspec.Struct, tag=True):
    """The answer to a question."""

    value: msgspec.Raw


class Finished(msgspec.Struct, tag=True):
    """The answer: to a review a `review.Answer`, to a check a list of violations."""

    answer: msgspec.Raw


class ClusterQuestion(msgspec.Struct, tag=True):
    """A call of a method of `judges.Cluster`, or of one of those in `offload.ReviewProcess`."""

    method: str
    arguments: list[Any]


_encode = msgspec.msgpack.Encoder().encode
_to_worker: msgspec.msgpack.Decoder[Review | Check | Reply] = msgspec.msgpack.Decoder(
    Review | Check | Reply
)
_to_replica: msgspec.msgpack.Decoder[Finished | ClusterQuestion] = msgspec.msgpack.Decoder(
    Finished | ClusterQuestion
)
decode_in_worker = _to_worker.decode
decode_in_replica = _to_replica.decode


def raw(value: Any) -> msgspec.Raw:
    """Return a value as a field of a message."""
    return msgspec.Raw(_encode(value))


def frame(message: Review | Check | Reply | Finished | ClusterQuestion) -> bytes:
    """Return a message as a frame."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
