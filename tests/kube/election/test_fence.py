"""Writes behind a fence start only before a given time, and end soon after it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from jobflow.api.resources import JOBS, Object
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.clock import boot_clock
from jobflow.kube.election.election import Fence, FencedClient, NotLeading
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure, thing

WRITE_SECONDS = 4.0
PATH = JOBS.path("ns", "a")
STORED = Answer(201, thing("a", 1))


@asynccontextmanager
async def fenced(
    server: ScriptedServer,
    *,
    write_seconds: float = WRITE_SECONDS,
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[tuple[FencedClient, Fence]]:
    """A client that may write before second 10 of the clock."""
    fence = Fence(write_seconds, clock=clock)
    fence.until = 10.0
    async with (
        Client(anonymous(server.url)) as plain,
        FencedClient(plain, fence, write_seconds) as client,
    ):
        yield client, fence


async def test_a_write_is_sent_while_the_fence_is_open(server: ScriptedServer) -> None:
    server.others.append(STORED)
    async with fenced(server) as (client, fence):
        await client.create(JOBS, "ns", b"{}", query=[("fieldManager", "me")])
        assert fence.in_doubt == 0
    (asked,) = server.requests
    assert asked.body == b"{}"
    assert asked.query == {"fieldManager": "me", "timeout": "4000ms"}


async def test_a_write_is_refused_once_the_fence_is_closed(server: ScriptedServer) -> None:
    async with fenced(server) as (client, fence):
        fence.close()
        for write in (
            client.create(JOBS, "ns", b"{}"),
            client.patch(JOBS, "ns", "a", b"{}"),
            client.request("PUT", PATH, body=b"{}"),
            client.delete(JOBS, "ns", "a"),
        ):
            with pytest.raises(NotLeading):
                await write
    assert server.requests == []
    assert issubclass(NotLeading, NETWORK_ERRORS)


async def test_reads_need_no_leadership(server: ScriptedServer) -> None:
    server.lists.append(Answer(200, thing("a", 1)))
    async with fenced(server) as (client, fence):
        fence.close()
        assert (await client.get(JOBS, "ns", "a", Object)).metadata.name == "a"


@pytest.mark.parametrize("reads", [1, 2], ids=["before the head", "before the body"])
async def test_a_fence_that_closes_late_stops_the_write(server: ScriptedServer, reads: int) -> None:
    passed = iter([0.0] * reads)
    async with fenced(server, clock=lambda: next(passed, 20.0)) as (client, _):
        with pytest.raises(NETWORK_ERRORS):
            await client.create(JOBS, "ns", b"{}")
    assert server.requests == []


async def test_a_put_that_the_http_client_repeats_passes_the_fence_again() -> None:
    """aiohttp repeats a PUT if a kept connection turns out to be closed."""
    asked: list[bytes] = []
    closed_after = 2

    class Server(asyncio.Protocol):
        """Answers the first request, and only closes the connection after the next."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            asked.append(data)
            if len(asked) < closed_after:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            else:
                self.transport.close()

    fence = Fence(WRITE_SECONDS, clock=lambda: 0.0 if len(asked) < closed_after else 20.0)
    fence.until = 10.0
    loop = asyncio.get_running_loop()
    async with await loop.create_server(Server, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with (
            Client(anonymous(f"http://127.0.0.1:{port}")) as plain,
            FencedClient(plain, fence, WRITE_SECONDS) as client,
        ):
            await client.request("PUT", PATH, body=b"{}")
            with pytest.raises(NETWORK_ERRORS, match="not sent"):
                await client.request("PUT", PATH, body=b"{}")
    assert len(asked) == closed_after


async def test_a_write_without_an_answer_is_in_doubt(server: ScriptedServer) -> None:
    server.others.append(Answer(201, end="hang"))
    async with fenced(server, write_seconds=0.05) as (client, fence):
        with pytest.raises(TimeoutError):
            await client.create(JOBS, "ns", b"{}")
        assert fence.in_doubt == 0.05


async def test_a_cancelled_write_is_in_doubt(server: ScriptedServer) -> None:
    server.others.append(Answer(201, end="hang"))
    async with fenced(server) as (client, fence):
        writing = asyncio.create_task(client.create(JOBS, "ns", b"{}"))
        await server.until(lambda: server.requests)
        writing.cancel()
        await asyncio.wait([writing])
        assert fence.in_doubt == WRITE_SECONDS


@pytest.mark.parametrize(("code", "in_doubt"), [(409, 0.0), (422, 0.0), (500, 4.0), (504, 4.0)])
async def test_clear_answers_end_the_doubt(
    server: ScriptedServer, code: int, in_doubt: float
) -> None:
    server.others.append(Answer(code, failure(code)))
    async with fenced(server) as (client, fence):
        with pytest.raises(ApiError):
            await client.create(JOBS, "ns", b"{}")
        assert fence.in_doubt == in_doubt


async def test_the_kernel_does_not_keep_data_to_send_later(server: ScriptedServer) -> None:
    async with fenced(server) as (client, _):
        address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))
        with client._connections._socket(address) as sock:  # type: ignore[attr-defined]
            linger = sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
            assert struct.unpack("ii", linger) == (1, 0)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4000


async def test_the_client_uses_that_kind_of_socket(server: ScriptedServer) -> None:
    server.others.append(STORED)
    sockets: list[socket.socket] = []
    async with fenced(server) as (client, _):
        connections = client._connections
        plain = connections._socket  # type: ignore[attr-defined]
        connections._socket = lambda address: sockets.append(plain(address)) or sockets[-1]  # type: ignore[attr-defined,func-returns-value]
        await client.create(JOBS, "ns", b"{}")
    assert len(sockets) == 1


def test_the_clock_is_monotonic() -> None:
    times = [boot_clock() for _ in range(100)]
    assert times == sorted(times)
