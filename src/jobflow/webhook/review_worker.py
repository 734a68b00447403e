"""The worker process that judges large reviews, started by `large_reviews`, and the messages that
it exchanges with a replica: a review, or a check, is answered by questions about the cluster, with
a reply to each, and its end. It ends with its input."""

import gc
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, BinaryIO, TypeVar

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.core.admission.changes import Need
from jobflow.core.admission.validate import find_violations
from jobflow.core.spec.concurrency import GroupName
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import Right
from jobflow.webhook.review.review import reviewers
from jobflow.webhook.tried_pods import DryRun

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
    value: msgspec.Raw


class Finished(msgspec.Struct, tag=True):
    answer: msgspec.Raw


class ClusterQuestion(msgspec.Struct, tag=True):
    """A call of a method of `judges.Cluster` or `judges.Rights`, or for a template."""

    method: str
    arguments: list[Any]


ToWorker = Review | Check | Reply
ToReplica = Finished | ClusterQuestion
_encode = msgspec.msgpack.Encoder().encode
decode_in_worker: Callable[[bytes], ToWorker] = msgspec.msgpack.Decoder(ToWorker).decode
decode_in_replica: Callable[[bytes], ToReplica] = msgspec.msgpack.Decoder(ToReplica).decode


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


def frame(message: ToWorker | ToReplica) -> bytes:
    body = _encode(message)
    return LENGTH.pack(len(body)) + body


MEMORY = 384 * 1024**2
"""Limit of the address space. Together with a replica that knows 100,000 vcjobs it fits the chart's
memory limit. The largest flow that an API server takes needs a third of it."""

T = TypeVar("T")


class Replica:
    """The replica at the other end of the pipe: `judges.Cluster` and `judges.Rights`."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def receive(self) -> ToWorker | None:
        head = self._incoming.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack(head)
        return decode_in_worker(self._incoming.read(length))

    def send(self, message: ToReplica) -> None:
        self._outgoing.write(frame(message))
        self._outgoing.flush()

    def ask(self, typ: type[T] | Any, method: str, *arguments: Any) -> T:
        self.send(ClusterQuestion(method, [*arguments]))
        reply = self.receive()
        if not isinstance(reply, Reply):
            raise EOFError("the replica is gone")
        value: T = msgspec.msgpack.decode(reply.value, type=typ)
        return value

    def unfit(self) -> str | None:
        return None  # otherwise the replica would not have sent the review

    def outdated(self) -> str | None:
        return self.ask(str | None, "outdated")

    def follows(self, namespace: str) -> bool:
        return self.ask(bool, "follows", namespace)

    def knows(self, namespace: str) -> bool:
        return self.ask(bool, "knows", namespace)

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        return RemoteTemplates(self, namespace)

    def queues(self) -> Mapping[str, str] | None:
        return self.ask(dict[str, str] | None, "queues")

    def limits(self, namespace: str, group: GroupName) -> Sequence[int]:
        return self.ask(list[int], "limits", namespace, group)

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        return self.ask(list[Need], "needed_by", namespace, template)

    async def namespace_terminating(self, name: str) -> bool:
        return self.ask(bool, "namespace_terminating", name)

    async def flow_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        return self.ask(bool, "flow_is_gone", namespace, name, uid)

    async def flow(self, namespace: str, name: str) -> JobFlow | None:
        return self.ask(JobFlow | None, "flow", namespace, name)

    def why_spent(self, namespace: str, name: str) -> str:
        return self.ask(str, "why_spent", namespace, name)

    def reused_by(self, namespace: str, name: str, uid: str) -> Sequence[str]:
        return self.ask(list[str], "reused_by", namespace, name, uid)

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        return self.ask(list[DryRun | None], "dry_run", namespace, [*templates])

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        return self.ask(str | None, "lacking", user, right)

    async def is_controller(self, user: UserInfo) -> bool:
        return self.ask(bool, "is_controller", user)


class RemoteTemplates(Mapping[str, JobTemplate]):
    """The templates of a namespace, each fetched at its first use, because a review needs few."""

    def __init__(self, replica: Replica, namespace: str) -> None:
        self._replica = replica
        self._namespace = namespace
        self._fetched: dict[str, JobTemplate | None] = {}

    @cached_property
    def _names(self) -> frozenset[str]:
        return self._replica.ask(frozenset[str], "template_names", self._namespace)

    def __getitem__(self, name: str) -> JobTemplate:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._fetched:
            place = self._namespace, name
            self._fetched[name] = self._replica.ask(JobTemplate | None, "template", *place)
        if (found := self._fetched[name]) is None:  # deleted since
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


async def judge(replica: Replica) -> None:
    paths = reviewers(replica, rights=replica)
    while (message := replica.receive()) is not None and not isinstance(message, Reply):
        if isinstance(message, Check):
            found = find_violations(msgspec.json.decode(message.flow, type=JobFlow))
            replica.send(Finished(raw(found)))
            continue
        # one at a time, so that the memory limit is that of one review
        answer = await paths[message.path].review(message.body)
        # the values of violations may be large and are in the body already
        slim = tuple(replace(each, value=None, detail="", words="") for each in answer.violations)
        replica.send(Finished(raw(replace(answer, violations=slim))))


def main() -> None:
    """Judge reviews. Standard output is for messages only, so prints go to standard error."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # a print of a library would be read as a frame
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logs.configure()
    # values that are read form no cycles (docs/performance.md)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        run(judge(Replica(sys.stdin.buffer, outgoing)))
    except MemoryError:
        os._exit(1)  # there is no memory for a traceback either


if __name__ == "__main__":
    main()
