"""The request of a probe is one GET, with any path and header in the flow."""

from dataclasses import replace

import pytest

import jobflow
from jobflow.controller.probes.pod_check import http_request
from jobflow.core.planning.actions import Check
from support.network.pod_servers import OK, PodServer, answering, check_port
from support.network.probed_pods import web


async def send_request(check: Check) -> list[bytes]:
    async with PodServer(answering(OK)) as server:
        assert await check_port(server.port, check) == ""
        lines = server.visits[0].request.split(b"\r\n")
    return [line.replace(b":%d" % server.port, b":PORT") for line in lines[:-2]]


async def test_the_request_is_a_plain_get() -> None:
    assert await send_request(web(path="/healthz?ready=1&x=a%20b")) == [
        b"GET /healthz?ready=1&x=a%20b HTTP/1.1",
        b"Host: 127.0.0.1:PORT",
        b"User-Agent: jobflow/" + jobflow.__version__.encode(),
        b"Accept: */*",
        b"Connection: close",
    ]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", b"/"),
        ("no-slash", b"/no-slash"),
        ("http://169.254.169.254/x", b"/http://169.254.169.254/x"),
        ("//169.254.169.254/x", b"//169.254.169.254/x"),
        ("/a b", b"/a%20b"),
        ("/a#fragment", b"/a"),
        ("/caf\xe9?\u4f60=\U0001f600", b"/caf%C3%A9?%E4%BD%A0=%F0%9F%98%80"),
        ("/half\ud83d", b"/half?"),
        (
            "/ HTTP/1.1\r\nHost: evil\r\n\r\nGET /",
            b"/%20HTTP/1.1%0D%0AHost:%20evil%0D%0A%0D%0AGET%20/",
        ),
        ("/nul\0", b"/nul%00"),
    ],
)
async def test_any_path_is_one_request_target(path: str, target: bytes) -> None:
    request = http_request("10.0.0.7", web(path=path))
    assert request.startswith(b"GET " + target + b" HTTP/1.1\r\nHost: 10.0.0.7:8080\r\n")
    assert request.count(b"\r\n\r\n") == 1


async def test_a_header_is_sent() -> None:
    lines = await send_request(replace(web(), header=("X-Token", " secret caf\xe9 ")))
    assert lines.count("X-Token: secret caf\xe9".encode()) == 1


@pytest.mark.parametrize("name", ["Host", "host", "User-Agent", "ACCEPT"])
async def test_a_header_replaces_the_default_one(name: str) -> None:
    lines = await send_request(replace(web(), header=(name, "mine")))
    assert [line for line in lines if line.lower().startswith(name.lower().encode() + b":")] == [
        f"{name}: mine".encode()
    ]


@pytest.mark.parametrize(
    "header",
    [
        ("X", "a\r\nEvil: b"),
        ("X", "a\n"),
        ("X", "a\0"),
        ("X\r\nEvil", "b"),
        ("X Y", "b"),
        ("X:", "b"),
        ("", "b"),
        ("caf\xe9", "b"),
        ("Connection", "keep-alive"),
        ("Content-Length", "0"),
        ("Content-Length", "5"),
        ("Content-Length", "many"),
        ("Transfer-Encoding", "chunked"),
        ("Transfer-Encoding", "gzip"),
    ],
)
async def test_a_header_that_would_split_the_request_is_not_sent(header: tuple[str, str]) -> None:
    async with PodServer(answering(OK)) as server:
        message = await check_port(server.port, replace(web(), header=header))
        assert server.visits == []
    assert message == "is not asked: a probe cannot send its header"


async def test_a_request_has_a_size_limit() -> None:
    message = "is not asked: path and header have more than 16 KiB"
    assert await check_port(1, web(path="/" + 20_000 * "x")) == message
    assert await check_port(1, replace(web(), header=("X", 20_000 * "x"))) == message
