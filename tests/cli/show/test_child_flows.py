"""Flows in flows on the command line: children are shown under their parent."""

from pathlib import Path
from typing import Any

import pytest

from jobflow.api import labels
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import InjectedFault
from support.sandbox.child_flows import create_child
from support.sandbox.command_line import jobflow
from support.sandbox.flow_commands import (
    RUNNING,
    SUCCEED,
    forbid,
    run_command,
    set_status,
    volcano_on,
)
from support.sandbox.manifests import template
from support.sandbox.running_controller import Cluster, flow
from support.sandbox.submitted import write_flow
from support.sandbox.terminals import read_rest, terminal, until_shown

EXAMPLE = Path("examples/flows-in-flows.yaml")


@pytest.mark.long
def test_run_lists_only_outermost_flows() -> None:
    answer = jobflow("run", "--speed", "20", "-o", "json", EXAMPLE)
    (flow,) = answer.json["items"]
    assert answer.code == 0
    assert flow["status"]["outputs"] == {"best": "berlin"}
    runs = flow["status"]["conditions"]["sites-train"]["runs"]
    assert [run["flow"] for run in runs] == ["sites-train-0", "sites-train-1", "sites-train-2"]


def test_a_plan_runs_the_jobs_of_child_flows() -> None:
    answer = jobflow("plan", "-o", "json", EXAMPLE)
    jobs = {each["job"]: (each["step"], each["start"], each["end"]) for each in answer.json["jobs"]}
    assert jobs == {
        "sites-train-0-fetch": ("train/0/fetch", 0, 1),
        "sites-train-0-fit": ("train/0/fit", 1, 2),
        "sites-train-1-fetch": ("train/1/fetch", 0, 1),
        "sites-train-1-fit": ("train/1/fit", 1, 2),
        "sites-train-2-fetch": ("train/2/fetch", 2, 3),
        "sites-train-2-fit": ("train/2/fit", 3, 4),
        "sites-report": ("report", 4, 5),
    }
    assert answer.json["makespanSeconds"] == 5
    assert answer.json["criticalPath"] == ["train", "report"]


def test_a_graph_has_the_graphs_of_child_flows() -> None:
    lines = jobflow("graph", EXAMPLE).out.splitlines()
    assert lines[0].endswith("train   flow of 2 steps, 3 items")
    assert [line.split()[1:] for line in lines[4:]] == [["fetch"], ["fit", "after", "fetch"]]


def outer() -> dict[str, Any]:
    """Return the flow f, whose step train runs a flow."""
    manifest = flow("f", {})
    inner = {"flows": [{"name": "fetch"}, {"name": "fit"}]}
    manifest["spec"]["flows"] = [{"name": "train", "flow": inner}]
    return manifest


async def test_a_graph_has_the_phases_of_child_flows(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(outer())
    child = await create_child(world, "f", "train")
    await set_status(world, {"conditions": {f"{child}-fetch": {"phase": "Completed"}}}, child)
    answer = await run_command(kubeconfig, "graph", "f", "-o", "json")
    (inner,) = answer.json["nodes"][0]["flows"]
    found = [(node["step"], node["phase"]) for node in inner["nodes"]]
    assert found == [("fetch", "Completed"), ("fit", "Waiting")]
    answer = await run_command(kubeconfig, "graph", "f")
    assert answer.out.splitlines()[2:] == [
        "  train",
        "  ✔ fetch  Completed",
        "  ○ fit    Waiting  after fetch",
    ]


async def test_the_outputs_of_a_child_flow_have_the_path_of_their_step(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(outer())
    assert (
        "has not started, so it has no flow yet"
        in (await run_command(kubeconfig, "outputs", "f", "train/fit")).err
    )
    child = await create_child(world, "f", "train")
    outputs = {"phase": "Completed", "outputs": {"n": 7}}
    await set_status(world, {"conditions": {f"{child}-fit": outputs}}, child)
    answer = await run_command(kubeconfig, "outputs", "f", "train/fit", "-o", "json")
    assert (answer.json["flow"], answer.json["steps"]) == (child, {"fit": outputs})


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("train", ["└─ ● train Running", "└─ ✔ fetch Completed", "└─ ○ fit Waiting"]),
        ("train/fetch", ["└─ ✔ fetch Completed"]),
    ],
)
async def test_a_part_of_a_tree_has_the_steps_of_a_child_flow(
    world: Cluster, kubeconfig: Path, step: str, lines: list[str]
) -> None:
    await world.apply(outer())
    child = await create_child(world, "f", "train")
    await set_status(world, {"conditions": {f"{child}-fetch": {"phase": "Completed"}}}, child)
    answer = await run_command(kubeconfig, "get", "f", "--step", step)
    assert [" ".join(line.split()) for line in answer.out.splitlines()] == lines


