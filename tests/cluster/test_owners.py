"""Who may make child flows, flows of a CronJobFlow, flows that cancel others, and flows that reuse
others, on a real API server with RBAC."""

from typing import Any

import httpx
import pytest

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from support.cluster.real_cluster import RealCluster
from support.cluster.rights import allow
from support.cluster.served import Served
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import cron
from support.sandbox.servers import COLLECTED_SECONDS, Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

MERGE = {"Content-Type": "application/merge-patch+json"}
GATE = {"flows": [{"name": "ask", "approval": {"message": "May this go to production?"}}]}


class User:
    """Requests of a user for objects of a namespace."""

    def __init__(self, real: RealCluster, api: Server, name: str) -> None:
        self._client = real.admin
        self._head = {"Impersonate-User": name}
        self._path = JOBFLOWS.path(api.namespace)

    def create(self, manifest: dict[str, Any], path: str = "") -> httpx.Response:
        return self._client.post(path or self._path, json=manifest, headers=self._head)

    def patch(self, name: str, metadata: dict[str, Any]) -> httpx.Response:
        body = {"metadata": metadata}
        return self._client.patch(f"{self._path}/{name}", json=body, headers=self._head | MERGE)


def refused(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    return str(answer.json()["message"]).partition("denied the request: ")[2]


def owned(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    """Return a flow that an object of the API server controls."""
    manifest = jobflow(name, {"x": []}, suspend=True)
    manifest["metadata"]["ownerReferences"] = [reference(owner)]
    return manifest


def reference(owner: dict[str, Any]) -> dict[str, Any]:
    names = {name: owner["metadata"][name] for name in ("name", "uid")}
    kind = {name: owner[name] for name in ("apiVersion", "kind")}
    return {**kind, **names, "controller": True}


async def test_a_child_flow_that_a_user_forges_is_refused(
    real: RealCluster, api: Server, served: Served
) -> None:
    allow(real, api.namespace, "bob", ["create", "get", "update", "patch"])
    bob = User(real, api, "bob")
    await api.create(api.templates, template("build"))
    parent = jobflow("p", {"build": []})
    parent["spec"]["flows"] += [
        {"name": "gate", "dependsOn": {"targets": ["build"]}, "flow": GATE},
        {"name": "deploy", "template": "build", "dependsOn": {"targets": ["gate"]}},
    ]
    made = bob.create(parent).json()
    for answer in (bob.create(owned("p-gate", made)), bob.create(owned("other", made))):
        assert refused(answer).startswith('user "bob" may not make this flow a child of JobFlow p')
    assert bob.create(jobflow("mine", {"x": []}, suspend=True)).status_code == 201
    adopted = bob.patch("mine", {"ownerReferences": [reference(made)]})
    assert "only JobFlow's controller makes child flows" in refused(adopted)
    async with volcano(await real.client("volcano")):
        child = f"{api.flows}/p-gate"
        asks = {"phase": "Pending", "reason": "WaitingForApproval"}
        await api.until(child, lambda flow: bool(flow) and asks.items() <= _state(flow).items())
    assert "whose step runs this flow" in refused(bob.patch("p-gate", {"ownerReferences": None}))
    assert (await api.get(f"{api.vcjobs}/p-deploy")).code == 404

    # the garbage collector edits the owners under a name of its own
    force = {"annotations": {"flow.volcano.sh/force-delete": "true"}}
    real.admin.patch(f"{api.flows}/p", json={"metadata": force}, headers=MERGE).raise_for_status()
    orphan = {"propagationPolicy": "Orphan"}
    real.admin.delete(f"{api.flows}/p", params=orphan).raise_for_status()
    await api.until(
        child,
        lambda flow: "ownerReferences" not in flow["metadata"],
        within=COLLECTED_SECONDS,
    )


def _state(flow: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = (flow.get("status") or {}).get("state") or {}
    return state


async def test_flows_that_act_on_others_need_the_right_to_update_these(
    real: RealCluster, api: Server, served: Served
) -> None:
    allow(real, api.namespace, "bob", ["create"], crons=["create"])
    allow(real, api.namespace, "carol", ["create", "update"], crons=["create", "update"])
    bob, carol = (User(real, api, name) for name in ("bob", "carol"))
    crons = CRONJOBFLOWS.path(api.namespace)
    nightly = cron("nightly", suspend=True) | {"metadata": {"name": "nightly"}}
    stored = bob.create(nightly, crons).json()
    assert refused(bob.create(owned("blocker", stored))) == (
        f'user "bob" may not update cronjobflows.flow.volcano.sh "nightly" in namespace '
        f'"{api.namespace}", which is needed to make this flow one of its flows (owner reference); '
        "bind the user to a Role that allows the verb update on cronjobflows of flow.volcano.sh"
    )
    assert carol.create(owned("by-hand", stored)).status_code == 201

    replaces = {"concurrency": {"group": "nightly", "policy": "Replace"}}
    attacker = jobflow("attacker", {"x": []}, suspend=True, **replaces)
    repeated = cron("attacker", suspend=True, jobFlowTemplate={"spec": attacker["spec"]})
    repeated["metadata"] = {"name": "attacker"}
    for manifest, path in ((attacker, ""), (repeated, crons)):
        assert "which concurrency policy Replace needs" in refused(bob.create(manifest, path))
        assert carol.create(manifest, path).status_code == 201


async def test_who_reuses_a_flow_needs_rights_on_it(
    real: RealCluster, api: Server, served: Served
) -> None:
    for name, verbs in {"bob": [], "carol": ["get"], "dave": ["get", "update"]}.items():
        allow(real, api.namespace, name, ["create", *verbs])
    bob, carol, dave = (User(real, api, name) for name in ("bob", "carol", "dave"))
    claims = {"data": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1}}}}
    await api.create(api.templates, template("build", duration="50ms"))
    await api.create(api.flows, jobflow("first", {"build": []}))
    await api.create(api.flows, jobflow("with-claims", {"build": []}, volumeClaims=claims))
    async with volcano(await real.client("volcano")):
        for name in ("first", "with-claims"):
            await api.until(f"{api.flows}/{name}", lambda flow: _state(flow)["phase"] == "Succeed")

    def reusing(name: str) -> dict[str, Any]:
        return jobflow(f"again-{name}", {"build": []}, reuse={"flow": name}, suspend=True)

    may_not = f'may not {{}} jobflows.flow.volcano.sh "{{}}" in namespace "{api.namespace}", which'
    for name in ("first", "with-claims", "missing"):
        assert may_not.format("get", name) in refused(bob.create(reusing(name)))
    assert may_not.format("update", "with-claims") in refused(carol.create(reusing("with-claims")))
    assert carol.create(reusing("first")).status_code == 201
    assert dave.create(reusing("with-claims")).status_code == 201
    assert "flow first is reused by flow again-first" in refused(
        real.admin.delete(f"{api.flows}/first")
    )
