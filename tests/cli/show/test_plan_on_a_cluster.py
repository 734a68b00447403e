"""`jobflow plan` of flows on a cluster, with its queues, durations and outputs."""

import json
from pathlib import Path

import yaml

from jobflow.api.resources import QUEUES
from support.sandbox.flow_commands import forbid, run_command, set_status, volcano_on
from support.sandbox.flows_to_plan import asking, without_outputs
from support.sandbox.running_controller import DIAMOND, Cluster, flow


async def test_a_flow_of_the_cluster_is_planned_in_its_queue(
    world: Cluster, kubeconfig: Path
) -> None:
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "small"}}
    queue["spec"] = {"capability": {"cpu": "2"}}
    await world.client.create(QUEUES, "", json.dumps(queue).encode())
    templates = [asking(name, "10s", cpu=1) for name in DIAMOND]
    for each in templates:
        each["spec"]["queue"] = "small"
    await world.apply(*templates, flow("f", dict.fromkeys(DIAMOND, "")))
    answer = await run_command(kubeconfig, "plan", "f", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json["makespanSeconds"] == 30
    wide = await run_command(kubeconfig, "plan", "jf/f", "--capacity", "cpu=5", "-o", "json")
    assert wide.json["makespanSeconds"] == 10


async def test_queues_that_may_not_be_read_are_unlimited(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(asking("a", "10s"), flow("f", {"a": ""}))
    forbid(world, "GET", "/queues")
    answer = await run_command(kubeconfig, "plan", "f")
    assert answer.code == 0
    assert answer.err == (
        "jobflow: warning: the queues cannot be read, so that the capacity is unlimited: set "
        "--capacity\n"
    )


async def test_durations_are_learned_from_finished_flows(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    await world.apply(asking("a", "1s"), flow("f", {"a": ""}))
    async with volcano_on(world), world.controller():
        await world.ended("f")
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump_all([asking("a", "1h"), flow("g", {"a": ""})]))
    answer = await run_command(kubeconfig, "plan", str(file), "--learn", "-o", "json")
    assert answer.code == 0
    assert answer.json["makespanSeconds"] in (1, 2)
    again = await run_command(kubeconfig, "plan", "f", "-o", "json")
    assert again.err == "jobflow: warning: JobFlow f has started: this is the plan of a new run\n"


async def test_a_flow_that_reuses_another_is_planned_with_its_results(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    await world.apply(asking("a", "1s"), asking("b", "10s"), flow("f", {"a": "", "b": "a"}))
    async with volcano_on(world), world.controller():
        await world.ended("f")
    new = flow("g", {"a": "", "b": "a", "c": "b"}, reuse={"flow": "f"})
    await world.apply(asking("c", "5s"), new)
    answer = await run_command(kubeconfig, "plan", "g")
    assert (answer.code, answer.err) == (0, "")
    assert "\nreused: a and b\nmakespan: 5s (g: Succeed)\n" in answer.out
    file = tmp_path / "new.yaml"
    templates = [asking("a", "1s"), asking("b", "10s"), asking("c", "5s")]
    file.write_text(yaml.safe_dump_all([*templates, new]))
    answer = await run_command(kubeconfig, "plan", str(file))
    assert answer.err == (
        "jobflow: warning: JobFlow g is planned as if it reused nothing: a file does not say what "
        "flow f has done\n"
    )
    assert "\nmakespan: 16s (g: Succeed)\n" in answer.out
    await world.apply(flow("h", {"a": ""}, reuse={"flow": "gone"}))
    answer = await run_command(kubeconfig, "plan", "h")
    assert answer.err == (
        "jobflow: warning: JobFlow h is planned as if it reused nothing: flow gone does not exist\n"
    )


async def test_a_flow_of_the_cluster_is_planned_with_other_params(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    steps = [{"name": "a", "template": "a", "forEach": {"from": "params.names"}}]
    params = [{"name": "names", "value": ["x"]}, {"name": "day", "value": "monday"}]
    made = flow("f", {}, flows=steps, params=params)
    await world.apply(asking("a", "10s", cpu=1), made)
    (tmp_path / "new.yaml").write_text(
        yaml.safe_dump_all([flow("g", {"a": ""}), asking("a", "1s")])
    )
    plan = ("plan", "f", "--capacity", "cpu=1", "-o", "json", "--param")
    answer = await run_command(kubeconfig, *plan, "names=[x, y, z]", "--param", "day=1")
    assert (answer.code, answer.json["makespanSeconds"]) == (0, 30)
    assert "jobflow: warning: spec.params[1].value: " in answer.err
    answer = await run_command(kubeconfig, *plan, "name=[x]")
    assert (answer.code, answer.out) == (2, "")
    assert "--param name: JobFlow f has no such param; did you mean" in answer.err
    answer = await run_command(
        kubeconfig, "plan", "f", "--param", "names=[7, 7, 8, 8]", "--param", "day=["
    )
    assert (answer.code, answer.out) == (2, "")
    await world.apply(flow("h", {"a": ""}))
    answer = await run_command(kubeconfig, "plan", "f", "h", "--param", "x=1")
    assert (
        "--param x: JobFlows f and h have no such param; their params are names and day"
        in answer.err
    )


async def test_outputs_are_learned_from_finished_flows(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    await world.apply(*without_outputs())
    ended = {"phase": "Completed", "job": "f-a", "outputs": {"shards": ["x", "y"]}}
    time = "2026-01-01T00:00:00Z"
    status = {"startTime": time, "completionTime": time, "conditions": {"f-a": ended}}
    await set_status(world, {"state": {"phase": "Failed"}, **status})
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump_all(without_outputs()))
    answer = await run_command(kubeconfig, "plan", str(file), "--learn", "-o", "json")
    assert [job["job"] for job in answer.json["jobs"]] == ["f-a", "f-b-0", "f-b-1", "f-c"]
    assert {each["phase"] for each in answer.json["steps"]} == {"Completed"}


async def test_a_flow_that_does_not_exist_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("train", {"a": ""}))
    answer = await run_command(kubeconfig, "plan", "trian")
    assert (answer.code, 'did you mean "train"?' in answer.err) == (2, True)
