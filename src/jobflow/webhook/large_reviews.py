"""Offload of large reviews to a worker process, which the first one starts, and which ends after
idle time (docs/decisions/large-reviews.md)."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

import msgspec
import structlog

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.core.violations import Violation
from jobflow.webhook import review_worker
from jobflow.webhook.review.envelope import Answer, NotJudged, NotReady, UserInfo
from jobflow.webhook.review.judges import UNCHECKED, Cluster, Right, Rights

SECONDS = 8.0
"""Timeout of a review, including the wait for earlier ones; a review has 10 s."""
IDLE_SECONDS = 300.0
"""Idle time after which the worker, which takes some 60 MiB, is ended."""
MOST_WAITING = 16
MODULE = "jobflow.webhook.review_worker"

log = structlog.get_logger(__name__)
_answer = msgspec.msgpack.Decoder(Answer).decode
_violations = msgspec.msgpack.Decoder(tuple[Violation, ...]).decode


@dataclass(eq=False)
class ReviewProcess:
    """`review.LargeReviews` by a worker process that is started on demand. Must be closed."""

    cluster: Cluster
    rights: Rights = UNCHECKED
    seconds: float = SECONDS
    idle_seconds: float = IDLE_SECONDS
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0
    _process: Process | None = None
    _killed: list[Process] = field(default_factory=list)
    _idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def review(self, path: str, body: bytes) -> Answer:
        if reason := self.cluster.unfit():
            raise NotReady(reason)
        return _answer(await self._in_turn(review_worker.Review(path, body)))

    async def violations(self, flow: JobFlow) -> Sequence[Violation]:
        stored = msgspec.structs.replace(flow, status=JobFlowStatus())
        return _violations(await self._in_turn(review_worker.Check(msgspec.json.encode(stored))))

    async def _in_turn(self, message: review_worker.Review | review_worker.Check) -> msgspec.Raw:
        # more would time out in the queue
        if self._waiting >= MOST_WAITING:
            why = f"{self._waiting} large reviews are under way; try again"
            raise NotJudged(why, 429, "TooManyRequests", retry_after=1)
        self._waiting += 1
        # the time limit includes the wait, because the API server counts it too
        try:
            async with asyncio.timeout(self.seconds), self._turn:
                return await self._judge(message)
        except TimeoutError:
            log.warning("large review given up", **_words(message), seconds=self.seconds)
            raise NotJudged(
                f"the review was not finished within {self.seconds:g} s; "
                "try again, or split the object into several",
                504,
                "Timeout",
            ) from None
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._end()
        await self._reap()

    async def _judge(self, message: review_worker.Review | review_worker.Check) -> msgspec.Raw:
        if self._idle is not None:
            self._idle.cancel()
        try:
            if self._process is not None and self._process.returncode is not None:
                self._end()
            await self._reap()
            if (process := self._process) is None:
                # in its own session, so that Ctrl+C ends only the replica
                process = self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", MODULE, stdin=PIPE, stdout=PIPE, start_new_session=True
                )
                log.info("process for large reviews started", pid=process.pid)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(review_worker.frame(message))
            while True:
                head = await process.stdout.readexactly(review_worker.LENGTH.size)
                (length,) = review_worker.LENGTH.unpack(head)
                answer = review_worker.decode_in_replica(await process.stdout.readexactly(length))
                if isinstance(answer, review_worker.Finished):
                    break
                reply = review_worker.Reply(review_worker.raw(await self._answer(answer)))
                process.stdin.write(review_worker.frame(reply))
        except (asyncio.IncompleteReadError, OSError) as error:
            self._end()
            log.error("no process for large reviews", **_words(message), error=str(error))
            raise NotJudged(
                "the process for large reviews ended, perhaps because this one needs more "
                "memory than it has; try again, or split the object into several"
            ) from error
        except BaseException:
            self._end()  # otherwise its answer would be taken for that of the next review
            raise
        self._idle = asyncio.get_running_loop().call_later(self.idle_seconds, self._end)
        return answer.answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        if process.returncode is None:
            # it may be in the middle of a review that nobody waits for any more
            process.kill()
        self._killed.append(process)

    async def _reap(self) -> None:
        while self._killed:
            await self._killed.pop().communicate()

    async def _answer(self, question: review_worker.ClusterQuestion) -> Any:
        match question.method, question.arguments:
            case "is_controller", [user]:
                return await self.rights.is_controller(msgspec.convert(user, UserInfo))
            case "lacking", [user, right]:
                return await self.rights.lacking(
                    msgspec.convert(user, UserInfo), msgspec.convert(right, Right)
                )
            case "template_names", [namespace]:
                return list(self.cluster.templates(namespace))
            case "template", [namespace, name]:
                return self.cluster.templates(namespace).get(name)
            case "limits", [namespace, [of_steps, group]]:
                return list(self.cluster.limits(namespace, (of_steps, group)))
            case method, arguments:
                value = getattr(self.cluster, method)(*arguments)
                return await value if isawaitable(value) else value


def _words(message: review_worker.Review | review_worker.Check) -> dict[str, Any]:
    if isinstance(message, review_worker.Check):
        return {"path": "", "size": len(message.flow)}
    return {"path": message.path, "size": len(message.body)}
