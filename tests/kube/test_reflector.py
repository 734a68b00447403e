"""A copy that follows a server with pages, broken connections, expired versions and refusals."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.api.resources import JOBS
from jobflow.api.volcano.job import Job
from jobflow.kube import reflector
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.clock import ExponentialBackoff, delay
from jobflow.kube.reflector import Reflector
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure, frame, page, thing


class World:
    reflector: Reflector[Job]

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cache = Cache[Job](self._tell)

    def _tell(self, old: Job | None, new: Job | None) -> None:
        obj = new or old
        assert obj is not None
        sign = "+" if old is None else "-" if new is None else "~"
        self.calls.append(sign + obj.metadata.name)

    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.cache)


@asynccontextmanager
async def following(
    server: ScriptedServer, *, max_age: float | None = None
) -> AsyncIterator[World]:
    """Run a reflector with very short backoffs."""
    world = World()
    async with Client(anonymous(server.url)) as client:
        short = ExponentialBackoff(first=0.0001, most=0.001)
        world.reflector = Reflector(client, JOBS, Job, world.cache, backoff=short, max_age=max_age)
        task = asyncio.create_task(world.reflector.run())
        try:
            yield world
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_a_watch_starts_at_the_version_of_the_list(server: ScriptedServer) -> None:
    server.lists += [page(7, thing("a", 1), more="next"), page(7, thing("b", 2))]
    async with following(server) as world:
        await server.until(lambda: server.watch_requests)
        assert world.names() == ["a", "b"]
        assert world.cache.synced
    assert server.watch_requests[0].query["resourceVersion"] == "7"
    assert "resourceVersion" not in server.list_requests[0].query


async def test_a_watch_continues_from_the_last_event(server: ScriptedServer) -> None:
    server.lists.append(page(7, thing("a", 1)))
    server.watches += [
        Answer(chunks=[frame("MODIFIED", thing("a", 8))]),
        Answer(chunks=[frame("ADDED", thing("b", 9)), b'{"type":"ADDED","ob']),
        Answer(chunks=[frame("DELETED", thing("a", 12))]),
        Answer(chunks=[frame("BOOKMARK", thing("", 40))]),
    ]
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 5)
        assert world.names() == ["b"]
    versions = [sent.query["resourceVersion"] for sent in server.watch_requests]
    assert versions == ["7", "8", "9", "12", "40"]
    assert len(server.list_requests) == 1


async def test_a_watch_whose_connection_broke_starts_with_a_list(server: ScriptedServer) -> None:
    server.lists += [page(7, thing("a", 1)), page(9, thing("b", 9))]
    server.watches.append(Answer(chunks=[frame("ADDED", thing("b", 8))], end="cut"))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.calls == ["+a", "+b", "~b", "-a"]
    assert [sent.query["resourceVersion"] for sent in server.watch_requests] == ["7", "9"]


async def test_a_watch_that_is_not_ended_in_time_has_broken(server: ScriptedServer) -> None:
    """Each watch ends soon, which proves that a copy of objects that do not change is current."""
    server.lists += [page(7, thing("a", 1)), page(9, thing("a", 1))]
    server.watches.append(Answer(chunks=[frame("BOOKMARK", thing("", 8))]))
    async with following(server, max_age=0.3):
        await server.until(lambda: len(server.watch_requests) == 3)
    assert [sent.query["resourceVersion"] for sent in server.watch_requests] == ["7", "8", "9"]


@pytest.mark.parametrize(
    "restored",
    [page(4, thing("a", 1), thing("c", 3)), page(90, thing("a", 1), thing("c", 3))],
    ids=["revisions", "objects"],
)
async def test_a_restored_server_replaces_the_copy(
    server: ScriptedServer, restored: Answer
) -> None:
    """Versions of objects may be the same, and the objects others."""
    server.lists += [page(7, thing("a", 5), thing("b", 6), thing("c", 3)), restored, restored]
    server.watches.append(Answer(end="cut"))
    async with following(server) as world:
        started_over: list[bool] = []
        world.cache.on_start_over = started_over.append
        await server.until(lambda: len(server.watch_requests) == 2)
        versions = {obj.metadata.name: obj.metadata.resource_version for obj in world.cache}
        assert versions == {"a": "1", "c": "3"}
        assert world.calls[3:] == ["~a", "~c", "-b"]
        assert started_over == [False]


@pytest.mark.parametrize(
    "expired",
    [
        Answer(410, failure(410, "Expired", "too old resource version")),
        Answer(chunks=[frame("ERROR", failure(410, "Expired", "too old resource version"))]),
        Answer(chunks=[frame("ERROR", failure(410, "Gone"))], end="hang"),
    ],
)
async def test_an_expired_version_starts_a_list(server: ScriptedServer, expired: Answer) -> None:
    server.lists += [page(7, thing("a", 1), thing("b", 2)), page(50, thing("b", 3), thing("c", 4))]
    server.watches.append(expired)
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.calls == ["+a", "+b", "~b", "+c", "-a"]
    assert server.watch_requests[1].query["resourceVersion"] == "50"


async def test_a_silent_watch_is_repeated_and_is_no_failure(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind that does not change may have no events for minutes, and no bookmarks either: the API
    server sends none of a version before that of the list."""
    monkeypatch.setattr("jobflow.kube.reflector.SILENCE_SECONDS", 0.05)
    server.lists.append(page(7, thing("a", 1)))
    async with following(server) as world:
        states: list[bool] = []
        world.cache.on_state = lambda: states.append(world.cache.failing)
        await server.until(lambda: len(server.watch_requests) == 4)
    assert not any(states)
    assert {sent.query["resourceVersion"] for sent in server.watch_requests} == {"7"}
    assert len(server.list_requests) == 1


