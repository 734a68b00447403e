"""Owner references and namespaces: the order in which objects are deleted."""

from typing import Any

import pytest

from support.sandbox.rest_client import (
    DEFINITIONS,
    FLOWS,
    NAMESPACES,
    PODS,
    VCJOBS,
    Rest,
    flow,
    vcjob,
)


async def test_foreground_deletion_deletes_dependents_first(api: Rest) -> None:
    owner = await api.create(FLOWS, flow())
    job = await api.create(VCJOBS, vcjob("j", owner))
    await api.create(PODS, {"metadata": vcjob("p", job, finalizers=["x.io/keep"])["metadata"]})
    answer = await api.delete(f"{FLOWS}/f", {"propagationPolicy": "Foreground"})
    assert answer.meta["finalizers"] == ["foregroundDeletion"]
    assert answer.meta["deletionTimestamp"]
    async with api.watch(PODS, resourceVersion=answer.meta["resourceVersion"]) as watch:
        frame = await watch.next()
    assert frame["object"]["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{FLOWS}/f")).code == 200
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    await api.wait_until_deleted(f"{FLOWS}/f")
    assert (await api.get(VCJOBS)).names == []


async def test_an_owner_of_an_unknown_kind_is_ignored(api: Rest) -> None:
    owner = {"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x", "uid": "u"}}
    await api.create(VCJOBS, vcjob("j", owner))
    other = await api.create(FLOWS, flow())
    await api.create(VCJOBS, vcjob("k", {**other, "metadata": {"name": "f", "uid": "gone"}}))
    await api.wait_until_deleted(f"{VCJOBS}/k")
    assert (await api.get(VCJOBS)).names == ["j"]


async def test_an_update_keeps_the_finalizer_and_label_of_a_namespace(api: Rest) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "n"}})
    await api.create(FLOWS.replace("default", "n"), flow())
    updated = await api.put(f"{NAMESPACES}/n", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert updated.json["spec"] == {"finalizers": ["kubernetes"]}
    assert updated.meta["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}
    await api.delete(f"{NAMESPACES}/n")
    await api.wait_until_deleted(f"{NAMESPACES}/n")
    assert (await api.get(FLOWS.replace("namespaces/default/", ""))).names == []


@pytest.mark.long
async def test_a_dry_run_of_a_delete_returns_the_finalizers(api: Rest) -> None:
    await api.create(FLOWS, flow())
    options = {"propagationPolicy": "Foreground"}
    answer = await api.delete(f"{FLOWS}/f", options, dryRun="All")
    assert answer.meta["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" not in (await api.get(f"{FLOWS}/f")).meta


async def test_the_objects_of_a_deleted_definition_are_deleted(api: Rest) -> None:
    await api.create(FLOWS, flow())
    await api.delete(f"{DEFINITIONS}/jobflows.flow.volcano.sh")
    await api.wait_until_deleted(f"{DEFINITIONS}/jobflows.flow.volcano.sh")
    assert (await api.get(FLOWS)).json == "404 page not found\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"dryRun": ["Some"]}, 422),
        ({"propagationPolicy": 3}, 400),
        ({"preconditions": "x"}, 400),
        ([], 400),
        (b"{", 400),
    ],
)
async def test_invalid_delete_options_are_refused(api: Rest, options: Any, code: int) -> None:
    await api.create(FLOWS, flow())
    assert (await api.delete(f"{FLOWS}/f", options)).code == code
    assert (await api.get(f"{FLOWS}/f")).code == 200
