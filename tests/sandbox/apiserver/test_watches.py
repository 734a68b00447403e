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


async def test_a_watch_reports_its_kind_and_namespace_only(api: Rest) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "other"}})
    async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
        await api.create(VCJOBS, vcjob("j"))
        await api.create(FLOWS.replace("default", "other"), flow("elsewhere"))
        await api.create(FLOWS, flow("here"))
        assert await watch.next_name() == ("ADDED", "here")


async def test_old_changes_are_removed_from_the_history() -> None:
    async with rest(history=3) as api:
        since = await version(api)
        for name in ("a", "b", "c"):
            await api.create(FLOWS, flow(name))
        async with api.watch(FLOWS, resourceVersion=since) as watch:
            assert await watch.next_name() == ("ADDED", "a")
        await api.create(FLOWS, flow("d"))
        async with api.watch(FLOWS, resourceVersion=since) as watch:
            assert (await watch.next())["object"]["code"] == 410


@pytest.mark.long
async def test_large_changes_are_removed_from_the_history_sooner(api: Rest) -> None:
    since = await version(api)
    await api.create(FLOWS, flow("f", *(f"step-{'x' * 50}-{i}" for i in range(10_000))))
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
async def test_invalid_watches_are_refused(api: Rest, query: dict[str, str], code: int) -> None:
    assert (await api.get(FLOWS, watch="1", **query)).code == code


async def test_bookmarks_have_the_newest_version_of_all_kinds() -> None:
    async with rest(bookmark_seconds=0.01) as api:
        async with api.watch(FLOWS, allowWatchBookmarks="true", resourceVersion="5") as watch:
            created = await api.create(VCJOBS, vcjob("j"))
            frame = await watch.next()
            while (
                frame["object"]["metadata"]["resourceVersion"]
                != created["metadata"]["resourceVersion"]
            ):
                frame = await watch.next()
        assert frame["type"] == "BOOKMARK"
        assert frame["object"]["kind"] == "JobFlow" and "spec" not in frame["object"]


async def test_bookmarks_are_sent_on_request_only() -> None:
    async with rest(bookmark_seconds=0.001) as api:
        async with api.watch(FLOWS, resourceVersion=await version(api)) as watch:
            for name in ("a", "b", "c"):
                await api.create(FLOWS, flow(name))
                assert await watch.next_name() == ("ADDED", name)


async def test_the_server_ends_a_watch_after_its_timeout(api: Rest) -> None:
    async with api.watch(FLOWS, timeoutSeconds="1") as watch:
        with pytest.raises(Ended):
            await watch.next()


async def test_the_server_can_close_watches(api: Rest) -> None:
    async with api.watch(FLOWS) as watch:
        api.server.storage.close_watches()
        with pytest.raises(Ended):
            await watch.next()


async def test_the_watch_of_a_disconnected_client_is_removed(api: Rest) -> None:
    bucket = api.server.storage.bucket("jobflows.flow.volcano.sh")
    async with api.watch(FLOWS):
        assert len(bucket.watches) == 1
    async with api.watch(FLOWS) as other:
        await api.create(FLOWS, flow())
        assert await other.next_name() == ("ADDED", "f")
        assert len(bucket.watches) == 1
