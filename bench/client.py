"""A client that keeps the connections to a webhook busy."""

import asyncio
import ssl
import time

from bench.wire import Connection

CONNECTIONS = 16
ALLOWED = b'"allowed":true'


async def reviews(port: int, trust: ssl.SSLContext, body: bytes, seconds: float) -> int:
    """Return how many reviews of `body` are allowed in `seconds`, over 16 connections."""
    head = (
        "POST /jobflows/validate?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "User-Agent: kube-apiserver-admission\r\nAccept: application/json, */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    until = time.perf_counter() + seconds
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(Connection, "127.0.0.1", port, ssl=trust))[1]
        for _ in range(CONNECTIONS)
    ]
    try:
        return sum(
            await asyncio.gather(*(_keep_busy(each, request, until) for each in connections))
        )
    finally:
        for each in connections:
            each.transport.close()


async def _keep_busy(connection: Connection, request: bytes, until: float) -> int:
    """Send, wait for the answer, and send again until this time; return the number of answers.
    Raises RuntimeError if a review is not allowed."""
    answered = 0
    while not answered or time.perf_counter() < until:
        code, answer = await connection.ask(request)
        if code != 200 or ALLOWED not in answer:
            raise RuntimeError(f"{code} {answer.decode(errors='replace')}")
        answered += 1
    return answered
