"""The rights of the service account: a release uses all of them and needs no others."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import (
    COMMANDS,
    CRONJOBFLOWS,
    EVENTS,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    VOLUME_CLAIMS,
)
from jobflow.cli.cluster import crds
from jobflow.controller.apply.events import Pending
from jobflow.core.planning.actions import Event, EventType
from jobflow.kube.client import decoder
from support.cluster.real_cluster import RealCluster
from support.cluster.release import NAME, Release, release
from support.cluster.release_checks import (
    apply_diamond,
    delete,
    get,
    phase,
    post,
    state,
    succeeds,
    until,
)
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import cron
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
CHECKED_ELSEWHERE = {
    # the API server looks it up when a job is created; see the test below
    ("flow.volcano.sh", "jobflows/finalizers", "update"),
    ("flow.volcano.sh", "cronjobflows/finalizers", "update"),
    # for an annotation that a user adds: see tests/controller/test_crons.py
    ("flow.volcano.sh", "cronjobflows", "patch"),
    # of no use without the right to delete claims, which the plugin asks for; see the test below
    ("", "persistentvolumeclaims", "update"),
    # for a leader whose watch lags: see tests/controller, where a watch can be delayed
    ("flow.volcano.sh", "jobtemplates", "get"),
    ("bus.volcano.sh", "commands", "get"),
    # for pods that do not start: see tests/controller
    ("", "events", "list"),
}

Right = tuple[str, str, str]


@pytest_asyncio.fixture
async def installed(bare: RealCluster, home: str, tmp_path: Path) -> AsyncIterator[Release]:
    async with release(bare, home, tmp_path) as ready:
        await ready.install()
        yield ready
        await ready.remove()


def granted(bare: RealCluster, namespace: str) -> set[Right]:
    cluster = get(bare, f"{RIGHTS}/clusterroles/{NAME}")
    roles = get(bare, f"{RIGHTS}/namespaces/{namespace}/roles")["items"]
    return {
        (group, resource, verb)
        for role in (cluster, *roles)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(bare: RealCluster, account: str) -> set[Right]:
    asked = bare.audit.asked(user=account)
    return {(call.group, call.resource, call.verb) for call in asked if call.resource}


async def test_no_right_is_missing_or_unused(bare: RealCluster, installed: Release) -> None:
    async with volcano(await bare.client(), speed=10):
        await run_a_flow_with_an_existing_event(bare, bare.new_namespace("told"))
        await run_a_flow_that_is_deleted_with_its_jobs(bare, bare.new_namespace("tidy"))
        await cancel_a_flow_that_lost_a_job(bare, bare.new_namespace("lost"))
        await run_a_flow_with_a_claim(bare, bare.new_namespace("claims"))
        await run_a_cron_that_missed_a_time(bare, bare.new_namespace("nightly"))
    await change_the_secret_and_wait_for_its_repair(bare, installed.namespace)
    rights = granted(bare, installed.namespace)
    await installed.upgrade(replicas=0)
    await installed.kubelet.idle()  # a watch is in the audit log only after its end
    assert bare.audit.denied(installed.account) == []
    assert rights - used(bare, installed.account) == CHECKED_ELSEWHERE


async def test_one_namespace_needs_few_rights(bare: RealCluster, home: str, tmp_path: Path) -> None:
    batch = bare.new_namespace("batch")
    assert await crds.apply_crds(str(bare.plane.kubeconfig("admin"))) == 0
    async with release(bare, home, tmp_path) as ready:
        alone = replace(ready, values={**ready.values, "namespace": batch})
        await alone.install()
        async with volcano(await bare.client(), speed=10):
            await run_a_flow_that_is_deleted_with_its_jobs(bare, batch)
        assert get(bare, f"{RIGHTS}/clusterroles/{NAME}") is None
        await alone.upgrade(replicas=0)
        await alone.kubelet.idle()
        assert bare.audit.denied(alone.account) == []
        await alone.remove()


async def test_vcjobs_need_the_right_to_finalizers(bare: RealCluster, installed: Release) -> None:
    role = get(bare, f"{RIGHTS}/clusterroles/{NAME}")
    assert any("jobflows/finalizers" in rule["resources"] for rule in role["rules"])
    role["rules"] = [r for r in role["rules"] if "jobflows/finalizers" not in r["resources"]]
    bare.admin.put(f"{RIGHTS}/clusterroles/{NAME}", json=role).raise_for_status()
    flow = await apply_diamond(bare, bare.new_namespace("disowned"), "disowned")
    waiting = await until(bare, flow, lambda flow: reason(flow, "disowned-a") == "CreateRefused")
    message = waiting["status"]["conditions"]["disowned-a"]["message"]
    assert "cannot set blockOwnerDeletion" in message


async def test_with_the_plugin_a_claim_moves_only_with_the_right_to_delete_it(
    bare: RealCluster, installed: Release
) -> None:
    namespace = bare.new_namespace("moved")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await post(bare, JOBTEMPLATES.path(namespace), mounting())
    async with volcano(await bare.client(), speed=10):
        for name, more in (("first", {}), ("second", {"reuse": {"flow": "first"}})):
            flow = jobflow(name, {"mounting": []}, volumeClaims={"data": spec}, **more)
            await post(bare, JOBFLOWS.path(namespace), flow)
            path = JOBFLOWS.path(namespace, name)
            await until(
                bare, path, lambda flow: phase(flow) == "Succeed" or bool(state(flow).get("reason"))
            )
        waiting = state(get(bare, path))
        assert waiting["reason"] == "CreateRefused"
        assert "cannot set an ownerRef on a resource you can't delete" in waiting["message"]
        role = get(bare, f"{RIGHTS}/clusterroles/{NAME}")
        (rule,) = [r for r in role["rules"] if "persistentvolumeclaims" in r["resources"]]
        rule["verbs"].append("delete")
        bare.admin.put(f"{RIGHTS}/clusterroles/{NAME}", json=role).raise_for_status()
        await succeeds(bare, path)
    claim = get(bare, VOLUME_CLAIMS.path(namespace, "first-data"))
    assert claim["metadata"]["ownerReferences"][0]["name"] == "second"


def mounting() -> dict[str, Any]:
    """A template whose container mounts the volume `data`, which its pod does not have."""
    made = template("mounting")
    (container,) = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def reason(flow: dict[str, Any], key: str) -> str:
    found: str = flow.get("status", {}).get("conditions", {}).get(key, {}).get("reason", "")
    return found


async def run_a_flow_with_an_existing_event(bare: RealCluster, namespace: str) -> None:
    """An earlier process has reported the end already, so the Event is only counted."""
    path = await apply_diamond(bare, namespace, "told", "1s")
    flow = decoder(JobFlow).decode(json.dumps(get(bare, path)).encode())
    end = Event(EventType.NORMAL, "FlowSucceeded", "all is done: 5/5 steps")
    at = "2026-01-01T00:00:00Z"
    told = Pending(JOBFLOWS, flow.metadata, end.type, end.reason, at, at)
    told.add(end.message, told.first)
    name = told.name
    await post(bare, EVENTS.path(namespace), told.body())
    await succeeds(bare, path)
    await until(bare, EVENTS.path(namespace, name), lambda event: event["count"] == 2)


async def run_a_flow_that_is_deleted_with_its_jobs(bare: RealCluster, namespace: str) -> None:
    options = {"jobRetainPolicy": "delete", "ttlSecondsAfterFinished": 5}
    path = await apply_diamond(bare, namespace, "tidy", **options)
    await succeeds(bare, path)
    await until(bare, JOBS.path(namespace, "tidy-e"), lambda job: job is None)
    await until(bare, path, lambda flow: flow is None)


async def run_a_cron_that_missed_a_time(bare: RealCluster, namespace: str) -> None:
    """It is resumed after a year, so its flow starts at once."""
    await post(bare, JOBTEMPLATES.path(namespace), template("a"))
    made = cron("nightly", "0 0 1 1 *", suspend=True)
    del made["metadata"]["namespace"]
    await post(bare, CRONJOBFLOWS.path(namespace), made)
    path, merge = CRONJOBFLOWS.path(namespace, "nightly"), "application/merge-patch+json"
    status = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
    for below, change in ((f"{path}/status", status), (path, {"spec": {"suspend": False}})):
        answer = await asyncio.to_thread(
            bare.admin.patch, below, json=change, headers={"Content-Type": merge}
        )
        answer.raise_for_status()
    await until(bare, path, lambda found: "lastSuccessfulTime" in found.get("status", {}))


async def run_a_flow_with_a_claim(bare: RealCluster, namespace: str) -> None:
    """The name of the claim is in use until somebody deletes it, so it is read."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = VOLUME_CLAIMS.path(namespace, "claims-data")
    head = {"apiVersion": "v1", "kind": VOLUME_CLAIMS.kind, "metadata": {"name": "claims-data"}}
    await post(bare, VOLUME_CLAIMS.path(namespace), {**head, "spec": spec})
    await post(bare, JOBTEMPLATES.path(namespace), mounting())
    flow = jobflow("claims", {"mounting": []}, volumeClaims={"data": spec})
    await post(bare, JOBFLOWS.path(namespace), flow)
    path = JOBFLOWS.path(namespace, "claims")
    await until(bare, path, lambda flow: state(flow).get("reason") == "NameConflict")
    await delete(bare, path)
    bare.admin.delete(claim).raise_for_status()
    unused = {"metadata": {"finalizers": None}}  # as Kubernetes' controller of claims does it
    merge = {"Content-Type": "application/merge-patch+json"}
    bare.admin.patch(claim, json=unused, headers=merge).raise_for_status()
    await post(bare, JOBFLOWS.path(namespace), flow)
    await succeeds(bare, path)
    assert get(bare, claim)["metadata"]["ownerReferences"][0]["name"] == "claims"


