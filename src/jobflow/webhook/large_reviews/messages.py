"""The messages between a replica and its process for large reviews: a review, questions about the
cluster, their replies, and the answer. Nothing is judged here.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from jobflow.webhook.review.envelope import UserInfo

LENGTH = struct.Struct(">I")
"""A frame is this, and as many bytes of MessagePack."""


class Review(msgspec.Struct, tag=True):
    """A body that came to a review path."""

    path: str
    body: bytes


class Reply(msgspec.Struct, tag=True):
    """The value that a question asks for."""

    value: msgspec.Raw


class FinishedReview(msgspec.Struct, tag=True):
    """A `review.FinishedReview`."""

    answer: msgspec.Raw


class Follows(msgspec.Struct, tag=True):
    """This question, and those below, is a method of `judges.Cluster`."""

    namespace: str


class Knows(msgspec.Struct, tag=True):
    namespace: str


class TemplateNames(msgspec.Struct, tag=True):
    """The keys of `templates`."""

    namespace: str


class OneTemplate(msgspec.Struct, tag=True):
    """One value of `templates`."""

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
    """A method of `judges.Rights`."""

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
_in_process: msgspec.msgpack.Decoder[Review | Reply] = msgspec.msgpack.Decoder(Review | Reply)
_in_replica: msgspec.msgpack.Decoder[FinishedReview | Question] = msgspec.msgpack.Decoder(
    FinishedReview | Question
)


def in_process(body: bytes) -> Review | Reply:
    """A message that came to the process."""
    return _in_process.decode(body)


def in_replica(body: bytes) -> FinishedReview | Question:
    """A message that came from it."""
    return _in_replica.decode(body)


def raw(value: Any) -> msgspec.Raw:
    """A value inside a frame."""
    return msgspec.Raw(_encode(value))


def frame(message: Review | Reply | FinishedReview | Question) -> bytes:
    """A message with its length before it."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
