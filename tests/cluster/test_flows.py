"""`jobflow serve` on a real API server: flows from kubectl, crashes, flows of Volcano."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.api.resources import JOBFLOWS, JOBS, JOBTEMPLATES
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.served import Served, registered
from support.paths import ROOT
from support.sandbox.manifests import DIAMOND, as_list, jobflow, template
from support.sandbox.running_controller import Ends
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano
from support.time.alongside import alongside

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

MIDFLIGHT = ROOT / "tests" / "data" / "volcano-jobflow-midflight.yaml"


@asynccontextmanager
async def complete_at_once(real: RealCluster) -> AsyncIterator[None]:
    """Complete every vcjob as soon as it is seen."""
    async with await real.client("volcano") as client:
        async with alongside(Ends(client, {}, "Completed").run()):
            yield


def diamond(*, duration: str = "200ms") -> str:
    return as_list(*(template(s, duration=duration) for s in DIAMOND), jobflow("test", DIAMOND))


async def apply(kubectl: Kubectl, namespace: str, manifests: str) -> str:
    answer = await asyncio.to_thread(kubectl, "-n", namespace, "apply", "-f", "-", stdin=manifests)
    return answer.err


async def ended(api: Server, name: str = "test") -> dict[str, Any]:
    def final(flow: Any) -> bool:
        return phase(flow) in ("Succeed", "Failed")

    found: dict[str, Any] = (await api.until(f"{api.flows}/{name}", final))["status"]
    return found


async def jobs(api: Server) -> dict[str, str]:
    items = (await api.get(api.vcjobs)).json["items"]
    return {item["metadata"]["name"]: phase(item) for item in items}


ALL_COMPLETED = {f"test-{step}": "Completed" for step in DIAMOND}


async def test_the_sample_of_the_documentation_succeeds(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    start = datetime.now(UTC)
    async with volcano(await real.client("volcano"), speed=10):
        assert await apply(kubectl, api.namespace, diamond()) == ""
        until = "--for=jsonpath={.status.state.phase}=Succeed"
        await asyncio.to_thread(
            kubectl, "-n", api.namespace, "wait", until, "jf/test", "--timeout=60s"
        )
    assert await jobs(api) == ALL_COMPLETED
    rows = (await asyncio.to_thread(kubectl, "-n", api.namespace, "get", "jf")).rows
    assert rows[1][:3] == ["test", "Succeed", "5/5"]
    await api.until(
        api.events,
        lambda listed: all(
            any(job in event["message"] for event in listed["items"]) for job in ALL_COMPLETED
        ),
    )
    described = (await asyncio.to_thread(kubectl, "-n", api.namespace, "describe", "jf/test")).out
    events = described[described.index("Events:") :]
    assert all(job in events for job in ALL_COMPLETED)
    assert real.audit.created("jobs", api.namespace) == dict.fromkeys(ALL_COMPLETED, 1)
    for user in ("jobflow", "volcano"):
        assert real.audit.denied(user, api.namespace, since=start) == []


async def test_jobs_and_pods_are_deleted_with_their_flow(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    async with volcano(await real.client("volcano"), speed=10):
        await apply(kubectl, api.namespace, diamond(duration="1h"))
        await api.until(f"{api.flows}/test", lambda flow: phase(flow) == "Running")
        here = ("-n", api.namespace)
        refusal = await asyncio.to_thread(kubectl.refused, *here, "delete", "jf", "test")
        assert "flow test is Running" in refusal
        refusal = await asyncio.to_thread(kubectl.refused, *here, "delete", "jt", "e")
        assert "test" in refusal
        force = "flow.volcano.sh/force-delete=true"
        await asyncio.to_thread(kubectl, *here, "annotate", "jf", "test", force)
        await asyncio.to_thread(kubectl, *here, "delete", "jf", "test")
        for path in (api.vcjobs, api.pods):
            await api.until(path, lambda listed: listed["items"] == [])
    assert real.audit.created("jobs", api.namespace) == {"test-a": 1}


async def test_a_crash_repeats_no_job(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    async with volcano(await real.client("volcano"), speed=10):
        await apply(kubectl, api.namespace, diamond())
        for step in ("a", "b", "e"):
            await api.until(f"{api.vcjobs}/test-{step}", lambda job: job is not None)
            await asyncio.to_thread(served.kill)
            await asyncio.to_thread(served.start)
        assert (await ended(api))["state"]["phase"] == "Succeed"
    assert real.audit.created("jobs", api.namespace) == dict.fromkeys(ALL_COMPLETED, 1)


async def test_without_a_webhook_an_invalid_flow_fails_with_the_same_message(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    serve = Served(real, tmp_path, webhook=False)
    with serve.running():
        await api.create(api.flows, jobflow("test", {"a": ["nowhere"]}))
        state = (await ended(api))["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "Invalid")
    assert 'spec.flows[0].dependsOn.targets[0]: Invalid value: "nowhere"' in state["message"]


async def test_flows_that_volcano_started_continue(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    await put_midflight(api)
    serve = Served(real, tmp_path)
    with serve.running(), registered(real, serve):
        await api.until(f"{api.flows}/test", lambda flow: flow["status"].get("progress") == "3/5")
        await api.patch(
            f"{api.vcjobs}/test-c/status", {"status": {"state": {"phase": "Completed"}}}
        )
        async with complete_at_once(real):
            status = await ended(api)
    assert status["state"]["phase"] == "Succeed"
    assert real.audit.created("jobs", api.namespace) == dict.fromkeys(
        [f"test-{step}" for step in DIAMOND], 1
    )
    requests = real.audit.asked(api.namespace, user="jobflow")
    assert [
        asked.name for asked in requests if asked.verb == "create" and asked.resource == "jobs"
    ] == ["test-e"]
    assert status["completedJobs"] == [f"test-{step}" for step in DIAMOND]


async def put_midflight(api: Server) -> None:
    items = yaml.safe_load(MIDFLIGHT.read_text())["items"]
    uids: dict[str, str] = {}
    for kind, resource in (("JobTemplate", JOBTEMPLATES), ("JobFlow", JOBFLOWS), ("Job", JOBS)):
        for item in (item for item in items if item["kind"] == kind):
            meta = item["metadata"]
            metadata = {k: meta[k] for k in ("name", "labels", "annotations") if k in meta}
            owners = [
                {**owner, "uid": uids[owner["uid"]]} for owner in meta.get("ownerReferences", ())
            ]
            created = await api.create(
                resource.path(api.namespace),
                {**item, "metadata": metadata | ({"ownerReferences": owners} if owners else {})},
            )
            uids[meta["uid"]] = created["metadata"]["uid"]
            if "status" in item:
                path = resource.path(api.namespace, meta["name"], "status")
                restored = await api.patch(path, {"status": item["status"]})
                assert restored.json["status"] == item["status"]
