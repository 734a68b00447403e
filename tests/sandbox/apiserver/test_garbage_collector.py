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


FIELDS: dict[str, dict[str, Any]] = {
    "events": {"involvedObject": {"kind": "Pod", "namespace": "default"}},
    "jobflows": {"spec": {"flows": [{"name": "a"}]}},
    "jobtemplates": {"spec": {}},
    "cronjobflows": {
        "spec": {"schedule": "@daily", "jobFlowTemplate": {"spec": {"flows": [{"name": "a"}]}}}
    },
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}
"""What an object of a kind needs besides its name."""
DEFINED = {
    "group": "x.io",
    "scope": "Namespaced",
    "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
    ],
}


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_an_object_of_any_kind_is_deleted_in_the_foreground_and_alone(
    api: Rest, policy: str
) -> None:
    for kind in api.server.registry.stored():
        name = "things.x.io" if kind.kind == "CustomResourceDefinition" else "x"
        fields = {"spec": DEFINED} if name != "x" else FIELDS.get(kind.plural, {})
        collection = kind.path("default" if kind.namespaced else "")
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        await api.create(collection, head | fields)
        await api.delete(f"{collection}/{name}", {"propagationPolicy": policy})
        await api.wait_until_deleted(f"{collection}/{name}")


async def test_a_namespace_that_is_deleted_in_the_foreground_waits_for_its_objects(
    api: Rest,
) -> None:
    pods = PODS.replace("default", "n")
    await api.create(NAMESPACES, {"metadata": {"name": "n"}})
    await api.create(pods, {"metadata": {"name": "p", "finalizers": ["x.io/keep"]}})
    answer = await api.delete(f"{NAMESPACES}/n", {"propagationPolicy": "Foreground"})
    async with api.watch(pods, resourceVersion=answer.meta["resourceVersion"]) as watch:
        await watch.next()
    assert (await api.get(f"{NAMESPACES}/n")).json["status"]["phase"] == "Terminating"
    await api.patch(f"{pods}/p", {"metadata": {"finalizers": None}})
    await api.wait_until_deleted(f"{NAMESPACES}/n")


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
