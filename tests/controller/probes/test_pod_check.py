"""Checks of one pod over real sockets: answers that pass, and messages for all others."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import h11
import pytest
import uvloop

from jobflow.controller.probes.pod_check import check_pod
from jobflow.core.planning.actions import Check
from support.network.pod_servers import (
    HTTP,
    OK,
    TCP,
    Limits,
    Play,
    PodServer,
    Visit,
    answering,
    check_play,
    check_port,
    status,
)
from support.network.probed_pods import pod


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


IPV6 = pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here"))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    limit = Limits()
    monkeypatch.setattr(asyncio, "timeout", limit)
    return limit


@pytest.mark.parametrize("ip", ["127.0.0.1", IPV6])
@pytest.mark.parametrize("check", [HTTP, TCP])
async def test_a_pod_that_answers_passes(ip: str, check: Check) -> None:
    async with PodServer(answering(OK), ip) as server:
        assert await check_port(server.port, check, ip) == ""
        await server.all_left()
        assert len(server.visits) == 1


@pytest.mark.parametrize(
    "answer",
    [
        status("204 No Content"),
        status("299 Whatever"),
        status("304 Not Modified"),
        status("399 Whatever"),
        status("200 OK", version="HTTP/1.0"),
        status("200"),
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        status("100 Continue") + status("103 Early Hints", "Link: </x>") + status("200 OK"),
        status("200 OK", "Transfer-Encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n",
        status("200 OK", "Set-Cookie: a=b", "X: " + "x" * 50_000),
        status("200 OK", "X: caf\xe9"),
    ],
)
async def test_any_2xx_or_3xx_answer_passes(answer: bytes) -> None:
    assert await check_play(answering(answer)) == ""


async def test_a_head_in_several_packets_passes() -> None:
    async def play(visit: Visit) -> None:
        await visit.read_request()
        for byte in OK:
            await visit.send(bytes([byte]))
            await asyncio.sleep(0)
        await visit.wait_for_close()

    assert await check_play(play) == ""


@pytest.mark.parametrize("body", ["never sent", "endless"])
async def test_a_check_does_not_wait_for_the_body(body: str) -> None:
    async def play(visit: Visit) -> None:
        await visit.read_request()
        await visit.send(status("200 OK", "Content-Length: 1000000000000"))
        while body == "endless":
            await visit.send(b"x" * 65536)
        await visit.wait_for_close()

    async with PodServer(play) as server:
        assert await check_port(server.port) == ""
        await server.all_left()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (status("503 Service Unavailable"), "answers 503"),
        (status("404 Not Found", version="HTTP/1.0"), "answers 404"),
        (status("400 Bad Request"), "answers 400"),
        (status("999 Whatever"), "answers 999"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not answer in HTTP"),
        (b"ok", "does not answer in HTTP"),
        (b"HTTPS\r\n", "does not answer in HTTP"),
        (b"<html>hello</html>\r\n\r\n", "does not answer in HTTP"),
        (b"\x00\xff" * 1000 + b"\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 2OO OK\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n: nameless\r\n\r\n", "does not answer in HTTP"),
        (status("101 Switching Protocols", "Upgrade: x"), "does not answer in HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "answers in TLS instead of plain HTTP"),
        (
            status("200 OK", *(f"X-{n}: {'x' * 1000}" for n in range(1024))),
            "answers with a head of more than 64 KiB",
        ),
        (
            status("100 Continue") * 10_000 + status("200 OK"),
            "answers with a head of more than 64 KiB",
        ),
        (b"HTTP/1.1 200 " + b"x" * (1 << 20), "answers with a head of more than 64 KiB"),
    ],
)
async def test_the_message_describes_every_other_answer(answer: bytes, message: str) -> None:
    assert await check_play(answering(answer)) == message


async def test_a_redirect_passes_and_is_not_followed() -> None:
    async with PodServer(answering(OK)) as elsewhere:
        target = f"Location: http://127.0.0.1:{elsewhere.port}/latest/meta-data"
        assert await check_play(answering(status("302 Found", target))) == ""
        assert elsewhere.visits == []


async def test_a_closed_port_refuses_the_connection() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for check in (HTTP, TCP):
            assert await check_port(port, check) == "refuses the connection"


async def test_a_connection_that_is_not_accepted_fails(limits: Limits) -> None:
    with full_backlog() as port:
        for check in (HTTP, TCP):
            assert await check_late(port, check, limits) == "accepts no connection within a second"


async def check_late(port: int, check: Check, limits: Limits) -> str:
    checking = asyncio.create_task(check_port(port, check))
    await asyncio.sleep(0)
    limits.time_is_up()
    return await checking


@contextmanager
def full_backlog() -> Iterator[int]:
    """The port of a socket whose backlog is full, so that further connections wait."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


