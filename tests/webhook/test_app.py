"""The webhook as a server: paths, methods, sizes, metrics, and real TLS."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from jobflow.app.metrics import Metrics
from jobflow.runtime.http_listener import HttpListener, PortInUse
from jobflow.webhook import app as webhook_app
from jobflow.webhook.app import MAX_BODY, MAX_DRAINED, create_app
from jobflow.webhook.certificates.live import write_development_pki
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import Right
from support.admission.admissions import UID, FakeCluster, FakeRights, review, stored
from support.sandbox.manifests import DIAMOND, jobflow

PATH = "/jobflows/validate"
GOOD = review("CREATE", stored(jobflow("diamond", DIAMOND)))
BAD = review("CREATE", jobflow("diamond", {"a": ["x"], "b": ["y"]}))


def in_process(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://webhook")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(metrics: Metrics) -> FastAPI:
    return create_app(FakeCluster(), metrics.reviewed)


async def test_a_review_is_answered_on_its_path(app: FastAPI) -> None:
    async with in_process(app) as client:
        answer = await client.post(PATH, content=GOOD, params={"timeout": "10s"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["response"]["uid"] == UID


async def test_other_methods_are_refused_with_405(app: FastAPI) -> None:
    async with in_process(app) as client:
        answer = await client.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["message"] == "a review is requested by POST, not by GET"


async def test_unknown_paths_are_404_and_the_index_lists_paths(app: FastAPI) -> None:
    async with in_process(app) as client:
        assert (await client.post("/pods/validate", content=GOOD)).status_code == 404
        index = (await client.get("/")).json()
    assert index["reviews"] == {
        PATH: "JobFlow",
        "/jobtemplates/validate": "JobTemplate",
        "/cronjobflows/validate": "CronJobFlow",
        "/commands/mutate": "Command",
    }


@pytest.mark.parametrize("size", [8 * 1024**2, MAX_DRAINED + 2 * 1024**2])
async def test_a_body_over_the_limit_is_refused_with_413(app: FastAPI, size: int) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // 2**20):
            yield b" " * 2**20

    async with in_process(app) as client:
        for content in (b" " * (8 * 1024**2), pieces()):
            answer = await client.post(PATH, content=content)
            assert answer.status_code == 413
            status = answer.json()
            assert status["reason"] == "RequestEntityTooLarge"
            assert status["message"].startswith("the body is larger than 7 MiB")


class Uploads:
    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._tasks: list[asyncio.Task[dict[str, Any]]] = []

    def begin(
        self, *pieces: bytes, end: bool = False, leave: bool = False
    ) -> asyncio.Task[dict[str, Any]]:
        """Send these pieces of a body. Then end the body, disconnect or send nothing more."""
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        if end:
            messages[-1]["more_body"] = False
        if leave:
            messages.append({"type": "http.disconnect"})
        task = asyncio.create_task(self._request(messages))
        self._tasks.append(task)
        return task

    async def _request(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else await asyncio.Event().wait()  # type: ignore

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "path": PATH, "method": "POST", "headers": []}
        await self._app(scope, receive, send)
        if not sent:
            return {}
        start, body = sent
        headers = dict(start["headers"])
        return {"code": start["status"], "headers": headers, **json.loads(body["body"])}

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def uploads(app: FastAPI) -> AsyncIterator[Uploads]:
    running = Uploads(app)
    yield running
    await running.cancel()


async def yield_to_tasks(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_late_body_is_refused_with_408(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_app, "BODY_SECONDS", 0.01)
    for pieces in ((), (b"{",), (b" " * (MAX_BODY + 1),)):
        answer = await uploads.begin(*pieces)
        assert (answer["code"], answer["reason"]) == (408, "Timeout")
        assert answer["message"] == "the body did not arrive within 0.01 s"
        assert answer["headers"][b"connection"] == b"close"


async def test_concurrent_bytes_are_limited(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_app, "MOST_HELD", 2**20 + len(GOOD))
    half = b" " * 2**19
    uploads.begin(half)
    second = uploads.begin(half)
    await yield_to_tasks()
    answer = await uploads.begin(half)
    assert (answer["code"], answer["reason"]) == (429, "TooManyRequests")
    assert answer["message"] == "reviews of more than 1 MiB together are under way; try again"
    assert answer["headers"][b"retry-after"] == b"1"
    assert (await uploads.begin(GOOD, end=True))["code"] == 200, "it holds none of its own bytes"
    second.cancel()
    await yield_to_tasks()
    assert (await uploads.begin(half, GOOD, end=True))["code"] == 200, "the room is there again"


async def test_concurrent_reviews_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeRights):
        async def lacking(self, user: UserInfo, right: Right) -> str | None:
            await answer_now.wait()
            return ""

    monkeypatch.setattr(webhook_app, "MOST_REVIEWS", 2)
    answer_now = asyncio.Event()
    uploads = Uploads(create_app(FakeCluster(), rights=Slow()))
    reviews = [uploads.begin(GOOD, end=True) for _ in range(2)]
    uploads.begin()  # a review without a body does not count
    await yield_to_tasks()
    answer = await uploads.begin(GOOD, end=True)
    assert (answer["code"], answer["message"]) == (429, "2 reviews are under way; try again")
    answer_now.set()
    assert [(await each)["code"] for each in reviews] == [200, 200]
    assert (await uploads.begin(GOOD, end=True))["code"] == 200
    await uploads.cancel()


async def test_a_body_at_the_limit_is_read(app: FastAPI) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield GOOD
        yield b" " * (MAX_BODY - len(GOOD))

    async with in_process(app) as client:
        answer = await client.post(PATH, content=pieces())
    assert answer.json()["response"]["allowed"] is True


async def test_a_disconnected_client_gets_no_answer(uploads: Uploads, metrics: Metrics) -> None:
    assert await uploads.begin(b"{", leave=True) == {}
    assert "jobflow_admission_seconds_count" not in metrics.text().decode()


async def test_reviews_and_violations_are_counted(app: FastAPI, metrics: Metrics) -> None:
    async with in_process(app) as client:
        for body in (GOOD, GOOD, b"?", BAD, BAD):
            answer = await client.post(PATH, content=body)

    def count(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"jobflow_admission_{name}", labels)

    seconds = {"kind": "JobFlow", "operation": "CREATE"}
    assert count("seconds_count", **seconds, outcome="allowed") == 2
    assert count("seconds_count", **seconds, outcome="refused") == 2
    assert count("seconds_count", kind="JobFlow", operation="", outcome="malformed") == 1
    causes = answer.json()["response"]["status"]["details"]["causes"]
    total = sum(
        sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "jobflow_admission_violations_total"
    )
    assert total == 2 * len(causes)
    target = "spec.flows[].dependsOn.targets[]"
    labels = {"kind": "JobFlow", "field": target, "reason": causes[0]["reason"]}
    assert count("violations_total", **labels) == 4


class TestTLS:
    @asynccontextmanager
    async def listening(
        self, app: FastAPI, folder: Path
    ) -> AsyncIterator[tuple[HttpListener, ssl.SSLContext]]:
        pki = write_development_pki(folder, ["127.0.0.1"])
        tls = pki.serving.context()
        listener = HttpListener(app, port=0, host="127.0.0.1", tls=tls, flag="--webhook-port")
        task = asyncio.create_task(listener.serve())
        trust = ssl.create_default_context(cafile=pki.ca_certificate)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            yield listener, trust
        finally:
            listener.stop()
            await task

    @asynccontextmanager
    async def connected_client(
        self, app: FastAPI, folder: Path
    ) -> AsyncIterator[httpx.AsyncClient]:
        async with self.listening(app, folder) as (listener, trust):
            url = f"https://127.0.0.1:{listener.port}"
            async with httpx.AsyncClient(verify=trust, base_url=url, trust_env=False) as client:
                yield client

    async def test_reviews_share_a_connection(self, app: FastAPI, tmp_path: Path) -> None:
        async with self.connected_client(app, tmp_path) as client:
            for body in (GOOD, BAD, GOOD):
                assert (await client.post(PATH, content=body)).status_code == 200
            large = review("CREATE", jobflow("large", {f"s{i}": [] for i in range(5000)}))
            assert len(large) > 64 * 1024
            answer = await client.post(PATH, content=large)
            assert answer.json()["response"]["allowed"] is True

    async def test_a_body_of_eight_mebibytes_is_answered(
        self, app: FastAPI, tmp_path: Path
    ) -> None:
        async with self.connected_client(app, tmp_path) as client:
            assert (await client.post(PATH, content=b"{" * 8 * 1024**2)).status_code == 413
            assert (await client.post(PATH, content=GOOD)).status_code == 200

    async def test_a_started_request_is_answered(self, app: FastAPI, tmp_path: Path) -> None:
        head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(GOOD)}\r\n"
        async with self.listening(app, tmp_path) as (listener, trust):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=trust)
            writer.write(head.encode() + b"expect: 100-continue\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            listener.stop()
            writer.write(GOOD)
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()

    async def test_a_draining_server_ends_each_connection_with_an_answer(
        self, app: FastAPI, tmp_path: Path
    ) -> None:
        """A client that sends a request into a connection that is being closed gets no answer."""
        async with self.listening(app, tmp_path) as (listener, trust):
            url = f"https://127.0.0.1:{listener.port}"
            async with httpx.AsyncClient(verify=trust, base_url=url, trust_env=False) as client:
                answers = [await client.post(PATH, content=GOOD)]
                listener.drain()
                answers += [await client.post(PATH, content=GOOD) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        ends = [answer.headers.get("connection") for answer in answers]
        assert ends == [None, "close", "close"]

    async def test_a_cancelled_server_releases_its_port(self, app: FastAPI) -> None:
        listener = HttpListener(app, port=0, host="127.0.0.1", flag="--port")
        serving = asyncio.create_task(listener.serve())
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        writer.close()
        HttpListener(app, port=listener.port, host="127.0.0.1", flag="--port").close()


async def test_a_port_in_use_is_an_error_that_names_the_flag(app: FastAPI) -> None:
    first = HttpListener(app, port=0, flag="--webhook-port")
    with pytest.raises(PortInUse, match=rf"{first.port}.*choose another port by --webhook-port"):
        HttpListener(app, port=first.port, flag="--webhook-port")
    first.close()
