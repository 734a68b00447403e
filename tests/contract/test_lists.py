"""Lists on both servers: selectors, pages, versions."""

import base64
import json

import pytest

from jobflow.api.resources import JOBS
from jobflow.kube.answers import RawList
from support.sandbox.rest_client import TABLE, flow, vcjob
from support.sandbox.servers import Server


async def create_vcjobs(api: Server) -> None:
    """Create three vcjobs."""
    await api.create(api.vcjobs, vcjob("a", labels={"x": "1", "t": "y"}))
    await api.create(api.vcjobs, vcjob("b", labels={"x": "2"}))
    await api.create(api.vcjobs, vcjob("c"))


LABELS = {
    **{"x": "ab", "!x": "c", "x=1": "a", "x==1,t": "a", "x!=1": "bc", "x=": ""},
    **{"x in (1,2)": "ab", "x notin (1)": "bc", "x notin (1),!t": "bc", "x>1": "b", "x<2": "a"},
}
FIELDS = {
    "metadata.name=a": "a",
    "metadata.name!=a": "bc",
    "metadata.name=a,metadata.name=b": "",
    "metadata.namespace=nowhere": "",
}


async def test_label_selectors_select_objects(api: Server) -> None:
    await create_vcjobs(api)
    found = {
        text: "".join((await api.get(api.vcjobs, labelSelector=text)).names) for text in LABELS
    }
    assert found == LABELS


async def test_field_selectors_select_objects(api: Server) -> None:
    await create_vcjobs(api)
    found = {
        text: "".join((await api.get(api.vcjobs, fieldSelector=text)).names) for text in FIELDS
    }
    assert found == FIELDS


@pytest.mark.parametrize("text", ["a in", "=", "a b", "a=b=c", "x in (1", "x,,t"])
async def test_an_invalid_label_selector_is_refused(api: Server, text: str) -> None:
    answer = await api.get(api.vcjobs, labelSelector=text)
    assert (answer.code, answer.reason) == (400, "BadRequest")


async def test_an_unsupported_field_selector_is_refused(api: Server) -> None:
    answer = await api.get(api.vcjobs, fieldSelector="spec.x=1")
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == "field label not supported: spec.x"


async def test_pages_of_a_list_have_the_same_version(api: Server) -> None:
    await create_vcjobs(api)
    first = await api.get(api.vcjobs, limit="2")
    assert first.names == ["a", "b"] and first.meta["remainingItemCount"] == 1
    await api.delete(f"{api.vcjobs}/c")
    await api.create(api.vcjobs, vcjob("d"))
    more = {"continue": first.meta["continue"]}
    last = await api.get(api.vcjobs, limit="2", **more)
    assert last.names == ["c"] and not last.meta["continue"]
    assert last.meta["resourceVersion"] == first.meta["resourceVersion"]
    answer = await api.get(api.vcjobs, resourceVersion="1", **more)
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == "specifying resource version is not allowed when using continue"
    selected = await api.get(api.vcjobs, limit="1", labelSelector="x")
    assert selected.meta["continue"] and "remainingItemCount" not in selected.meta
    token = {"continue": selected.meta["continue"]}
    assert (await api.get(api.vcjobs, limit="1", labelSelector="x", **token)).names == ["b"]


async def test_an_old_continue_token_has_expired(api: Server) -> None:
    for name in ("a", "b"):
        await api.create(api.flows, flow(name))
    first = await api.get(api.flows, limit="1")
    start = json.loads(base64.urlsafe_b64decode(first.meta["continue"] + "=="))
    old = base64.urlsafe_b64encode(json.dumps({**start, "rv": 1}).encode()).decode().rstrip("=")
    await api.expire()
    answer = await api.get(api.flows, limit="1", **{"continue": old})
    assert (answer.code, answer.reason) == (410, "Expired")
    assert answer.message.startswith("The provided continue parameter is too old")


async def test_the_client_reads_all_pages(api: Server) -> None:
    await create_vcjobs(api)
    pages = [
        page async for page in api.client.list(JOBS, RawList, namespace=api.namespace, limit=2)
    ]
    assert [len(page.items) for page in pages] == [2, 1]
    assert len({page.metadata.resource_version for page in pages}) == 1


async def test_a_list_includes_all_earlier_writes(api: Server) -> None:
    for number in range(5):
        created = await api.create(api.flows, flow(f"f{number}"))
        answer = await api.get(api.flows)
        assert len(answer.names) == number + 1
        assert int(answer.meta["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])
        cached = await api.get(api.flows, resourceVersion=created["metadata"]["resourceVersion"])
        assert len(cached.names) == number + 1


@pytest.mark.long
async def test_malformed_versions_and_tokens_are_refused(api: Server) -> None:
    answer = await api.get(api.flows, resourceVersion="x")
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: '
        'parsing "x": invalid syntax'
    )
    answer = await api.get(api.flows, **{"continue": "x"})
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith("invalid continue token: continue key is not valid: ")
    answer = await api.get(api.flows, resourceVersionMatch="Exact")
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "resourceVersionMatch is forbidden unless resourceVersion is provided"
    )


async def test_a_list_has_its_kind_metadata_and_items(api: Server) -> None:
    empty = (await api.get(api.flows)).json
    assert empty.keys() == {"apiVersion", "kind", "metadata", "items"}
    assert (empty["apiVersion"], empty["kind"]) == ("flow.volcano.sh/v1alpha1", "JobFlowList")
    assert empty["items"] == [] and empty["metadata"].keys() == {"continue", "resourceVersion"}
    created = await api.create(api.flows, flow("f"))
    assert (await api.get(api.flows)).json["items"] == [created]
    everywhere = await api.get("/apis/flow.volcano.sh/v1alpha1/jobflows")
    assert created in everywhere.json["items"]


async def test_a_table_has_the_columns_of_the_crd(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    status = {"state": {"phase": "Running"}, "progress": "0/1"}
    await api.patch(f"{api.flows}/f/status", {"status": status})
    for path in (api.flows, f"{api.flows}/f"):
        table = (await api.get(path, accept=TABLE)).json
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        columns = table["columnDefinitions"]
        names = [column["name"] for column in columns if not column["priority"]]
        assert names == ["Name", "Status", "Reason", "Progress", "Duration", "Age"]
        [row] = table["rows"]
        assert row["cells"][:4] == ["f", "Running", None, "0/1"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["apiVersion"] == "meta.k8s.io/v1"
        assert row["object"]["metadata"]["name"] == "f"
