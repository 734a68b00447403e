"""Refused requests for logs on both servers, which a real API server answers without a kubelet."""

from typing import Any

import pytest

from support.sandbox.rest_client import failure_status
from support.sandbox.servers import Server

CONTAINERS = [{"name": name, "image": "busybox"} for name in ("a", "b")]


async def create_pod(api: Server, containers: list[dict[str, str]], **spec: Any) -> str:
    """Create a pod that no node runs; return the path of its log."""
    spec |= {"containers": containers}
    await api.create(api.pods, {"metadata": {"name": "p"}, "spec": spec})
    return f"{api.pods}/p/log"


async def test_a_container_must_be_named_if_there_are_several(api: Server) -> None:
    init = [{"name": "i", "image": "busybox"}]
    log = await create_pod(api, CONTAINERS, initContainers=init)
    message = "a container name must be specified for pod p, choose one of: [i a b]"
    assert (await api.get(log)).json == failure_status(400, "BadRequest", message)
    message = "container c is not valid for pod p"
    assert (await api.get(log, container="c")).json == failure_status(400, "BadRequest", message)


async def test_a_pod_without_a_node_has_no_log(api: Server) -> None:
    log = await create_pod(api, CONTAINERS[:1])
    assert (await api.get(log)).json == ""
    assert (await api.get(log, container="a", follow="true")).json == ""


@pytest.mark.long
async def test_a_missing_pod_is_not_found(api: Server) -> None:
    answer = await api.get(f"{api.pods}/nope/log")
    details = {"name": "nope", "kind": "pods"}
    message = 'pods "nope" not found'
    assert answer.json == failure_status(404, "NotFound", message, **details)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    ],
)
async def test_an_invalid_option_is_refused(
    api: Server, query: dict[str, str], message: str
) -> None:
    answer = await api.get(await create_pod(api, CONTAINERS[:1]), **query)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == f'PodLogOptions "p" is invalid: {message}'


async def test_both_kinds_of_since_are_refused(api: Server) -> None:
    log = await create_pod(api, CONTAINERS[:1])
    answer = await api.get(log, sinceSeconds="1", sinceTime="2026-01-01T00:00:00Z")
    assert answer.code == 422
    assert "at most one of `sinceTime` or `sinceSeconds` may be specified" in answer.message


@pytest.mark.parametrize("name", ["tailLines", "limitBytes", "sinceSeconds", "sinceTime"])
async def test_an_unreadable_option_is_refused(api: Server, name: str) -> None:
    log = await create_pod(api, CONTAINERS[:1])
    answer = await api.get(log, **{name: "soon"})
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert 'parsing "soon"' in answer.message or 'parsing time "soon"' in answer.message


async def test_a_log_is_only_read(api: Server) -> None:
    log = await create_pod(api, CONTAINERS[:1])
    assert (await api.put(log, {})).code == 405
    assert (await api.delete(log)).code == 405


async def test_discovery_lists_the_log(api: Server) -> None:
    resources = {each["name"]: each for each in (await api.get("/api/v1")).json["resources"]}
    assert resources["pods/log"] == {
        "name": "pods/log",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get"],
    }
