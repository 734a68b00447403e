"""The HTTP port: alive, ready or why not, metrics."""

from __future__ import annotations

import httpx

from jobflow import __version__
from jobflow.app import health


async def asked(path: str, reasons: list[str]) -> httpx.Response:
    app = health.create_app(lambda: reasons, lambda: b"jobflow_up 1\n")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://health") as client:
        return await client.get(path)


async def test_alive_even_when_not_ready() -> None:
    answer = await asked("/healthz", ["anything"])
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})


async def test_ready() -> None:
    answer = await asked("/readyz", [])
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "waiting_for": []})


async def test_not_ready_says_what_it_waits_for() -> None:
    answer = await asked("/readyz", ["the moon"])
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "waiting_for": ["the moon"]}


async def test_metrics_are_prometheus_text() -> None:
    answer = await asked("/metrics", [])
    assert answer.text == "jobflow_up 1\n"
    assert answer.headers["content-type"].startswith("text/plain; version=")
