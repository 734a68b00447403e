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


async def test_foreground_takes_the_dependents_first(api: Rest) -> None:
    owner = await api.made(FLOWS, flow())
    job = await api.made(VCJOBS, vcjob("j", owner))
    await api.made(PODS, {"metadata": vcjob("p", job, finalizers=["x.io/keep"])["metadata"]})
    answer = await api.delete(f"{FLOWS}/f", {"propagationPolicy": "Foreground"})
    assert answer.meta["finalizers"] == ["foregroundDeletion"]
    assert answer.meta["deletionTimestamp"]
    async with api.watch(PODS, resourceVersion=answer.meta["resourceVersion"]) as watch:
        frame = await watch.next()
    assert frame["object"]["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{FLOWS}/f")).code == 200
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    await api.gone(f"{FLOWS}/f")
    assert (await api.get(VCJOBS)).names == []


async def test_an_owner_of_a_kind_nobody_serves_is_not_judged(api: Rest) -> None:
    owner = {"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x", "uid": "u"}}
    await api.made(VCJOBS, vcjob("j", owner))
    later = await api.made(FLOWS, flow())
    await api.made(VCJOBS, vcjob("k", {**later, "metadata": {"name": "f", "uid": "gone"}}))
    await api.gone(f"{VCJOBS}/k")
    assert (await api.get(VCJOBS)).names == ["j"]


async def test_a_namespace_keeps_what_is_its_own_through_an_update(api: Rest) -> None:
    await api.made(NAMESPACES, {"metadata": {"name": "n"}})
    await api.made(FLOWS.replace("default", "n"), flow())
    put = await api.put(f"{NAMESPACES}/n", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert put.json["spec"] == {"finalizers": ["kubernetes"]}
    assert put.meta["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}
    await api.delete(f"{NAMESPACES}/n")
    await api.gone(f"{NAMESPACES}/n")
    assert (await api.get(FLOWS.replace("namespaces/default/", ""))).names == []


async def test_a_dry_delete_shows_what_would_be_waited_for(api: Rest) -> None:
    await api.made(FLOWS, flow())
    options = {"propagationPolicy": "Foreground"}
    shown = await api.delete(f"{FLOWS}/f", options, dryRun="All")
    assert shown.meta["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" not in (await api.get(f"{FLOWS}/f")).meta


async def test_a_definition_takes_its_objects_along(api: Rest) -> None:
    await api.made(FLOWS, flow())
    await api.delete(f"{DEFINITIONS}/jobflows.flow.volcano.sh")
    await api.gone(f"{DEFINITIONS}/jobflows.flow.volcano.sh")
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
async def test_delete_options_that_are_none(api: Rest, options: Any, code: int) -> None:
    await api.made(FLOWS, flow())
    assert (await api.delete(f"{FLOWS}/f", options)).code == code
    assert (await api.get(f"{FLOWS}/f")).code == 200
