"""`jobflow delete` on the sandbox's API server."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import (
    JOBFLOW,
    forbid,
    long_flow,
    run_command,
    run_process,
    set_status,
    volcano_on,
)
from support.sandbox.manifests import template
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, merge

DONE = {"state": {"phase": "Succeed"}}
RUNNING = {"state": {"phase": "Running"}, "progress": "1/2"}
REFUSED = (
    "jobflow: error: JobFlow {0} has not ended; `jobflow delete --cancel {0}` cancels it first: "
    "Running, 1/2 steps finished\n"
)


async def apply(world: Cluster, status: dict[str, Any], *names: str, **metadata: Any) -> None:
    """Apply flows with this status."""
    for name in names:
        manifest = flow(name, {"a": ""})
        manifest["metadata"] |= metadata
        await world.apply(manifest)
        await set_status(world, status, name)


def deleted(*names: str) -> str:
    return "".join(f'jobflow.flow.volcano.sh "{name}" deleted\n' for name in names)


async def test_flows_that_have_ended_are_deleted(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f", "g", "h")
    result = await run_command(kubeconfig, "delete", "f", "jf/g", "f")
    assert result == Result(0, deleted("f", "g"), "")
    assert await world.flow_names() == ["h"]


async def test_claims_that_have_moved_are_named(world: Cluster, kubeconfig: Path) -> None:
    reuse = {"flow": "first", "uid": "1"}
    claims = {"data": "first-data", "logs": "first-logs"}
    await apply(world, {**DONE, "reuse": reuse, "reusedClaims": claims}, "f")
    result = await run_command(kubeconfig, "delete", "f")
    note = (
        "The volume claims first-data and first-logs, which have moved to f from the flow first, "
        "are deleted with it."
    )
    assert result == Result(0, deleted("f"), f"jobflow: info: {note}\n")


async def test_a_running_flow_is_refused_and_stops_no_other(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, RUNNING, "f", "g")
    await apply(world, DONE, "h")
    result = await run_command(kubeconfig, "delete", "f", "h", "g")
    assert result == Result(1, deleted("h"), REFUSED.format("f") + REFUSED.format("g"))
    assert await world.flow_names() == ["f", "g"]


async def test_a_missing_flow_stops_no_other(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f")
    missing = 'jobflow: error: JobFlow "x" does not exist in namespace "default"\n'
    assert await run_command(kubeconfig, "delete", "x", "f") == Result(2, deleted("f"), missing)


async def test_labels_select_flows(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f", "g", labels={"team": "vision"})
    await apply(world, DONE, "h")
    result = await run_command(kubeconfig, "delete", "-l", "team=vision")
    assert result == Result(0, deleted("f", "g"), "")
    none = 'jobflow: error: no JobFlow in namespace "default" matches -l team=vision\n'
    assert await run_command(kubeconfig, "delete", "-l", "team=vision") == Result(2, "", none)
    assert await world.flow_names() == ["h"]


async def test_the_deleted_flows_are_printed_as_objects(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f", "g", "h", labels={"team": "vision"})
    await apply(world, RUNNING, "i")
    result = await run_command(kubeconfig, "delete", "f", "i", "-o", "name")
    assert result == Result(1, "jobflow.flow.volcano.sh/f\n", REFUSED.format("i"))
    before = (await run_command(kubeconfig, "get", "g", "-o", "json")).json
    result = await run_command(kubeconfig, "delete", "g", "-o", "json")
    assert (result.code, result.json) == (0, before)
    result = await run_command(kubeconfig, "delete", "-l", "team=vision", "-o", "json")
    assert [item["metadata"]["name"] for item in result.json["items"]] == ["h"]
    result = await run_command(kubeconfig, "delete", "i", "-o", "json")
    assert result == Result(1, "", REFUSED.format("i"))


def waits_for(what: str) -> str:
    return f"jobflow: info: JobFlow f is deleted once it has ended: waiting for {what}\n"


@pytest.mark.long
async def test_a_cancel_waits_for_finally_too(world: Cluster, kubeconfig: Path) -> None:
    async with volcano_on(world), world.controller():
        await world.apply(template("quick"))
        await long_flow(world, **{"finally": [{"name": "tidy", "template": "quick"}]})
        await world.until_jobs(f_a="Running")
        result = await run_process(kubeconfig, "delete", "f", "--cancel")
    assert (result.code, result.err) == (0, waits_for("a to end and for finally (tidy) to run"))


@pytest.mark.long
async def test_names_are_the_only_output_of_a_cancel(world: Cluster, kubeconfig: Path) -> None:
    async with volcano_on(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        result = await run_process(kubeconfig, "delete", "f", "--cancel", "-o", "name")
    assert result == Result(0, "jobflow.flow.volcano.sh/f\n", waits_for("a to end"))


@pytest.mark.parametrize("arguments", [(), ("-l", ""), ("-A",)])
async def test_nothing_is_deleted_by_accident(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...]
) -> None:
    await apply(world, DONE, "f")
    result = await run_command(kubeconfig, "delete", *arguments)
    sentence = "no flow is named: give a FLOW, or select flows with -l"
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")
    assert await world.flow_names() == ["f"]


async def test_names_exclude_labels(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f")
    result = await run_command(kubeconfig, "delete", "f", "-l", "a=b")
    assert result.code == 2
    assert await world.flow_names() == ["f"]


async def test_a_forced_deletion_needs_no_end(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, RUNNING, "f", annotations={"flow.volcano.sh/force-delete": "true"})
    assert await run_command(kubeconfig, "delete", "f") == Result(0, deleted("f"), "")


@pytest.mark.long
async def test_a_missing_right_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f", "g")
    forbid(world, "DELETE", "/jobflows/f")
    result = await run_command(kubeconfig, "delete", "f", "g")
    sentence = "JobFlow f was not deleted: alice must not"
    assert result == Result(1, deleted("g"), f"jobflow: error: {sentence}\n")


async def test_another_flow_of_the_same_name_is_not_deleted(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, DONE, "f")
    world.fails("DELETE", "/jobflows/f", failure(409, "Conflict", "the UID differs"))
    result = await run_command(kubeconfig, "delete", "f")
    sentence = "JobFlow f was replaced by another of the same name: it was not deleted"
    assert result == Result(1, "", f"jobflow: error: {sentence}\n")


@pytest.mark.long
async def test_a_running_flow_is_cancelled_first(world: Cluster, kubeconfig: Path) -> None:
    async with volcano_on(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        result = await run_process(kubeconfig, "delete", "f", "--cancel", "--wait")
    assert (result.code, result.err) == (0, waits_for("a to end"))
    first, *_, end, last = result.out.splitlines(keepends=True)
    assert first.startswith("JobFlow f: cancel requested (Command f-terminatejob-")
    assert end.startswith("JobFlow f: Failed, 2/2 steps finished (Cancelled)")
    assert last == deleted("f")
    assert await world.flow_names() == []


@pytest.mark.long
async def test_a_flow_that_is_being_cancelled_gets_no_second_command(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, {"state": {"phase": "Running", "reason": "Cancelled"}}, "f")
    running = asyncio.create_task(run_process(kubeconfig, "delete", "f", "--cancel"))
    async with asyncio.timeout(20):
        while not any("fieldSelector" in request.query for request in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await set_status(world, {"state": {"phase": "Failed"}})
    result = await running
    assert (result.code, result.out.splitlines()[-1]) == (0, deleted("f").strip())
    assert await world.raw(COMMANDS) == []


@pytest.mark.long
async def test_an_interrupted_cancel_deletes_nothing(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, RUNNING, "f")
    process = await asyncio.create_subprocess_exec(
        *(JOBFLOW, "delete", "f", "--cancel", "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):
        while not any("fieldSelector" in request.query for request in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    note = "jobflow: info: nothing was deleted; the flows are being cancelled\n"
    waits = waits_for("the controller to end it")
    assert (process.returncode, err.decode()) == (130, waits + note)
    assert await world.flow_names() == ["f"]


@pytest.mark.long
async def test_wait_ends_once_the_flow_is_gone(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, DONE, "f", finalizers=["example.com/hold"])
    running = asyncio.create_task(run_process(kubeconfig, "delete", "f", "--wait"))
    await world.until("f", lambda flow: flow.metadata.deletion_timestamp is not None)
    await merge(world.client, JOBFLOWS, "f", {"metadata": {"finalizers": None}})
    assert await running == Result(0, deleted("f"), "")
    assert await world.flow_names() == []
    assert world.count("DELETE", JOBFLOWS) == 1, NAMESPACE
