"""Watches on both servers: start versions, bookmarks, expired history, JobFlow's reflector."""

import asyncio
import json
from contextlib import aclosing

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from support.sandbox.rest_client import TABLE, Ended, failure_status, flow, vcjob
from support.sandbox.servers import Server

OLD = "1"
"""A version that is older than the first flow."""


async def test_changes_are_reported_in_order(api: Server) -> None:
    async with api.watch(api.flows, resourceVersion=await api.version()) as watch:
        await api.create(api.vcjobs, vcjob("other"))
        await api.create(api.flows, flow("f"))
        await api.patch(f"{api.flows}/f/status", {"status": {"progress": "1/1"}})
        await api.delete(f"{api.flows}/f")
        frames = [await watch.next() for _ in range(3)]
    assert [frame["type"] for frame in frames] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(frame["object"]["metadata"]["resourceVersion"]) for frame in frames]
    assert versions == sorted(set(versions))
    assert frames[2]["object"]["status"] == {"progress": "1/1"}


@pytest.mark.long
async def test_earlier_changes_are_reported(api: Server) -> None:
    since = await api.version()
    await api.create(api.flows, flow("f"))
    await api.delete(f"{api.flows}/f")
    async with api.watch(api.flows, resourceVersion=since) as watch:
        assert [await watch.next_name(), await watch.next_name()] == [
            ("ADDED", "f"),
            ("DELETED", "f"),
        ]


async def test_a_watch_without_a_version_reports_existing_objects_first(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    for number, query in enumerate(({}, {"resourceVersion": "0"})):
        async with api.watch(api.flows, **query) as watch:
            await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"x": str(number)}}})
            assert [await watch.next_name(), await watch.next_name()] == [
                ("ADDED", "f"),
                ("MODIFIED", "f"),
            ]


async def test_objects_that_enter_or_leave_a_selection_are_reported(api: Server) -> None:
    await api.create(api.flows, flow("f", labels={"team": "a"}))
    since = await api.version()
    async with api.watch(api.flows, resourceVersion=since, labelSelector="team=b") as watch:
        for team in ("b", "c", "b"):
            await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"team": team}}})
        assert [(await watch.next())["type"] for _ in range(3)] == ["ADDED", "DELETED", "ADDED"]


async def test_a_watch_can_report_one_object_only(api: Server) -> None:
    since = await api.version()
    name = "metadata.name=b"
    async with api.watch(api.flows, resourceVersion=since, fieldSelector=name) as watch:
        await api.create(api.flows, flow("a"))
        await api.create(api.flows, flow("b"))
        assert await watch.next_name() == ("ADDED", "b")


async def test_an_expired_version_is_an_error_frame(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    await api.expire()
    async with api.watch(api.flows, resourceVersion=OLD) as watch:
        frame = await watch.next()
        with pytest.raises(Ended):
            await watch.next()
    message = frame["object"]["message"]
    assert message.startswith(f"too old resource version: {OLD} (")
    assert frame == {"type": "ERROR", "object": failure_status(410, "Expired", message)}


async def test_a_watch_waits_for_a_future_version(api: Server) -> None:
    """Changes up to that version are skipped without an error."""
    future = int(await api.version()) + 2
    async with api.watch(api.flows, resourceVersion=str(future)) as watch:
        for name in ("a", "b", "c"):
            await api.create(api.flows, flow(name))
        frame = await watch.next()
    assert int(frame["object"]["metadata"]["resourceVersion"]) > future
    answer = await api.get(api.flows, resourceVersion="999999999")
    assert (answer.code, answer.reason) == (504, "Timeout")
    assert "Too large resource version: 999999999, current: " in answer.message
    assert answer.json["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]


async def test_bookmarks_are_sent_about_once_a_minute(api: Server) -> None:
    """Bookmarks are sent during a watch, not only before its end."""
    await api.create(api.flows, flow("f"))
    since = await api.version()
    query = [("allowWatchBookmarks", "true")]
    watch = api.client.watch(JOBFLOWS, namespace=api.namespace, resource_version=since, query=query)
    async with aclosing(watch), asyncio.timeout(90):
        frame = json.loads(await anext(watch))
    assert frame["type"] == "BOOKMARK"
    bookmark = frame["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("JobFlow", "flow.volcano.sh/v1alpha1")
    assert bookmark["metadata"].keys() == {"resourceVersion"}
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(since)


async def test_initial_events_end_with_a_bookmark(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    query = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watch(api.flows, **query) as watch:
        assert await watch.next_name() == ("ADDED", "f")
        frame = await watch.next()
    assert frame["type"] == "BOOKMARK"
    annotations = frame["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


async def test_tables_have_column_definitions_once(api: Server) -> None:
    since = await api.version()
    async with api.watch(api.flows, accept=TABLE, resourceVersion=since) as watch:
        await api.create(api.flows, flow("a"))
        await api.create(api.flows, flow("b"))
        first, second = [(await watch.next())["object"] for _ in range(2)]
    assert [column["name"] for column in first["columnDefinitions"]][:2] == ["Name", "Status"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"


async def test_the_client_raises_the_message_of_a_refused_watch(api: Server) -> None:
    watch = api.client.watch(
        JOBFLOWS, resource_version="0", query=[("resourceVersionMatch", "Exact")]
    )
    with pytest.raises(ApiError, match="resourceVersionMatch is forbidden for watch"):
        async with aclosing(watch):
            await anext(watch)


async def test_the_reflector_follows_all_changes(api: Server) -> None:
    """The reflector handles changes, a 410 during a watch, and changes before its next list."""
    await api.create(api.flows, flow("a"))
    cache: Cache[JobFlow] = Cache()
    changed = asyncio.Event()
    cache.on_change = lambda *_: changed.set()

    async def names() -> set[str]:
        return {obj.metadata.name for obj in cache}

    async def until(expected: set[str]) -> None:
        async with asyncio.timeout(20):
            while await names() != expected:
                await changed.wait()
                changed.clear()

    reflector = Reflector(
        api.client,
        JOBFLOWS,
        JobFlow,
        cache,
        namespace=api.namespace,
        backoff=ExponentialBackoff(first=0.01),
    )
    task = asyncio.create_task(reflector.run())
    try:
        await until({"a"})
        await api.client.create(JOBFLOWS, api.namespace, json.dumps(flow("b")).encode())
        await until({"a", "b"})
        await api.client.delete(JOBFLOWS, api.namespace, "a")
        await until({"b"})
        reflector._version = OLD
        await api.expire()
        await api.create(api.flows, flow("c"))
        await until({"b", "c"})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
