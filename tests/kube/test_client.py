"""Requests and their errors, against a server with scripted answers."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS, JOBS, NAMESPACES, QUEUES, ListMeta, Struct
from jobflow.api.volcano.job import Job
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, resource_of
from jobflow.kube.credentials import Credentials, Login
from jobflow.kube.light_connections import LightConnections
from jobflow.kube.pooled_connections import PooledConnections
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure, frame, page, thing


@pytest.fixture(params=[PooledConnections, LightConnections])
async def client(server: ScriptedServer, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    auth = Credentials(Login(server.url))
    async with Client(auth, connections=request.param(auth)) as client:
        yield client


async def error_of(client: Client) -> ApiError:
    with pytest.raises(ApiError) as info:
        await client.create(JOBS, "ns", b"{}")
    return info.value


async def test_a_status_is_decoded(server: ScriptedServer, client: Client) -> None:
    body = failure(409, "AlreadyExists", 'jobs "x" already exists', name="x")
    server.others.append(Answer(409, body))
    error = await error_of(client)
    assert error.already_exists
    assert not error.conflict
    assert error.status.details is not None
    assert error.status.details.name == "x"
    assert "already exists" in str(error)


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (503, b"no endpoints\n", "ServiceUnavailable"),
        (502, b"", "Unknown"),
        (500, b"\xff\xfe not utf-8", "InternalError"),
        (404, b"404 page not found\n", "NotFound"),
        (403, b'{"message": "no"}', "Forbidden"),
        (403, b'{"code": "text"}', "Forbidden"),
        (400, b"[1, 2]", "BadRequest"),
        (302, b"", "Unknown"),
    ],
)
async def test_a_body_that_is_no_status_is_converted_to_one(
    server: ScriptedServer, client: Client, code: int, body: bytes, reason: str
) -> None:
    server.others.append(Answer(code, body))
    error = await error_of(client)
    assert (error.code, error.reason) == (code, reason)
    assert error.message in (body.decode(errors="replace").strip(), "no")


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({"Retry-After": "7"}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {"retryAfterSeconds": 1}, 1.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, {}, 0.0),
        ({"Retry-After": "soon"}, {}, None),
        ({}, {}, None),
    ],
)
async def test_retry_after_is_the_delay_that_the_server_asks_for(
    server: ScriptedServer,
    client: Client,
    headers: dict[str, str],
    details: dict[str, Any],
    seconds: float | None,
) -> None:
    server.others.append(Answer(429, failure(429, **details), headers=headers))
    assert (await error_of(client)).retry_after == seconds


QUOTA = 'jobs.batch.volcano.sh "x" is forbidden: exceeded quota: q, requested: count/jobs=1'
RIGHTS = (
    'jobs.batch.volcano.sh is forbidden: User "system:serviceaccount:a:b" cannot create resource '
    '"jobs" in API group "batch.volcano.sh" in the namespace "ns"'
)
OWNER = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set"
POLICY = "jobs.batch.volcano.sh \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: "


@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [
        (403, QUOTA, "exceeded quota: q, requested: count/jobs=1"),
        (403, QUOTA.replace("exceeded quota", "status unknown for quota"), "status unknown for"),
        (403, QUOTA.replace("exceeded quota", "insufficient quota to consume"), "insufficient"),
        (403, RIGHTS, 'User "system:serviceaccount:a:b" cannot create resource "jobs"'),
        (403, f"{RIGHTS}: RBAC: role not found", 'User "system:serviceaccount:a:b" cannot'),
        (403, QUOTA.partition("exceeded")[0] + OWNER, OWNER),
        (403, QUOTA.replace("exceeded quota: q", "failed quota: q: must specify cpu"), ""),
        (403, f'admission webhook "w" denied the request: {QUOTA}', ""),
        (403, f'admission webhook "w" denied the request: {RIGHTS}', ""),
        (403, f"{POLICY}exceeded quota: mine", ""),
        (403, f"{POLICY}{RIGHTS}", ""),
        (403, "exceeded quota", ""),
        (400, QUOTA, ""),
        (422, QUOTA, ""),
        (429, QUOTA, ""),
        (500, QUOTA, ""),
    ],
)
async def test_quotas_and_missing_rights_apply_to_the_whole_namespace(
    server: ScriptedServer, client: Client, code: int, message: str, cause: str
) -> None:
    server.others.append(Answer(code, failure(code, "Forbidden", message)))
    found = (await error_of(client)).for_the_namespace
    assert found.startswith(cause)
    assert bool(found) == bool(cause)


@pytest.mark.parametrize("end", ["cut", "hang"])
async def test_a_cut_answer_is_an_error(server: ScriptedServer, client: Client, end: Any) -> None:
    server.others.append(Answer(chunks=[b"{"], end=end))
    with pytest.raises(NETWORK_ERRORS):
        await client.request("GET", "/version", timeout=0.05 if end == "hang" else 60)


async def test_a_refused_connection_is_a_network_error() -> None:
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        with pytest.raises(NETWORK_ERRORS):
            await client.request("GET", "/version")


async def test_a_patch_is_a_merge_patch(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(body={}))
    await client.patch(JOBFLOWS, "ns", "f", b'{"a":1}', subresource="status")
    (sent,) = server.requests
    assert sent.path == "/apis/flow.volcano.sh/v1alpha1/namespaces/ns/jobflows/f/status"
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert sent.body == b'{"a":1}'


async def test_a_delete_names_the_uid(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(body={}))
    await client.delete(JOBS, "ns", "j", uid="u1")
    assert json.loads(server.requests[0].body)["preconditions"] == {"uid": "u1"}


async def test_a_delete_of_nothing_succeeds(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(404, failure(404, "NotFound")))
    await client.delete(JOBS, "ns", "j")
    server.others.append(Answer(409, failure(409, "Conflict")))
    with pytest.raises(ApiError):
        await client.delete(JOBS, "ns", "j", uid="u1")


class JobPage(Struct, frozen=True, kw_only=True):
    metadata: ListMeta
    items: list[Job]


async def test_a_list_is_read_page_by_page(server: ScriptedServer, client: Client) -> None:
    server.lists += [page(7, thing("a", 1), more="x/y="), page(7, thing("b", 2))]
    pages = [page async for page in client.list(JOBS, JobPage, query=[("labelSelector", "a=b")])]
    assert [item.metadata.name for page in pages for item in page.items] == ["a", "b"]
    first, second = server.requests
    assert first.query == {"labelSelector": "a=b", "limit": "500"}
    assert second.query == {"labelSelector": "a=b", "limit": "500", "continue": "x/y="}


async def test_names_are_escaped_in_the_path(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(body=thing("x", 1)))
    await client.get(JOBS, "ns", "x?y#z ä", Job)
    assert server.requests[0].path.endswith("/jobs/x?y#z ä")
    assert server.requests[0].query == {}


async def test_every_answer_is_observed(server: ScriptedServer, client: Client) -> None:
    calls: list[tuple[str, str, int]] = []
    client.observe = lambda method, resource, code, seconds: calls.append((method, resource, code))
    server.others += [Answer(body={}), Answer(500, b""), Answer(end="cut")]
    await client.patch(JOBFLOWS, "ns", "f", b"{}", subresource="status")
    await error_of(client)
    with pytest.raises(NETWORK_ERRORS):
        await client.create(JOBS, "ns", b"{}")
    assert calls == [
        ("PATCH", "jobflows/status", 200),
        ("POST", "jobs", 500),
        ("POST", "jobs", 200),
    ]


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (JOBS.path(), "jobs"),
        (JOBS.path("ns", "x"), "jobs"),
        (JOBFLOWS.path("ns", "x", "status"), "jobflows/status"),
        (NAMESPACES.path("", "ns"), "namespaces"),
        (QUEUES.path("", "q", "status"), "queues/status"),
        ("/version", "version"),
        ("/apis", ""),
    ],
)
def test_metrics_name_the_kind_of_a_path(path: str, resource: str) -> None:
    assert resource_of(path) == resource


async def test_a_kind_is_found_by_discovery(server: ScriptedServer, client: Client) -> None:
    kinds = [
        {"name": "replicasets/status", "kind": "ReplicaSet", "namespaced": True},
        {"name": "replicasets", "kind": "ReplicaSet", "namespaced": True},
    ]
    server.others += [Answer(body={"resources": kinds}), Answer(404, b"404 page not found")]
    found = await client.resource_of_kind("apps/v1", "ReplicaSet")
    assert found.path("ns", "x") == "/apis/apps/v1/namespaces/ns/replicasets/x"
    assert await client.resource_of_kind("gone/v1", "Gone") is None


async def frames(client: Client, **more: Any) -> list[bytes]:
    async with aclosing(client.watch(JOBS, resource_version="5", **more)) as watch:
        return [line async for line in watch]


async def test_frames_do_not_depend_on_chunks(server: ScriptedServer, client: Client) -> None:
    text = b"".join(frame("ADDED", thing(f"j{i}", i, note="x" * i)) for i in range(40))
    for size in (1, 7, 64, 1000, len(text)):
        chunks = [text[i : i + size] for i in range(0, len(text), size)]
        server.watches.append(Answer(chunks=chunks))
        assert await frames(client) == text.splitlines()


async def test_a_frame_may_exceed_any_buffer(server: ScriptedServer, client: Client) -> None:
    long = frame("ADDED", thing("j", 1, note="x" * 9_000_000))
    server.watches.append(Answer(chunks=[long]))
    assert await frames(client) == [long.rstrip()]


async def test_a_partial_last_frame_is_dropped(server: ScriptedServer, client: Client) -> None:
    text = frame("ADDED", thing("a", 1))
    server.watches.append(Answer(chunks=[text, text[:20]]))
    assert await frames(client) == [text.rstrip()]


async def test_a_watch_requests_bookmarks(server: ScriptedServer, client: Client) -> None:
    server.watches.append(Answer())
    await frames(client, timeout_seconds=42)
    assert server.requests[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "42",
    }


async def test_a_silent_watch_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.watches.append(Answer(chunks=[frame("ADDED", thing("a", 1))], end="hang"))
    with pytest.raises(NETWORK_ERRORS):
        await frames(client, silence=0.05)


async def test_a_refused_watch_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.watches.append(Answer(410, failure(410, "Expired", "too old")))
    with pytest.raises(ApiError) as info:
        await frames(client)
    assert info.value.gone


async def test_a_stream_is_read_as_it_comes(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(chunks=[b"one\nt", b"wo"]))
    stream = client.stream("/api/v1/namespaces/ns/pods/p/log", query=[("follow", "true")])
    async with aclosing(stream):
        assert b"".join([chunk async for chunk in stream]) == b"one\ntwo"


async def test_a_refused_stream_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(400, failure(400, "BadRequest", "is waiting to start")))
    with pytest.raises(ApiError, match="is waiting to start"):
        await anext(client.stream("/api/v1/namespaces/ns/pods/p/log"))


async def test_a_silent_stream_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.others.append(Answer(chunks=[b"one\n"], end="hang"))
    stream = client.stream("/log", silence=0.1)
    async with aclosing(stream):
        assert await anext(stream) == b"one\n"
        with pytest.raises(NETWORK_ERRORS):
            await anext(stream)
