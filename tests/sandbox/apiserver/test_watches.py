"""Watches of the API server: what is sent, from which version on, and when it is too late."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.sandbox.rest_client import (
    FLOWS,
    NAMESPACES,
    TABLE,
    VCJOBS,
    Ended,
    Rest,
    flow,
    rest,
    vcjob,
)


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


async def version(api: Rest) -> str:
    """The version of a list now."""
    return str((await api.get(FLOWS)).meta["resourceVersion"])


async def test_a_watch_tells_all_changes_in_order(api: Rest) -> None:
    async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
        await api.made(FLOWS, flow())
        await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "1/1"}})
        await api.delete(f"{FLOWS}/f")
        frames = [await watch.next() for _ in range(3)]
    assert [frame["type"] for frame in frames] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(frame["object"]["metadata"]["resourceVersion"]) for frame in frames]
    assert versions == sorted(set(versions))
    assert frames[2]["object"]["status"] == {"progress": "1/1"}


async def test_a_watch_from_a_version_is_told_what_it_missed(api: Rest) -> None:
    since = await version(api)
    await api.made(FLOWS, flow())
    await api.delete(f"{FLOWS}/f")
    async with api.watch(FLOWS, resourceVersion=since) as watch:
        assert [await watch.named(), await watch.named()] == [("ADDED", "f"), ("DELETED", "f")]


async def test_a_watch_from_no_version_begins_with_what_is_there(api: Rest) -> None:
    await api.made(FLOWS, flow("a"))
    for query in ({}, {"resourceVersion": "0"}):
        async with api.watch(FLOWS, **query) as watch:
            await api.patch(f"{FLOWS}/a", {"metadata": {"labels": {"x": str(len(query))}}})
            assert [await watch.named(), await watch.named()] == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_a_watch_is_of_its_kind_and_namespace(api: Rest) -> None:
    await api.made(NAMESPACES, {"metadata": {"name": "other"}})
    async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
        await api.made(VCJOBS, vcjob("j"))
        await api.made(FLOWS.replace("default", "other"), flow("elsewhere"))
        await api.made(FLOWS, flow("here"))
        assert await watch.named() == ("ADDED", "here")


async def test_objects_come_into_a_selection_and_leave_it(api: Rest) -> None:
    await api.made(FLOWS, flow(labels={"team": "a"}))
    since = await version(api)
    async with api.watch(FLOWS, resourceVersion=since, labelSelector="team=b") as watch:
        for team in ("b", "b2", "b", "c"):
            await api.patch(f"{FLOWS}/f", {"metadata": {"labels": {"team": team}}})
        assert [(await watch.next())["type"] for _ in range(4)] == [
            "ADDED",
            "DELETED",
            "ADDED",
            "DELETED",
        ]


async def test_a_watch_of_one_object_is_of_no_other(api: Rest) -> None:
    async with api.watch(
        FLOWS, resourceVersion=await version(api), fieldSelector="metadata.name=b"
    ) as watch:
        await api.made(FLOWS, flow("a"))
        await api.made(FLOWS, flow("b"))
        assert await watch.named() == ("ADDED", "b")


async def test_a_version_that_is_forgotten_is_an_error_event(api: Rest) -> None:
    since = await version(api)
    await api.made(FLOWS, flow())
    api.server.expire_history()
    async with api.watch(FLOWS, resourceVersion=since) as watch:
        frame = await watch.next()
        assert frame["type"] == "ERROR"
        assert (frame["object"]["code"], frame["object"]["reason"]) == (410, "Expired")
        assert frame["object"]["message"].startswith("too old resource version: ")
        with pytest.raises(Ended):
            await watch.next()


async def test_history_is_a_ring() -> None:
    async with rest(history=3) as api:
        since = await version(api)
        for name in ("a", "b", "c"):
            await api.made(FLOWS, flow(name))
        async with api.watch(FLOWS, resourceVersion=since) as watch:
            assert await watch.named() == ("ADDED", "a")
        await api.made(FLOWS, flow("d"))
        async with api.watch(FLOWS, resourceVersion=since) as watch:
            assert (await watch.next())["object"]["code"] == 410


async def test_large_changes_are_forgotten_sooner(api: Rest) -> None:
    since = await version(api)
    await api.made(FLOWS, flow("f", *(f"step-{'x' * 50}-{i}" for i in range(10_000))))
    for i in range(24):
        await api.patch(f"{FLOWS}/f", {"metadata": {"labels": {"i": str(i)}}})
    async with api.watch(FLOWS, resourceVersion=since) as watch:
        assert (await watch.next())["object"]["code"] == 410


async def test_a_version_of_the_future_is_waited_for(api: Rest) -> None:
    soon = str(int(await version(api)) + 2)
    async with api.watch(FLOWS, resourceVersion=soon) as watch:
        for name in ("a", "b", "c"):
            await api.made(FLOWS, flow(name))
        assert await watch.named() == ("ADDED", "c")
    answer = await api.get(f"{FLOWS}/c", resourceVersion="999999")
    assert answer.code == 504 and "Too large resource version" in answer.message


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"resourceVersion": "x"}, 500),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"sendInitialEvents": "true"}, 422),
        ({"timeoutSeconds": "x"}, 400),
    ],
)
async def test_watches_that_are_refused(api: Rest, query: dict[str, str], code: int) -> None:
    assert (await api.get(FLOWS, watch="1", **query)).code == code


async def test_bookmarks_carry_the_version_of_everything() -> None:
    async with rest(bookmark_seconds=0.01) as api:
        async with api.watch(FLOWS, allowWatchBookmarks="true", resourceVersion="5") as watch:
            made = await api.made(VCJOBS, vcjob("j"))
            frame = await watch.next()
            while (
                frame["object"]["metadata"]["resourceVersion"]
                != made["metadata"]["resourceVersion"]
            ):
                frame = await watch.next()
        assert frame["type"] == "BOOKMARK"
        assert frame["object"]["kind"] == "JobFlow" and "spec" not in frame["object"]


async def test_nobody_gets_bookmarks_who_did_not_ask() -> None:
    async with rest(bookmark_seconds=0.001) as api:
        async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
            for name in ("a", "b", "c"):
                await api.made(FLOWS, flow(name))
                assert await watch.named() == ("ADDED", name)


async def test_initial_events_end_with_a_bookmark(api: Rest) -> None:
    await api.made(FLOWS, flow())
    async with api.watch(
        FLOWS,
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
    ) as watch:
        assert await watch.named() == ("ADDED", "f")
        bookmark = await watch.next()
    assert bookmark["type"] == "BOOKMARK"
    annotations = bookmark["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


async def test_the_server_ends_a_watch_when_its_time_is_over(api: Rest) -> None:
    async with api.watch(FLOWS, timeoutSeconds="1") as watch:
        with pytest.raises(Ended):
            await watch.next()


async def test_watches_can_be_broken_off(api: Rest) -> None:
    async with api.watch(FLOWS) as watch:
        api.server.disconnect_watches()
        with pytest.raises(Ended):
            await watch.next()


async def test_a_client_that_leaves_is_forgotten(api: Rest) -> None:
    bucket = api.server.storage.bucket("jobflows.flow.volcano.sh")
    async with api.watch(FLOWS):
        assert len(bucket.watches) == 1
    async with api.watch(FLOWS) as other:
        await api.made(FLOWS, flow())
        assert await other.named() == ("ADDED", "f")
        assert len(bucket.watches) == 1


async def test_a_watch_of_tables_names_its_columns_once(api: Rest) -> None:
    async with api.watch(FLOWS, accept=TABLE, resourceVersion=await version(api)) as watch:
        await api.made(FLOWS, flow("a"))
        await api.made(FLOWS, flow("b"))
        first, second = [(await watch.next())["object"] for _ in range(2)]
    assert [column["name"] for column in first["columnDefinitions"]][:3] == [
        "Name",
        "Status",
        "Reason",
    ]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"
    assert second["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
