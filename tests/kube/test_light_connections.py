"""Connections of short commands: kept for the next request, and left to aiohttp behind a proxy.
`test_client` has what all connections do."""

import asyncio

import pytest

from jobflow.kube.answers import NetworkError, describe_network_error
from jobflow.kube.client import Client
from jobflow.kube.credentials import Credentials, Login
from jobflow.kube.light_connections import LightConnections
from support.network.local_server import StreamServer
from support.network.scripted_server import Answer, ScriptedServer

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def light_client(login: Login) -> Client:
    auth = Credentials(login)
    return Client(auth, connections=LightConnections(auth))


class OneAnswerServer(StreamServer):
    """Answers the first request of a connection, and closes it at the next one."""

    def __init__(self) -> None:
        super().__init__(self._one)
        self.connections = 0

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await reader.readuntil(b"\r\n\r\n")


async def test_a_read_is_sent_again_if_its_kept_connection_closes_and_a_write_is_not() -> None:
    async with OneAnswerServer() as server:
        login = Login(f"http://127.0.0.1:{server.port}")
        async with light_client(login) as client:
            for _ in range(3):
                assert await client.request("GET", "/x") == b"{}"
            assert server.connections == 3
            with pytest.raises(NetworkError, match="Server disconnected"):
                await client.request("POST", "/x", body=b"{}")
            assert server.connections == 3


async def test_requests_share_a_connection() -> None:
    connections: list[object] = []

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)

    async with StreamServer(answer_all) as server:
        async with light_client(Login(f"http://127.0.0.1:{server.port}")) as client:
            for _ in range(3):
                await client.request("GET", "/x")
    assert len(connections) == 1


@pytest.mark.parametrize("by_environment", [True, False])
async def test_a_server_behind_a_proxy_is_asked_by_aiohttp(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, *, by_environment: bool
) -> None:
    server.others.append(Answer(200, b"{}"))
    if by_environment:
        monkeypatch.setenv("http_proxy", server.url)
    login = Login("http://api.example", proxy=None if by_environment else server.url)
    async with light_client(login) as client:
        assert await client.request("GET", "/version") == b"{}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_error_names_the_address_of_the_server(unused_tcp_port: int, host: str) -> None:
    async with light_client(Login(f"http://{host}:{unused_tcp_port}")) as client:
        with pytest.raises(NetworkError) as info:
            await client.request("GET", "/version")
    place = f"{host}:{unused_tcp_port}"
    assert describe_network_error(info.value) == f"{place}: the connection was refused"
