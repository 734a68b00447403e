"""Watches of the API server: namespaces, history, bookmarks, disconnects."""

import pytest

from support.sandbox.rest_client import (
    FLOWS,
    NAMESPACES,
    VCJOBS,
    Ended,
    Rest,
    flow,
    rest,
    vcjob,
)


async def version(api: Rest) -> str:
    """Return the current version of a list."""
    return str((await api.get(FLOWS)).meta["resourceVersion"])


async def test_a_watch_is_of_its_kind_and_namespace(api: Rest) -> None:
    await api.made(NAMESPACES, {"metadata": {"name": "other"}})
    async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
        await api.made(VCJOBS, vcjob("j"))
        await api.made(FLOWS.replace("default", "other"), flow("elsewhere"))
        await api.made(FLOWS, flow("here"))
        assert await watch.named() == ("ADDED", "here")


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


async def test_the_server_ends_a_watch_when_its_time_is_over(api: Rest) -> None:
    async with api.watch(FLOWS, timeoutSeconds="1") as watch:
        with pytest.raises(Ended):
            await watch.next()


async def test_watches_can_be_broken_off(api: Rest) -> None:
    async with api.watch(FLOWS) as watch:
        api.server.storage.close_watches()
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
