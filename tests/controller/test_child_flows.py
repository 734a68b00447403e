"""Child flows on a server: created, retried, cancelled, suspended and deleted with their parent."""

from typing import Any

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    cluster,
    flow,
    set_phase,
    template,
)

INNER: dict[str, Any] = {
    "params": {"site": "$(item)"},
    "flows": [{"name": "x", "template": "t"}, {"name": "y", "template": "t"}],
    "outputs": {"site": "params.site"},
}


def nested(flow: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a flow with a child flow for each of two items."""
    step = {"name": "a", "flow": flow, "forEach": {"items": ["p", "q"]}}
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": NAMESPACE},
        "spec": {"flows": [step], **fields},
    }


async def apply(world: Cluster, flow: dict[str, Any] = INNER, **fields: Any) -> None:
    await world.apply(template("t"), nested(flow, **fields))


def flows_of(flow: JobFlow) -> dict[str, str]:
    """Return the phases of the child flows by their names, by the status of the parent."""
    runs = (flow.status.conditions or {})["f-a"].runs or ()
    return {run.flow: run.phase for run in runs}


async def test_a_parent_has_the_outputs_of_its_child_flows() -> None:
    async with cluster() as world, world.ends(), world.controller():
        await apply(world, outputs={"sites": 'steps["a"].items.map(i, i.outputs.site)'})
        done = await world.ended("f")
        child = await world.flow("f-a-1")
    assert done.status.state.phase == "Succeed"
    assert done.status.outputs == {"sites": ["p", "q"]}
    assert flows_of(done) == {"f-a-0": "Completed", "f-a-1": "Completed"}
    assert not (done.status.completed_jobs or done.status.job_status_list)
    own = child.metadata.labels or {}
    assert (own[labels.PARENT], own[labels.ROOT]) == ("f", "f")
    (owner,) = child.metadata.owner_references or ()
    assert (owner.name, owner.controller, owner.block_owner_deletion) == ("f", True, True)


async def test_a_retry_of_the_parent_retries_its_failed_child_flow() -> None:
    async with cluster() as world, world.ends({"f-a-1-y": "Failed"}), world.controller():
        await apply(world)
        failed = await world.ended("f")
        assert flows_of(failed) == {"f-a-0": "Completed", "f-a-1": "Failed"}
        await world.order("RestartJob")
        done = await world.until("f", lambda flow: flow.status.state.phase == "Succeed")
        assert flows_of(done) == {"f-a-0": "Completed", "f-a-1": "Completed"}
        assert sorted(await world.jobs()) == [
            *("f-a-0-x", "f-a-0-y", "f-a-1-x", "f-a-1-y", "f-a-1-y-r1"),
        ]
        assert not await world.raw(COMMANDS)


async def test_a_tolerated_failure_two_levels_below_runs_again_with_all_behind_it() -> None:
    """The job f-a-b-x has failed, which its own flow tolerates; f-a-c and f-d were made of that."""
    tolerated = {"flows": [{"name": "x", "template": "t", "continueOnFailure": True}]}
    middle = {
        "flows": [
            {"name": "b", "flow": tolerated},
            {"name": "c", "template": "t", "dependsOn": {"targets": ["b"]}},
        ]
    }
    outer = nested(middle)
    outer["spec"]["flows"] = [
        {"name": "a", "flow": middle},
        {"name": "d", "template": "t", "dependsOn": {"targets": ["a"]}},
        {"name": "e", "template": "t"},
    ]
    async with cluster() as world, world.ends({"f-a-b-x": "Failed"}), world.controller():
        await world.apply(template("t"), outer)
        done = await world.ended("f")
        assert (done.status.state.phase, done.status.tolerated_in_children) == ("Succeed", True)
        await world.order("RetryTolerated")
        again = await world.until("f", lambda flow: flow.final and flow.status.retries == 1)
        assert (again.status.state.phase, again.status.tolerated_in_children) == ("Succeed", False)
        assert sorted(await world.jobs()) == [
            *("f-a-b-x", "f-a-b-x-r1", "f-a-c", "f-a-c-r1", "f-d", "f-d-r1", "f-e"),
        ]
        assert not await world.raw(COMMANDS)


async def test_a_cancel_of_the_parent_runs_the_finally_of_its_child_flows() -> None:
    inner = {**INNER, "finally": [{"name": "z", "template": "t"}]}
    ends = {f"f-a-{i}-{step}": "Running" for i in (0, 1) for step in "xy"}
    async with cluster() as world, world.controller():
        async with world.ends(ends):
            await apply(world, inner)
            await world.until_jobs(f_a_0_x="Running", f_a_1_y="Running")
            await world.order("TerminateJob")
            await world.until("f-a-1", lambda flow: flow.status.state.reason == "Cancelled")
            for name in ends:
                await set_phase(world.client, name, "Aborted")
            done = await world.ended("f")
            child = await world.flow("f-a-0")
    assert (done.status.state.phase, done.status.state.reason) == ("Failed", "Cancelled")
    assert flows_of(done) == {"f-a-0": "Failed", "f-a-1": "Failed"}
    assert (child.status.conditions or {})["f-a-0-z"].phase == "Completed"


async def test_child_flows_are_suspended_and_resumed_with_their_parent() -> None:
    inner = {**INNER, "flows": [{"name": "x"}]}
    async with cluster() as world, world.ends(), world.controller():
        await world.apply(nested(inner))
        await world.until("f-a-1", lambda flow: flow.status.state.reason == "WaitingForTemplate")
        await world.order("SuspendFlow")
        await world.until("f-a-1", lambda flow: flow.status.state.reason == "Suspended")
        await world.apply(template("x"))
        assert not await world.jobs()
        await world.order("ResumeJob", name="resume")
        done = await world.ended("f")
    assert done.status.state.phase == "Succeed"


async def test_a_child_flow_that_is_cancelled_by_hand_fails_its_step() -> None:
    async with cluster() as world, world.ends({"f-a-0-x": "Running"}), world.controller():
        await apply(world)
        await world.until_jobs(f_a_0_x="Running")
        await world.order("TerminateJob", flow="f-a-0")
        await world.until("f-a-0", lambda flow: flow.status.state.reason == "Cancelled")
        await set_phase(world.client, "f-a-0-x", "Aborted")
        done = await world.ended("f")
    (run, _) = (done.status.conditions or {})["f-a"].runs or ()
    assert (run.phase, run.reason) == ("Failed", "Cancelled")


def pipelines(samples: int, **mended: Any) -> list[dict[str, Any]]:
    """A pipeline of two steps for each sample, and a step that collects their results."""
    last = {"name": "q", "dependsOn": {"targets": ["p"]}, **mended}
    return [
        {
            "name": "samples",
            "flow": {"flows": [{"name": "p"}, last]},
            "forEach": {"count": samples},
        },
        {"name": "all", "dependsOn": {"targets": ["samples"]}},
    ]


async def test_a_mended_step_of_many_child_flows_runs_alone() -> None:
    """A third flow, in which nothing has changed, runs nothing, and neither does its last step."""
    async with cluster() as world, world.ends(), world.controller():
        await world.apply(*(template(name) for name in ("p", "q", "all")))
        await world.apply(flow("e", {}, flows=pipelines(50)))
        await world.ended("e")
        assert world.count("POST", JOBS) == 101
        mended = pipelines(50, env={"SEED": "2"})
        await world.apply(flow("f", {}, flows=mended, reuse={"flow": "e"}))
        await world.ended("f")
        made = [name for name in await world.jobs() if name.startswith("f-")]
        assert sorted(made) == sorted(["f-all", *(f"f-samples-{i}-q" for i in range(50))])
        await world.apply(flow("g", {}, flows=mended, reuse={"flow": "f"}))
        last = await world.ended("g")
        assert world.count("POST", JOBS) == 152
        assert (last.status.conditions or {})["g-all"].reason == "Reused"


async def test_a_child_flow_whose_counterpart_is_gone_runs_whole() -> None:
    async with cluster() as world, world.ends(), world.controller():
        await world.apply(*(template(name) for name in ("p", "q", "all")))
        await world.apply(flow("e", {}, flows=pipelines(2)))
        await world.ended("e")
        await world.client.delete(JOBFLOWS, NAMESPACE, "e-samples-0")
        await world.seen(JOBFLOWS, JobFlow, lambda flows: "e-samples-0" not in flows)
        await world.apply(flow("f", {}, flows=pipelines(2), reuse={"flow": "e"}))
        await world.ended("f")
        made = {name for name in await world.jobs() if name.startswith("f-")}
        assert made == {"f-samples-0-p", "f-samples-0-q", "f-all"}