async def cancel_a_flow_that_lost_a_job(bare: RealCluster, namespace: str) -> None:
    path = await apply_diamond(bare, namespace, "lost", "1h")
    flow = await until(bare, path, lambda flow: phase(flow) == "Running")
    refused = await delete(bare, path)
    assert "flow lost is Running" in refused["message"]
    await delete(bare, JOBS.path(namespace, "lost-a"))
    await until(bare, JOBS.path(namespace, "lost-a-r1"), lambda job: job is not None)
    await post(bare, COMMANDS.path(namespace), cancel(flow))
    ended = await until(bare, path, lambda flow: phase(flow) in ("Succeed", "Failed"))
    assert ended["status"]["state"]["reason"] == "Cancelled", ended["status"]


async def change_the_secret_and_wait_for_its_repair(bare: RealCluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets/{NAME}-webhook-certificate"
    before = get(bare, path)
    head = {"Content-Type": "application/merge-patch+json"}
    body = {"data": dict.fromkeys(before["data"], "bm90aGluZw==")}
    bare.admin.patch(path, json=body, headers=head).raise_for_status()
    await until(bare, path, lambda secret: "bm90aGluZw==" not in secret["data"].values())


def cancel(flow: dict[str, Any]) -> dict[str, Any]:
    meta = flow["metadata"]
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {"name": f"{meta['name']}-cancel"},
        "action": "TerminateJob",
        "target": {
            "apiVersion": flow["apiVersion"],
            "kind": flow["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        },
    }