async def test_an_error_event_is_not_stored_as_an_object(server: ScriptedServer) -> None:
    server.lists += [page(7, thing("a", 1)), page(8, thing("a", 1))]
    server.watches.append(Answer(chunks=[frame("ERROR", failure(500, "InternalError", "etcd"))]))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.calls == ["+a"]


@pytest.mark.parametrize(
    "chunk",
    [
        *(b"not json\n", b"[]\n", b'{"type":"NEWS","object":{}}\n', b'{"object":{}}\n'),
        *(frame(word, obj) for word in ("BOOKMARK", "ERROR") for obj in (5, {"metadata": 5})),
    ],
)
async def test_a_malformed_frame_starts_a_list(server: ScriptedServer, chunk: bytes) -> None:
    server.lists += [page(7), page(9, thing("a", 8))]
    server.watches.append(Answer(chunks=[chunk]))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.names() == ["a"]


async def test_a_refused_list_is_no_empty_list(server: ScriptedServer) -> None:
    busy = failure(429, "TooManyRequests", "storage is (re)initializing")
    server.lists += [
        Answer(429, busy),
        Answer(500, b"x"),
        Answer(end="cut"),
        page(7, thing("a", 1)),
    ]
    async with following(server) as world:
        await server.until(lambda: server.watch_requests)
        assert world.names() == ["a"]
        assert world.calls == ["+a"]


async def test_a_throttled_watch_keeps_its_version(server: ScriptedServer) -> None:
    server.lists.append(page(7))
    server.watches.append(Answer(429, failure(429, "TooManyRequests")))
    async with following(server):
        await server.until(lambda: len(server.watch_requests) == 2)
    assert len(server.list_requests) == 1


async def test_an_expired_list_is_read_in_one_page(server: ScriptedServer) -> None:
    server.lists += [
        page(7, thing("a", 1), more="next"),
        Answer(410, failure(410, "Expired", "continue token too old")),
        page(9, thing("a", 1), thing("b", 8)),
    ]
    async with following(server) as world:
        await server.until(lambda: server.watch_requests)
        assert world.names() == ["a", "b"]
    assert [sent.query.get("limit") for sent in server.list_requests] == ["500", "500", None]


async def test_a_kind_that_is_not_served_is_retried(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "ABSENT_SECONDS", 0.0)
    server.lists += [Answer(404, b"404 page not found\n"), Answer(403, failure(403, "Forbidden"))]
    server.lists.append(page(7, thing("a", 1)))
    async with following(server) as world:
        states: list[bool | None] = []
        world.cache.on_state = lambda: states.append(world.cache.served)
        await server.until(lambda: server.watch_requests)
        assert states == [False, False, True]


HTML = b"<html>please log in</html>"


@pytest.mark.parametrize("body", [HTML, b"", b"[]", b'{"items": 5}', b'{"items": [1', b"\xff"])
async def test_an_answer_without_a_list_is_requested_again(
    server: ScriptedServer, body: bytes
) -> None:
    server.lists += [Answer(body=body), page(7, thing("a", 1))]
    async with following(server) as world:
        await server.until(lambda: server.watch_requests)
        assert world.calls == ["+a"]


@pytest.mark.parametrize(
    "bad",
    [
        5,
        None,
        [],
        {"metadata": 5},
        {"metadata": {"name": 7}},
        thing("bad", 2) | {"metadata": {"name": "bad", "creationTimestamp": "yesterday"}},
        thing("bad", 2, status=[]),
    ],
)
async def test_a_malformed_object_does_not_hide_others(server: ScriptedServer, bad: Any) -> None:
    server.lists.append(page(7, thing("a", 1), bad))
    server.watches.append(Answer(chunks=[frame("ADDED", bad), frame("ADDED", thing("b", 9))]))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.names() == ["a", "b"]
        assert world.reflector.unreadable == 1
    assert len(server.list_requests) == 1
    assert server.watch_requests[1].query["resourceVersion"] == "9"


