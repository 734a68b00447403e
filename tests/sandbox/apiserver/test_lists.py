"""Lists of the API server: selectors, versions, tables, deletion of a collection."""

import pytest

from support.sandbox.rest_client import FLOWS, PODS, TABLE, Rest, flow

EVENTS = "/api/v1/namespaces/default/events"
ALL_FLOWS = FLOWS.replace("namespaces/default/", "")


async def create_flows(api: Rest, *names: str) -> None:
    for name in names:
        await api.create(FLOWS, flow(name))


async def test_field_selectors_filter_pods(api: Rest) -> None:
    for name, phase in (("a", "Running"), ("b", "Succeeded")):
        await api.create(PODS, {"metadata": {"name": name}})
        await api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})
    assert (await api.get(PODS, fieldSelector="status.phase=Running")).names == ["a"]
    assert (await api.get(PODS, fieldSelector="status.phase!=Running")).names == ["b"]
    assert (await api.get(PODS, fieldSelector="metadata.name=b,status.phase=Running")).names == []


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
async def test_lists_support_resource_versions(api: Rest, query: dict[str, str], code: int) -> None:
    assert (await api.get(FLOWS, **query)).code == code


async def test_rows_of_a_table_include_the_object_on_request(api: Rest) -> None:
    await create_flows(api, "a")
    complete = (await api.get(f"{FLOWS}/a", accept=TABLE, includeObject="Object")).json
    assert complete["rows"][0]["object"]["spec"] == flow()["spec"]
    reduced = (await api.get(f"{FLOWS}/a", accept=TABLE, includeObject="None")).json
    assert reduced["rows"][0]["object"] is None


async def test_a_list_can_have_metadata_only(api: Rest) -> None:
    await create_flows(api, "a")
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = await api.get(FLOWS, accept=accept)
    assert answer.json["kind"] == "PartialObjectMetadataList"
    assert [sorted(item) for item in answer.json["items"]] == [["apiVersion", "kind", "metadata"]]
