"""Lists of the API server: selectors, pages that hold still, versions, deleting a collection."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.sandbox.rest_client import FLOWS, NAMESPACES, PODS, TABLE, Rest, flow, rest

EVENTS = "/api/v1/namespaces/default/events"
ALL_FLOWS = FLOWS.replace("namespaces/default/", "")


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


async def some(api: Rest, *names: str) -> None:
    for name in names:
        await api.made(FLOWS, flow(name))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("team=a", ["one"]),
        ("team==a", ["one"]),
        ("team!=a", ["three", "two"]),
        ("team", ["one", "two"]),
        ("!team", ["three"]),
        ("team in (a, b)", ["one", "two"]),
        ("team notin (a)", ["three", "two"]),
        ("team in (a,b),size=big", ["two"]),
        ("", ["one", "three", "two"]),
    ],
)
async def test_label_selectors(api: Rest, selector: str, names: list[str]) -> None:
    await api.made(FLOWS, flow("one", labels={"team": "a"}))
    await api.made(FLOWS, flow("two", labels={"team": "b", "size": "big"}))
    await api.made(FLOWS, flow("three", labels={"size": "big"}))
    assert (await api.get(FLOWS, labelSelector=selector)).names == names


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "=", "a in (b"])
async def test_a_selector_that_cannot_be_read_is_refused(api: Rest, selector: str) -> None:
    assert (await api.get(FLOWS, labelSelector=selector)).code == 400


async def test_field_selectors(api: Rest) -> None:
    for name, phase in (("a", "Running"), ("b", "Succeeded")):
        await api.made(PODS, {"metadata": {"name": name}})
        await api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})
    assert (await api.get(PODS, fieldSelector="status.phase=Running")).names == ["a"]
    assert (await api.get(PODS, fieldSelector="status.phase!=Running")).names == ["b"]
    assert (await api.get(PODS, fieldSelector="metadata.name=b,status.phase=Running")).names == []
    refused = await api.get(FLOWS, fieldSelector="spec.x=y")
    assert (refused.code, refused.message) == (400, "field label not supported: spec.x")


async def test_events_are_found_by_what_they_are_about(api: Rest) -> None:
    for name in ("x", "y"):
        about = {"kind": "JobFlow", "name": name, "uid": f"uid-{name}"}
        await api.made(EVENTS, {"metadata": {"name": f"of-{name}"}, "involvedObject": about})
    selector = "involvedObject.kind=JobFlow,involvedObject.name=y,involvedObject.uid=uid-y"
    assert (await api.get(EVENTS, fieldSelector=selector)).names == ["of-y"]


async def test_a_list_may_span_all_namespaces(api: Rest) -> None:
    await api.made(NAMESPACES, {"metadata": {"name": "a"}})
    await some(api, "z")
    await api.made(FLOWS.replace("default", "a"), flow("y"))
    answer = await api.get(ALL_FLOWS)
    assert answer.names == ["y", "z"]
    assert answer.json["kind"] == "JobFlowList"
    assert (await api.get(ALL_FLOWS, fieldSelector="metadata.namespace=a")).names == ["y"]


async def test_pages_are_of_one_moment(api: Rest) -> None:
    await some(api, "a", "b", "c", "d", "e")
    first = await api.get(FLOWS, limit="2")
    assert first.names == ["a", "b"] and first.meta["remainingItemCount"] == 3
    await api.delete(f"{FLOWS}/c")
    await some(api, "bb")
    second = await api.get(FLOWS, limit="2", **{"continue": first.meta["continue"]})
    third = await api.get(FLOWS, limit="2", **{"continue": second.meta["continue"]})
    assert second.names + third.names == ["c", "d", "e"]
    assert not third.meta.get("continue") and "remainingItemCount" not in third.meta
    versions = {page.meta["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


async def test_pages_go_with_selectors(api: Rest) -> None:
    for name in ("a", "b", "c"):
        await api.made(FLOWS, flow(name, labels={"x": name if name == "b" else "y"}))
    first = await api.get(FLOWS, limit="1", labelSelector="x=y")
    assert first.names == ["a"] and "remainingItemCount" not in first.meta
    token = {"continue": first.meta["continue"]}
    assert (await api.get(FLOWS, limit="1", labelSelector="x=y", **token)).names == ["c"]


async def test_a_forgotten_page_is_gone(api: Rest) -> None:
    await some(api, "a", "b")
    token = (await api.get(FLOWS, limit="1")).meta["continue"]
    api.server.expire_history()
    answer = await api.get(FLOWS, **{"limit": "1", "continue": token})
    assert (answer.code, answer.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"resourceVersion": "0"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410),
        ({"resourceVersion": "99999"}, 504),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "1"}, 422),
        ({"resourceVersion": "x"}, 400),
        ({"timeoutSeconds": "x"}, 400),
        ({"limit": "x"}, 400),
        ({"limit": "-1"}, 200),
        ({"continue": "x"}, 400),
    ],
)
async def test_lists_at_a_version(api: Rest, query: dict[str, str], code: int) -> None:
    assert (await api.get(FLOWS, **query)).code == code


async def test_deleting_a_collection_takes_what_is_selected(api: Rest) -> None:
    await api.made(FLOWS, flow("a", labels={"x": "y"}))
    await api.made(FLOWS, flow("b", labels={"x": "y"}, finalizers=["x.io/keep"]))
    await api.made(FLOWS, flow("c"))
    deleted = await api.delete(FLOWS, labelSelector="x=y")
    assert deleted.names == ["a", "b"]
    left = await api.get(FLOWS)
    assert left.names == ["b", "c"]
    assert left.json["items"][0]["metadata"]["deletionTimestamp"]


async def test_rows_of_a_table(api: Rest) -> None:
    await some(api, "a")
    status = {"status": {"state": {"phase": "Running", "reason": "Busy"}, "progress": "0/1"}}
    await api.patch(f"{FLOWS}/a/status", status)
    table = (await api.get(FLOWS, accept=TABLE)).json
    names = [(c["name"], c["priority"]) for c in table["columnDefinitions"]]
    assert names == [
        ("Name", 0),
        ("Status", 0),
        ("Reason", 0),
        ("Progress", 0),
        ("Duration", 0),
        ("Age", 0),
        ("Message", 1),
        ("Started", 1),
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:5] == ["a", "Running", "Busy", "0/1", None] and cells[6:] == [None, None]
    one = (await api.get(f"{FLOWS}/a", accept=TABLE, includeObject="Object")).json
    assert one["rows"][0]["object"]["spec"] == flow()["spec"]
    none = (await api.get(f"{FLOWS}/a", accept=TABLE, includeObject="None")).json
    assert none["rows"][0]["object"] is None


async def test_metadata_alone(api: Rest) -> None:
    await some(api, "a")
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = await api.get(FLOWS, accept=accept)
    assert answer.json["kind"] == "PartialObjectMetadataList"
    assert [sorted(item) for item in answer.json["items"]] == [["apiVersion", "kind", "metadata"]]
