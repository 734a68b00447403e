"""A volume claim moves from flow to flow on a real API server."""

import asyncio
from typing import Any

import pytest

from jobflow.api.resources import VOLUME_CLAIMS
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.served import Served
from support.sandbox.manifests import as_list, jobflow, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def mounting(name: str, **annotations: str) -> dict[str, Any]:
    """A template whose container mounts the volume `data`, which its pod does not have."""
    made = template(name, duration="100ms", **annotations)
    (container,) = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


async def test_a_claim_moves_twice_although_the_controller_crashes(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    async def apply(*objects: dict[str, Any]) -> None:
        here = ("-n", api.namespace, "apply", "-f", "-")
        await asyncio.to_thread(kubectl, *here, stdin=as_list(*objects))

    def flow(name: str, **more: Any) -> dict[str, Any]:
        return jobflow(name, {"load": [], "train": ["load"]}, volumeClaims={"data": DATA}, **more)

    await apply(mounting("load"), mounting("train", exit_code="1"))
    async with volcano(await real.client("volcano"), speed=10):
        for name, before in (("first", ""), ("second", "first"), ("third", "second")):
            await apply(flow(name, **({"reuse": {"flow": before}} if before else {})))
            await asyncio.to_thread(served.kill)
            await asyncio.to_thread(served.start)
            path = f"{api.flows}/{name}"
            status = (await api.until(path, lambda flow: phase(flow) == "Failed"))["status"]
            claim = await api.get(VOLUME_CLAIMS.path(api.namespace, "first-data"))
            (owner,) = claim.json["metadata"]["ownerReferences"]
            assert owner["name"] == name
            if before:
                assert status["conditions"][f"{name}-load"]["reason"] == "Reused"
                assert status["reusedClaims"] == {"data": "first-data"}
    refused = await asyncio.to_thread(
        kubectl.refused, "-n", api.namespace, "apply", "-f", "-",
        stdin=as_list(flow("late", reuse={"flow": "first"})),
    )  # fmt: skip
    assert "its volume claims belong to the flow third" in refused
    created = real.audit.created("jobs", api.namespace)
    assert created == dict.fromkeys(("first-load", "first-train", "second-train", "third-train"), 1)
