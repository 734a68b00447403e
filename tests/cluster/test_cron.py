"""CronJobFlows on a real API server: admission, flows of missed times, Replace, and what kubectl
and `jobflow` say."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import CRONJOBFLOWS, EVENTS
from jobflow.core.cron import scheduled_name
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.served import Served
from support.sandbox.manifests import as_list, template
from support.sandbox.running_controller import cron
from support.sandbox.servers import COLLECTED_SECONDS, Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

YEAR = timedelta(days=365)


class World:
    """The CronJobFlow `c` in the namespace of the test."""

    def __init__(self, api: Server, kubectl: Kubectl) -> None:
        self.api, self._kubectl = api, kubectl
        self._here = ("-n", api.namespace)
        self.path = CRONJOBFLOWS.path(api.namespace, "c")

    async def apply(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            each["metadata"].pop("namespace", None)
        await self.kubectl("apply", "-f", "-", stdin=as_list(*objects))

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return (await asyncio.to_thread(self._kubectl, *self._here, *arguments, stdin=stdin)).out

    async def refused(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, which fails, and return its message."""
        run = self._kubectl.refused
        return await asyncio.to_thread(run, *self._here, *arguments, stdin=stdin)

    async def jobflow(self, *arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("jobflow")), *arguments, *self._here]
        environment = self._kubectl.environment
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=True
        )
        return str(done.stdout)

    async def missed(self, since: datetime) -> None:
        """Make the CronJobFlow, which is suspended, miss all times since then, and resume it."""
        status = {"lastScheduleTime": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        answer = await self.api.patch(f"{self.path}/status", {"status": status})
        assert answer.code == 200, answer.json
        await self.jobflow("resume", "cjf/c")

    async def flows(self, count: int) -> list[dict[str, Any]]:
        """Wait until there are so many flows, and return them in order of their names."""
        listed = await self.api.until(self.api.flows, lambda found: len(found["items"]) == count)
        items: list[dict[str, Any]] = listed["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))


def hour_of(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


async def test_a_cron_that_missed_a_year_starts_one_flow(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = World(api, kubectl)
    step = template("a", duration="50ms")
    await world.apply(step, cron(schedule="0 * * * *", suspend=True))
    before = hour_of(datetime.now(UTC))
    async with volcano(await real.client("volcano")):
        await world.missed(before - YEAR)
        cron_now = await api.until(
            world.path, lambda found: "lastSuccessfulTime" in found.get("status", {})
        )
        (flow,) = await world.flows(1)
    times = {before, hour_of(datetime.now(UTC))}  # the test may run at the end of an hour
    names = {scheduled_name("c", time): time for time in times}
    assert flow["metadata"]["name"] in names
    time = names[flow["metadata"]["name"]]
    assert cron_now["status"]["lastScheduleTime"] == time.strftime("%Y-%m-%dT%H:%M:%SZ")
    (owner,) = flow["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["blockOwnerDeletion"]) == (cron_now["metadata"]["uid"], True)
    events = await api.until(
        EVENTS.path(api.namespace),
        lambda found: any(each["reason"] == "FlowFinished" for each in found["items"]),
    )
    reasons = {each["reason"] for each in events["items"] if each["involvedObject"]["name"] == "c"}
    assert {"TooManyMissedTimes", "FlowCreated", "FlowFinished"} <= reasons
    assert real.audit.created("jobflows", api.namespace) == {flow["metadata"]["name"]: 1}
    columns = (await world.kubectl("get", "cjf")).splitlines()[0].split("  ")
    assert [column.strip() for column in columns if column] == [
        *("NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE")
    ]


async def test_replace_cancels_the_old_flow_and_then_starts_the_last_missed_time(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = World(api, kubectl)
    step = template("a", duration="1h")
    await world.apply(step, cron(schedule="0 0 1 1 *", suspend=True, concurrencyPolicy="Replace"))
    async with volcano(await real.client("volcano")):
        await world.missed(datetime.now(UTC) - YEAR)
        (old,) = await world.flows(1)
        await api.until(
            f"{api.vcjobs}/{old['metadata']['name']}-a", lambda j: phase(j) == "Running"
        )
        refusal = await world.refused("delete", "cjf", "c")
        assert f"CronJobFlow c has 1 active flow ({old['metadata']['name']})" in refusal
        await world.kubectl(
            "patch", "cjf", "c", "--type=merge", "-p", '{"spec":{"schedule":"0 * * * *"}}'
        )
        _, new = await world.flows(2)
        old = (await api.get(f"{api.flows}/{old['metadata']['name']}")).json
        assert (phase(old), old["status"]["state"]["reason"]) == ("Failed", "Cancelled")
        await world.kubectl("patch", "cjf", "c", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        await world.jobflow("cancel", new["metadata"]["name"], "--wait")
        await api.until(world.path, lambda found: not found["status"].get("active"))
        await world.kubectl("delete", "cjf", "c")
        await api.until(api.flows, lambda found: found["items"] == [], within=COLLECTED_SECONDS)


async def test_backfill_and_trigger_create_flows_of_the_cron(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = World(api, kubectl)
    await world.apply(
        template("a", duration="50ms"),
        cron(schedule="30 2 * * *", timeZone="Europe/Berlin", suspend=True),
    )
    days = ("--from", "2026-03-28", "--to", "2026-03-30")
    async with volcano(await real.client("volcano")):
        first = await world.jobflow("backfill", "c", *days)
        assert first.count(" created: ") == 2
        assert (await world.jobflow("backfill", "c", *days)) == first.replace("created", "exists")
        made = await world.jobflow("trigger", "c", "--wait")
        assert "Succeed" in made
        flows = await world.flows(3)
    assert [flow["metadata"]["name"] for flow in flows[:2]] == ["c-29577690", "c-29580510"]
    assert flows[2]["metadata"]["name"].startswith("c-manual-")


async def test_a_cron_is_refused_with_all_its_faults(
    api: Server, served: Served, kubectl: Kubectl
) -> None:
    world = World(api, kubectl)
    await world.apply(template("a"))
    faulty = cron(schedule="0 2 * * 7", timeZone="Europe/Berln", concurrencyPolicy="Skip")
    step = {"name": "a", "when": "flow.scheduledTim != ''"}
    faulty["spec"]["jobFlowTemplate"]["spec"]["flows"] = [step]
    del faulty["metadata"]["namespace"]
    message = await world.refused("create", "-f", "-", stdin=as_list(faulty))
    for path in (
        "spec.schedule",
        "spec.timeZone",
        "spec.concurrencyPolicy",
        "spec.jobFlowTemplate.spec.flows[0].when",
    ):
        assert path in message
