"""Commands and TTLs on a real API server: Commands from kubectl suspend, resume and retry a flow;
ended jobs and flows are deleted after their TTL."""

import asyncio
import json
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, EVENTS
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import state
from support.cluster.served import Served
from support.sandbox.manifests import as_list, jobflow, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]


class Cluster:
    def __init__(self, api: Server, kubectl: Kubectl) -> None:
        self.api, self._kubectl = api, kubectl

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        here = ("-n", self.api.namespace, *arguments)
        return (await asyncio.to_thread(self._kubectl, *here, stdin=stdin)).out

    async def apply(self, *objects: dict[str, Any]) -> None:
        await self.kubectl("apply", "-f", "-", stdin=as_list(*objects))

    async def command(self, action: str) -> None:
        target = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f"}
        uid = await self.kubectl("get", "jf", "f", "-o", "jsonpath={.metadata.uid}")
        manifest = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": action.lower()},
            "action": action,
            "target": target | {"uid": uid},
        }
        await self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        await self.api.until(COMMANDS.path(self.api.namespace), lambda them: them["items"] == [])

    async def until(self, reason: str = "", phase: str = "Running") -> dict[str, Any]:
        def holds(flow: Any) -> bool:
            return (state(flow).get("phase"), state(flow).get("reason", "")) == (phase, reason)

        found: dict[str, Any] = (await self.api.until(f"{self.api.flows}/f", holds))["status"]
        return found

    async def job(self, name: str, phase: str) -> dict[str, Any]:
        path = f"{self.api.vcjobs}/{name}"
        found: dict[str, Any] = await self.api.until(
            path, lambda job: state(job).get("phase") == phase
        )
        return found

    async def jobs(self) -> list[str]:
        listed = (await self.api.get(self.api.vcjobs)).json["items"]
        return sorted(job["metadata"]["name"] for job in listed)


def refusals(events: dict[str, Any]) -> list[str]:
    """Return why Commands were refused, according to a list of Events."""
    told = [each["message"] for each in events["items"] if each["reason"] == "CommandRefused"]
    return [message for messages in told for message in messages.split("; ")]


async def test_commands_from_kubectl_suspend_resume_and_retry_a_flow(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = Cluster(api, kubectl)
    slow, quick = template("a", duration="1h"), template("b", duration="50ms")
    await world.apply(slow, quick, jobflow("f", {"a": [], "b": ["a"]}))
    async with volcano(await real.client("volcano")):
        await world.job("f-a", "Running")
        await world.command("SuspendFlow")
        assert (await world.until("Suspended"))["suspendedBy"] == "SuspendFlow"
        await world.command("AbortJob")
        await world.job("f-a", "Aborted")
        await world.command("ResumeJob")
        await world.job("f-a-r1", "Running")
        await world.command("TerminateJob")
        await world.until("Cancelled", "Failed")
        await world.apply(template("a", duration="50ms"))
        await world.command("RestartJob")
        status = await world.until("", "Succeed")
        await world.command("RestartJob")
        await world.command("CloseQueue")
    assert await world.jobs() == ["f-a", "f-a-r1", "f-a-r2", "f-b"]
    assert status["conditions"]["f-a"]["attempts"] == 3
    assert status["conditions"]["f-a"]["pastAttempts"] == 2
    assert status["completedJobs"] == ["f-a-r2", "f-b"]
    events = EVENTS.path(api.namespace)
    listed = await api.until(events, lambda listed: len(refusals(listed)) >= 2)
    assert sorted(refusals(listed)) == [
        "Command closequeue (CloseQueue) was refused: JobFlow executes AbortJob, ApproveStep, "
        "CancelStep, RejectStep, RestartJob, ResumeJob, RetrySteps, RetryTolerated, ScaleFlow, "
        "SkipStep, SuspendFlow, TerminateJob and TerminateNow on flows and no other action",
        "Command restartjob (RestartJob) was refused: only a flow that has failed can be retried, "
        "and this one is Succeed",
    ]


async def test_a_finished_flow_and_its_jobs_are_deleted_after_the_ttl(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = Cluster(api, kubectl)
    steps: dict[str, list[str]] = {"a": [], "b": ["a"]}
    await world.apply(
        *(template(name, duration="50ms") for name in steps),
        jobflow("f", steps, ttlSecondsAfterFinished=2),
    )
    async with volcano(await real.client("volcano")):
        await world.until("", "Succeed")
        assert await world.jobs() == ["f-a", "f-b"]
        await api.until(api.flows, lambda listed: listed["items"] == [])
        await api.until(api.vcjobs, lambda listed: listed["items"] == [])
    assert real.audit.created("jobs", api.namespace) == {"f-a": 1, "f-b": 1}


async def test_a_finished_job_is_deleted_after_the_ttl_of_its_template(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    """Volcano would delete it before the flow knows its end, so Volcano does not get the TTL."""
    world = Cluster(api, kubectl)
    short, lasting = template("a", duration="1s"), template("b", duration="50ms")
    short["spec"]["ttlSecondsAfterFinished"] = 1
    await world.apply(short, lasting, jobflow("f", {"a": [], "b": ["a"]}))
    async with volcano(await real.client("volcano")):
        running = await world.job("f-a", "Running")
        assert "ttlSecondsAfterFinished" not in running["spec"]
        await world.until("", "Succeed")
        await api.until(api.vcjobs, lambda listed: len(listed["items"]) == 1)
        [remaining] = (await api.get(api.vcjobs)).json["items"]
        status = await world.until("", "Succeed")
    assert remaining["metadata"]["name"] == "f-b"
    assert {key: entry["phase"] for key, entry in status["conditions"].items()} == {
        "f-a": "Completed",
        "f-b": "Completed",
    }
    assert status["completedJobs"] == ["f-a", "f-b"]
    assert real.audit.created("jobs", api.namespace) == {"f-a": 1, "f-b": 1}
