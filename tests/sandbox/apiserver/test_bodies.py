"""Request bodies that are not plain JSON: protobuf, YAML, too large, malformed; faults."""

from typing import Any

import aiohttp
import pytest

from jobflow.sandbox.apiserver.requests import codec
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import ApiServer, InjectedFault
from support.sandbox.rest_client import FLOWS, NAMESPACES, Rest, flow, rest

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
WRITTEN = b"""
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
spec: {flows: [{name: a}]}
"""


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(*fields: tuple[int, Any]) -> bytes:
    """Encode a protobuf message from its field numbers and values."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(raw)) + raw
    return out


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    types = message((1, api_version), (2, kind))
    return codec.MAGIC + message((1, types), (2, raw), (3, ""), (4, ""))


async def test_a_namespace_in_protobuf_is_created(api: Rest) -> None:
    labels = message((1, "team"), (2, "a"))
    meta = message((1, "n"), (2, ""), (8, b""), (11, labels))
    fixed = varint(98 << 3 | 5) + b"\0" * 4 + varint(97 << 3 | 1) + b"\0" * 8
    fields = message((1, meta), (2, b""), (3, message((1, ""))), (99, "of the future"))
    body = envelope("v1", "Namespace", fields + fixed)
    answer = await api.post(NAMESPACES, body, content_type=PROTOBUF)
    assert answer.code == 201
    assert answer.meta["name"] == "n" and answer.meta["labels"]["team"] == "a"


def test_a_secret_with_an_owner_is_decoded_from_protobuf() -> None:
    owner = message((1, "Pod"), (3, "p"), (4, "u"), (5, "v1"), (6, 1), (7, 0))
    data = message((1, "k"), (2, b"\x00\xff"))
    secret = message((1, message((1, "s"), (13, owner))), (2, data), (3, "Opaque"))
    decoded = codec.load_protobuf(envelope("v1", "Secret", secret))
    assert decoded["data"] == {"k": "AP8="}
    reference = {"kind": "Pod", "name": "p", "uid": "u", "apiVersion": "v1"}
    flags = {"controller": True, "blockOwnerDeletion": False}
    assert decoded["metadata"]["ownerReferences"] == [reference | flags]


async def test_delete_options_in_protobuf_are_used(api: Rest) -> None:
    await api.create(FLOWS, flow(finalizers=["x.io/keep"]))
    grace = (1 << 64) - 1
    options = envelope("v1", "DeleteOptions", message((1, grace), (4, "Foreground")))
    answer = await api.delete(f"{FLOWS}/f", options, content_type=PROTOBUF)
    assert answer.meta["finalizers"] == ["x.io/keep", "foregroundDeletion"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", 400),
        (envelope("v1", "Service", b""), 415),
        (envelope("v1", "Namespace", b"\xff\xff"), 400),
        (envelope("v1", "Namespace", message((1, message((1, b"\xff"))))), 400),
        (envelope("v1", "Namespace", message((1, 3))), 400),
        (envelope("v1", "Namespace", b"\x0a\x7f"), 400),
        (envelope("v1", "Namespace", b"\x0b"), 400),
        (codec.MAGIC + b"\x80" * 20, 400),
        (envelope("v1", "DeleteOptions", message((1, "three"))), 400),
        (envelope("v1", "Event", b""), 415),
    ],
)
async def test_malformed_protobuf_is_refused(api: Rest, body: bytes, code: int) -> None:
    assert (await api.post(NAMESPACES, body, content_type=PROTOBUF)).code == code


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b'"\xff"', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"<a/>", "text/xml", 415),
        (b"a: b: c", YAML, 400),
        (b"- a", YAML, 400),
        (b"a: &x [1]\nb: *x", YAML, 400),
        (b"[" * 100_000, YAML, 400),
        (WRITTEN, YAML, 201),
        (b"x" * (3 * 1024 * 1024 + 1), "application/json", 413),
    ],
)
async def test_malformed_and_large_bodies_are_refused(
    api: Rest, body: bytes, content_type: str, code: int
) -> None:
    answer = await api.post(FLOWS, body, content_type=content_type)
    assert answer.code == code
    assert code == 201 or answer.json["kind"] == "Status"


async def test_an_object_over_the_size_limit_of_etcd_is_refused(api: Rest) -> None:
    large = flow()
    large["spec"]["flows"] = [{"name": "x" * 200} for _ in range(8000)]
    answer = await api.post(FLOWS, large)
    assert (answer.code, answer.message) == (500, "etcdserver: request is too large")


async def test_requests_are_recorded(api: Rest) -> None:
    await api.create(FLOWS, flow())
    await api.get(f"{FLOWS}/nobody", pretty="true")
    first, second = api.server.requests
    assert (first.method, first.path, first.code) == ("POST", FLOWS, 201)
    assert (second.method, second.code, second.query) == ("GET", 404, {"pretty": "true"})
    assert "aiohttp" in first.user_agent


async def test_an_injected_fault_answers_requests(api: Rest) -> None:
    too_many = failure(429, "TooManyRequests", "slow down", retryAfterSeconds=1)
    api.server.faults.append(
        InjectedFault(lambda request: request.method == "POST", too_many, times=2)
    )
    assert [(await api.post(FLOWS, flow())).code for _ in range(3)] == [429, 429, 201]


@pytest.mark.long
async def test_an_injected_fault_breaks_the_connection(api: Rest) -> None:
    def is_post(request: Any) -> bool:
        return bool(request.method == "POST")

    for after, names in ((False, []), (True, ["f"])):
        api.server.faults[:] = [InjectedFault(is_post, after=after)]
        with pytest.raises(aiohttp.ClientError):
            await api.post(FLOWS, flow())
        assert api.server.requests[-1].code == 0
        assert (await api.get(FLOWS)).names == names


async def test_an_exception_is_an_internal_error_and_is_raised_at_the_end() -> None:
    def fail(request: Any) -> bool:
        raise ZeroDivisionError("of all things")

    with pytest.raises(ExceptionGroup) as caught:
        async with rest() as api:
            api.server.faults.append(InjectedFault(fail))
            answer = await api.get(FLOWS)
            api.server.faults.clear()
            assert (answer.code, answer.reason) == (500, "InternalError")
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


async def test_a_port_in_use_is_an_error() -> None:
    async with ApiServer() as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with ApiServer(port=port):
                pass