DEPTHS = pytest.mark.parametrize("depth", [600, 984, 3_000, 30_000])
"""Too deep to read, some below the limits of the interpreter and some above."""


def nest(encoded: bytes, depth: int) -> bytes:
    """Replace the text DEEP in the JSON with this many nested maps."""
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    assert b'"DEEP"' in encoded
    return encoded.replace(b'"DEEP"', deep)


@DEPTHS
async def test_too_deeply_nested_events_are_skipped(server: ScriptedServer, depth: int) -> None:
    server.lists.append(page(7, thing("a", 1)))
    deep = nest(frame("ADDED", thing("deep", 8, spec="DEEP")), depth)
    server.watches.append(Answer(chunks=[deep]))
    server.watches.append(Answer(chunks=[frame("ADDED", thing("b", 9))]))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 3)
        assert world.names() == ["a", "b"]
        assert world.reflector.unreadable == 1
    assert server.watch_requests[1].query["resourceVersion"] == "8"


@DEPTHS
async def test_too_deeply_nested_objects_are_skipped(server: ScriptedServer, depth: int) -> None:
    listed = json.dumps(page(7, thing("a", 1), thing("deep", 8, spec="DEEP"), thing("b", 2)).body)
    server.lists.append(Answer(body=nest(listed.encode(), depth)))
    async with following(server) as world:
        await server.until(lambda: server.watch_requests)
        assert world.calls == ["+a", "+b"]
        assert world.reflector.unreadable == 1


@DEPTHS
async def test_the_last_readable_copy_is_kept(server: ScriptedServer, depth: int) -> None:
    server.lists.append(page(7, thing("a", 1)))
    changed, deleted = (
        nest(frame(word, thing("a", version, spec="DEEP")), depth)
        for word, version in (("MODIFIED", 8), ("DELETED", 9))
    )
    server.watches += [Answer(chunks=[changed]), Answer(chunks=[deleted])]
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert world.calls == ["+a"]
        await server.until(lambda: len(server.watch_requests) == 3)
        assert world.calls == ["+a", "-a"]
        assert world.reflector.unreadable == 0


async def test_an_object_that_becomes_readable_is_stored(
    server: ScriptedServer,
) -> None:
    server.lists.append(page(7, thing("a", 1, status=[])))
    server.watches.append(Answer(chunks=[frame("MODIFIED", thing("a", 8))]))
    async with following(server) as world:
        await server.until(lambda: len(server.watch_requests) == 2)
        assert (world.names(), world.reflector.unreadable) == (["a"], 0)


async def test_an_unreadable_object_is_logged_once_for_each_version(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = thing("bad", 2, status=[])
    server.lists += [page(7, bad), page(8, bad), page(9, thing("bad", 9, status=[]))]
    server.watches += [Answer(410, failure(410, "Expired"))] * 2
    async with following(server):
        await server.until(lambda: len(server.watch_requests) == 3)
    entries = [vars(record) for record in caplog.records if "passing it over" in record.msg]
    assert [entry["object"] for entry in entries] == ["ns/bad", "ns/bad"]


def test_delays_double_up_to_a_limit_and_have_jitter() -> None:
    assert [delay(n, first=1, most=10, dice=lambda: 0.0) for n in range(6)] == [1, 2, 4, 8, 10, 10]
    assert delay(2, first=1, most=10, dice=lambda: 1.0) == 2
    assert delay(10_000, first=1, most=10, dice=lambda: 0.0) == 10


def test_a_success_resets_the_delays() -> None:
    backoff = ExponentialBackoff(first=1, most=10, dice=lambda: 0.0)
    assert [backoff.next(), backoff.next()] == [1, 2]
    backoff.reset()
    assert backoff.next() == 1


async def test_a_list_waits_for_the_given_prerequisite(server: ScriptedServer) -> None:
    server.lists += [Answer(body={}), page(5, thing("a", 3))]
    cache = Cache[Job]()
    async with Client(anonymous(server.url)) as client:

        async def first() -> None:
            await client.request("GET", "/first")

        follow = Reflector(client, JOBS, Job, cache, after=first)
        task = asyncio.create_task(follow.run())
        await server.until(lambda: server.watch_requests)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [sent.path for sent in server.list_requests] == ["/first", JOBS.path()]
    assert [job.metadata.name for job in cache] == ["a"]