async def test_a_pod_that_never_answers_fails(limits: Limits) -> None:
    message = "accepts the connection and answers nothing within a second"
    assert await check_play(silent(limits)) == message


def silent(limits: Limits) -> Play:
    async def play(visit: Visit) -> None:
        await visit.read_request()
        limits.time_is_up()
        await visit.wait_for_close()

    return play


async def test_a_pod_that_answers_slowly_fails(
    limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, receive = asyncio.Event(), h11.Connection.receive_data

    def count_reads(receiver: h11.Connection, data: bytes) -> None:
        read.set()
        receive(receiver, data)

    async def answer_slowly(visit: Visit) -> None:
        await visit.read_request()
        for byte in OK[:20]:
            await visit.send(bytes([byte]))
            await read.wait()
            read.clear()
        limits.time_is_up()
        await visit.wait_for_close()

    monkeypatch.setattr(h11.Connection, "receive_data", count_reads)
    assert (
        await check_play(answer_slowly) == "does not finish the head of its answer within a second"
    )


async def test_a_whole_check_has_a_limit_of_one_second(limits: Limits) -> None:
    assert await check_play(answering(OK)) == ""
    assert await check_play(answering(OK), TCP) == ""
    assert limits.seconds == [1.0, 1.0]


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nX: y\r\n"])
async def test_a_pod_that_closes_the_connection_fails(before: bytes) -> None:
    async def play(visit: Visit) -> None:
        await visit.read_request()
        await visit.send(before)

    assert await check_play(play) == "closes the connection without an answer"


async def test_a_pod_that_resets_the_connection_fails() -> None:
    async def play(visit: Visit) -> None:
        await visit.read_request()
        visit.reset()

    assert await check_play(play) == "breaks off the connection"


async def test_a_pod_without_a_route_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*args: object, **more: object) -> None:
        raise OSError(101, "whatever the event loop says of it")

    monkeypatch.setattr(asyncio, "open_connection", unreachable)
    assert await check_port(1) == "cannot be reached (Network is unreachable)"


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "localhost",
        "127.0.0.1.",
        "2130706433",
        "10.0.0.7:80",
        "10.0.0.7/x?",
        "",
    ],
)
async def test_an_ip_that_no_pod_can_have_is_not_requested(
    ip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "open_connection", None)
    for check in (HTTP, TCP):
        assert await check_port(80, check, ip) == "is not asked: a pod cannot have that IP"


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
async def test_loopback_is_not_requested_by_default(ip: str) -> None:
    assert (await check_pod(pod("web-0", ip=ip), HTTP)).startswith("is not asked")


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PodServer(answering(status("502 Bad Gateway"))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert await check_play(answering(OK)) == ""
        assert proxy.visits == []


async def test_checks_share_no_cookie_and_no_connection() -> None:
    async with PodServer(
        answering(status("200 OK", "Set-Cookie: a=b", "Content-Length: 0"))
    ) as server:
        for _ in range(3):
            assert await check_port(server.port) == ""
        assert len(server.visits) == 3
        assert not any(b"ookie" in visit.request for visit in server.visits)


async def test_a_cancelled_check_closes_its_connection() -> None:
    async def silent(visit: Visit) -> None:
        assert await visit.read_request()
        checking.cancel()
        assert await visit.wait_for_close()

    async with PodServer(silent) as server:
        checking = asyncio.create_task(check_port(server.port))
        await asyncio.wait([checking])
        assert checking.cancelled()
        await server.all_left()


async def _plays(limits: Limits) -> dict[str, str]:
    async def reset(visit: Visit) -> None:
        await visit.read_request()
        visit.reset()

    plays = {"ok": answering(OK), "silent": silent(limits), "reset": reset}
    answers = {name: await check_play(play) for name, play in plays.items()}
    answers["tcp"] = await check_play(reset, TCP)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        answers["nobody"] = await check_port(bound.getsockname()[1])
    with full_backlog() as port:
        answers["full"] = await check_late(port, HTTP, limits)
    return answers


def test_uvloop_gives_the_same_answers(limits: Limits) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answers = runner.run(_plays(limits))
    assert answers == asyncio.run(_plays(limits))
    assert answers == {
        "ok": "",
        "silent": "accepts the connection and answers nothing within a second",
        "reset": "breaks off the connection",
        "tcp": "",
        "nobody": "refuses the connection",
        "full": "accepts no connection within a second",
    }
