"""Clients in the process of the API server behave as clients over HTTP do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, ListMeta, Struct
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.sandbox.apiserver.requests.http import Receive, Scope, Send
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from support.network.anonymous import anonymous
from support.sandbox.api_server import ApiServer, InjectedFault
from support.sandbox.rest_client import flow
from support.time.alongside import until

HOME = "default"


class Flows(Struct):
    """A page of flows."""

    items: list[JobFlow]
    metadata: ListMeta


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture(params=["http", "in process"])
async def client(request: pytest.FixtureRequest, server: ApiServer) -> AsyncIterator[Client]:
    made = Client(anonymous(server.url)) if request.param == "http" else in_process_client(server)
    async with made as client:
        yield client


async def create(client: Client, name: str) -> JobFlow:
    await client.create(JOBFLOWS, HOME, json.dumps(flow(name)).encode())
    return await client.get(JOBFLOWS, HOME, name, JobFlow)


async def names(client: Client) -> list[str]:
    pages = [page async for page in client.list(JOBFLOWS, Flows, namespace=HOME, limit=2)]
    return [each.metadata.name for page in pages for each in page.items]


async def test_objects_are_created_read_and_listed_in_pages(client: Client) -> None:
    for name in ("a", "b", "c"):
        assert (await create(client, name)).metadata.name == name
    assert await names(client) == ["a", "b", "c"]


async def test_a_refusal_has_the_status_of_the_server(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        await client.get(JOBFLOWS, HOME, "a/b ü?", JobFlow)
    assert (refused.value.code, refused.value.reason) == (404, "NotFound")


async def test_warnings_are_read(client: Client) -> None:
    warnings: list[str] = []
    body = json.dumps(flow("a") | {"unknown": 'a "name"'}).encode()
    await client.request("POST", JOBFLOWS.path(HOME), body=body, warnings=warnings)
    assert warnings == ['unknown field "unknown"']


async def test_a_watch_yields_changes_until_it_is_closed(server: ApiServer, client: Client) -> None:
    await create(client, "a")
    async with aclosing(client.watch(JOBFLOWS, resource_version="0")) as frames:
        first = json.loads(await anext(frames))
        await create(client, "b")
        second = json.loads(await anext(frames))
    seen = [(each["type"], each["object"]["metadata"]["name"]) for each in (first, second)]
    assert seen == [("ADDED", "a"), ("ADDED", "b")]
    watches = server.storage.bucket("jobflows.flow.volcano.sh").watches
    await until(lambda: not watches, within=5)


async def test_a_silent_watch_is_an_error(client: Client) -> None:
    frames = client.watch(JOBFLOWS, resource_version="0", silence=0.05)
    with pytest.raises(NETWORK_ERRORS):
        async with aclosing(frames):
            await anext(frames)


@pytest.mark.parametrize("after", [False, True])
async def test_a_broken_connection_is_a_network_error(
    server: ApiServer, client: Client, after: bool
) -> None:
    fault = InjectedFault(lambda request: request.method == "POST", after=after)
    server.faults.append(fault)
    with pytest.raises(NETWORK_ERRORS):
        await create(client, "a")
    assert await names(client) == (["a"] if after else [])


async def test_a_request_is_finished_although_its_client_does_not_wait() -> None:
    finish, finished = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await finish.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})
        finished.set()

    async with in_process_client(slow) as client:
        with pytest.raises(TimeoutError):
            await client.request("GET", "/slow", timeout=0.01)
        finish.set()
        async with asyncio.timeout(5):
            await finished.wait()


async def test_a_slow_reader_holds_the_server_back() -> None:
    sent = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while sent < 1000:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent += 1

    async with in_process_client(endless) as client, aclosing(client.stream("/endless")) as chunks:
        assert await anext(chunks) == b"x"
        for _ in range(100):
            await asyncio.sleep(0)
        assert sent < 100


async def test_an_application_that_ends_early_breaks_the_connection() -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        pass

    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    for app in (nothing, half):
        async with in_process_client(app) as client:
            with pytest.raises(NETWORK_ERRORS):
                await client.request("GET", "/")


async def test_a_sibling_talks_to_the_same_server(server: ApiServer) -> None:
    async with in_process_client(server) as client, client.sibling() as sibling:
        await create(client, "a")
        assert await names(sibling) == ["a"]
