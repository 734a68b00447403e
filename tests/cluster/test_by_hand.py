"""Single steps that users cancel, skip, retry and scale on a real API server, and who may do so."""

from typing import Any

import pytest

from jobflow.api.resources import EVENTS
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.rights import allow
from support.cluster.served import Served
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import run_command
from support.sandbox.manifests import flow, step, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = pytest.mark.cluster

TEMPLATES = (
    template("ok", duration="50ms"),
    template("long", duration="1h"),
    template("bad", duration="50ms", exit_code="1"),
)


def conditions(flow: Any) -> dict[str, Any]:
    found: dict[str, Any] = flow.get("status", {}).get("conditions", {})
    return found


class Cluster:
    """A flow `f` of these steps, and the users who steer it."""

    def __init__(self, real: RealCluster, api: Server) -> None:
        self.real, self.api = real, api

    async def apply(self, *steps: dict[str, Any]) -> None:
        for each in TEMPLATES:
            await self.api.create(self.api.templates, each)
        await self.api.create(self.api.flows, flow("f", *steps))

    async def jobflow(self, user: str, command: str) -> Result:
        options = ("-n", self.api.namespace, "--as", user)
        kubeconfig = self.real.plane.kubeconfig("admin")
        return await run_command(kubeconfig, *command.split(), *options)

    async def steer(self, command: str) -> None:
        """Run a command as alice, who has all rights."""
        result = await self.jobflow("alice", command)
        assert (result.code, result.err) == (0, "")

    async def job(self, name: str, expected: str = "Running") -> None:
        path = f"{self.api.vcjobs}/f-{name}"
        await self.api.until(path, lambda job: phase(job) == expected)

    async def ends(self, expected: str, **reasons: str) -> dict[str, Any]:
        """Return the conditions once the flow has ended so, and steps have these reasons."""

        def holds(flow: Any) -> bool:
            found = {name: conditions(flow).get(f"f-{name}", {}).get("reason") for name in reasons}
            return phase(flow) == expected and found == reasons

        return conditions(await self.api.until(f"{self.api.flows}/f", holds))


@pytest.fixture
def world(real: RealCluster, api: Server, served: Served) -> Cluster:
    return Cluster(real, api)


async def test_users_steer_single_steps_while_the_flow_runs_and_after_it_has_ended(
    world: Cluster,
) -> None:
    items: dict[str, Any] = {"forEach": {"count": 2, "parallelism": 1}, "continueOnFailure": True}
    await world.apply(
        step("prepare", template="ok"),
        step("sweep", "prepare", template="long", **items),
        step("check", "sweep", template="bad"),
        step("report", "check", template="ok", env={"N": "$(steps.check.outputs.n)"}),
    )
    async with volcano(await world.real.client("volcano")):
        await world.job("sweep-0")
        await world.steer("scale f sweep --parallelism 2 -m now")
        await world.job("sweep-1")
        await world.steer("cancel f --step sweep/0 -m hangs")
        await world.job("sweep-0", "Aborted")
        await world.steer("retry f --step prepare")
        await world.job("sweep-0-r1")
        await world.job("sweep-1-r1")
        await world.steer("skip f sweep")
        await world.ends("Failed", sweep="SkippedByUser", check="JobFailed")
        await world.steer("skip f check --output n=3 -m flaky")
        await world.ends("Succeed", check="SkippedByUser")
        await world.steer("retry f --step report")
        await world.job("report-r1", "Completed")
        steps = await world.ends("Succeed")
    assert steps["f-check"]["outputs"] == {"n": 3}
    assert steps["f-check"]["message"] == "it was skipped by alice: flaky"
    assert steps["f-sweep"]["message"] == "it was skipped by alice"
    jobs = ("check", "prepare", "report", "sweep-0", "sweep-1")
    again = ("prepare-r1", "report-r1", "sweep-0-r1", "sweep-1-r1")
    created = world.real.audit.created("jobs", world.api.namespace)
    assert created == {f"f-{job}": 1 for job in (*jobs, *again)}
    events = (await world.api.get(EVENTS.path(world.api.namespace))).json["items"]
    assert "step sweep/0: cancelled by alice: hangs" in str(events)
    assert "step sweep: at most 2 at once by alice: now" in str(events)


async def test_who_steers_steps_needs_the_rights_of_commands_and_of_approvals(
    world: Cluster,
) -> None:
    rights = {"bob": [], "carol": ["update"], "dave": ["update", "approve"]}
    for user, verbs in rights.items():
        more = ["get", "list", *verbs]
        allow(world.real, world.api.namespace, user, more, commands=user != "bob")
    inner = [step("ok", approval={}), step("x", "ok", template="ok")]
    await world.apply(
        step("a", template="ok"),
        step("release", "a", flow={"flows": inner}),
        step("b", "release", template="ok"),
    )
    named = f'jobflows.flow.volcano.sh "f" in namespace "{world.api.namespace}"'
    async with volcano(await world.real.client("volcano")):
        await world.api.until(
            f"{world.api.flows}/f", lambda found: "flow" in conditions(found).get("f-release", ())
        )
        for command in ("cancel --step b", "skip b", "retry --step a", "scale --parallelism 2"):
            verb, _, rest = command.partition(" ")
            refused = await world.jobflow("bob", f"{verb} f {rest}")
            assert "needs the right to create commands.bus.volcano.sh" in refused.err
        for command in ("cancel f --step release", "skip f release"):
            refused = await world.jobflow("carol", command)
            why = f'user "carol" may not approve {named}, because it ends a child flow'
            assert why in refused.err
        done = await world.jobflow("dave", "skip f release -m known")
        assert (done.code, done.err) == (0, "")
        steps = await world.ends("Succeed", release="SkippedByUser")
    assert steps["f-release"]["message"] == "it was skipped by dave: known"
    assert world.real.audit.created("jobs", world.api.namespace) == {"f-a": 1, "f-b": 1}