@pytest.mark.long
async def test_a_live_tree_has_the_steps_of_a_child_flow_that_starts_later(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(outer())
    await set_status(world, RUNNING)
    async with terminal(kubeconfig, "get", "f", "-w") as (process, read):
        await until_shown(read, "train")
        child = await create_child(world, "f", "train")
        await until_shown(read, "fetch")
        conditions = {f"{child}-fit": {"phase": "Failed", "message": "no luck"}}
        await set_status(world, {"conditions": conditions}, child)
        await until_shown(read, "no luck")
        await set_status(world, SUCCEED)
        await until_shown(read, "Succeed")
        assert await process.wait() == 0


@pytest.mark.long
async def test_without_the_right_to_list_flows_a_live_tree_has_only_the_flow(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(outer())
    await set_status(world, RUNNING)
    await create_child(world, "f", "train")
    world.server.faults.append(
        InjectedFault(
            lambda request: labels.ROOT in request.query.get("labelSelector", ""),
            failure(403, "Forbidden", "alice must not"),
            times=None,
        )
    )
    async with terminal(kubeconfig, "get", "f", "-w") as (process, read):
        shown = await until_shown(read, "train")
        await set_status(world, SUCCEED)
        shown += await until_shown(read, "Succeed")
        await process.wait()
    assert "fetch" not in shown


@pytest.mark.long
async def test_submit_watch_shows_child_flows_at_the_end_too(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    file = write_flow(tmp_path, template("fetch"), template("fit"), outer())
    async with volcano_on(world), world.controller():
        async with terminal(kubeconfig, "submit", file, "--watch") as (process, read):
            shown = await read_rest(read)
            assert await process.wait() == 0
    live, _, end = shown.rpartition("\x1b[2K")
    assert [" fit " in part for part in (live, end)] == [True, True]


async def test_a_timeline_estimates_the_time_left_by_child_flows(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(outer())
    await set_status(world, RUNNING)
    child = await create_child(world, "f", "train")
    asks = {"phase": "Waiting", "reason": "WaitingForApproval", "message": "waits for an answer"}
    status = {"startTime": RUNNING["startTime"], "conditions": {f"{child}-fit": asks}}
    await set_status(world, status, child)
    answer = await run_command(kubeconfig, "timeline", "f", "-o", "json")
    assert answer.json["timeLeftUnknown"] == f"JobFlow {child}: step fit waits for an answer"


async def test_what_a_user_has_cancelled_runs_again_by_a_command_to_the_outermost_flow(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(outer())
    await set_status(world, RUNNING)
    child = await create_child(world, "f", "train", nested="site")
    inner = await create_child(world, child, "site", index=3)
    given_up = {"phase": "Failed", "reason": "CancelledByUser", "message": "cancelled by ann"}
    await set_status(world, {"conditions": {f"{inner}-fit": given_up}}, inner)
    again = "`jobflow retry f --step train/site/3/fit` runs it again."
    for names in ((inner, "fit"), (child,)):
        assert again in (await run_command(kubeconfig, "why", *names)).out
    # who may not read a flow above does not see the path
    forbid(world, "GET", f"/{child}")
    unknown = "`jobflow retry f --step PATH/fit` runs it again."
    assert unknown in (await run_command(kubeconfig, "why", inner, "fit")).out
