"""`--wait`: what it prints, when it ends and with which exit code."""

import asyncio
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBTEMPLATES
from jobflow.api.volcano.command import Command
from jobflow.cli.steer import send_command
from jobflow.client.errors import CommandError
from jobflow.client.verbs.command import CANCEL, RETRY, SUSPEND, SUSPEND_AND_ABORT, Verb
from support.sandbox.flow_commands import (
    BUSY,
    IDLE,
    JOBFLOW,
    Status,
    forbid,
    long_flow,
    run_command,
    run_process,
    send_and_wait_for_f,
    set_status,
    volcano_on,
)
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, merge, set_phase, template

EXIT_CODE = "sandbox.jobflow.volcano.sh/exit-code"
RUNNING: Status = {"state": {"phase": "Running", "reason": "", "message": ""}}
SUCCEED: Status = {"state": {"phase": "Succeed", "reason": "", "message": ""}, "progress": "2/2"}
FAILED: Status = {"state": {"phase": "Failed", "reason": "StepFailed"}, "progress": "2/2"}
FIRST, SECOND = (
    {"completionTime": "2026-01-01T12:00:00Z"},
    {"completionTime": "2026-01-01T13:00:00Z"},
)


async def start_command(
    world: Cluster, kubeconfig: Path, verb: Verb, status: Status
) -> asyncio.Task[int]:
    """Apply the flow f with this status, start a command and wait until it has sent its Command."""
    await world.apply(flow("f", {"a": "", "b": "a"}))
    await set_status(world, status)
    task = asyncio.create_task(send_and_wait_for_f(verb, kubeconfig))
    await world.seen(COMMANDS, Command, bool)
    return task


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of progress; the controller logs to the same stream."""
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith("JobFlow f: ")][-1]


@pytest.mark.parametrize(
    ("verb", "before", "updates", "code", "line"),
    [
        (SUSPEND, {}, [BUSY, IDLE], 0, "Running (Suspended): nothing starts"),
        (SUSPEND, {}, [BUSY, SUCCEED], 0, "Succeed, 2/2 steps finished"),
        (SUSPEND, {}, [BUSY, {**RUNNING, "suspendedAt": None}], 1, "Running"),
        (
            RETRY,
            FAILED | FIRST,
            [RUNNING | {"completionTime": None}, SUCCEED | SECOND],
            0,
            "Succeed, 2/2 steps finished",
        ),
        (
            RETRY,
            FAILED | FIRST,
            [RUNNING | {"completionTime": None}, FAILED | SECOND],
            1,
            "Failed, 2/2 steps finished (StepFailed)",
        ),
        # a watch may skip the versions in between
        (RETRY, FAILED | FIRST, [SUCCEED | SECOND], 0, "Succeed, 2/2 steps finished"),
    ],
)
async def test_the_wait_ends_once_the_flow_has_reached_the_goal(
    world: Cluster,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    verb: Verb,
    before: Status,
    updates: list[Status],
    code: int,
    line: str,
) -> None:
    waiting = await start_command(world, kubeconfig, verb, before)
    for status in updates:
        await set_status(world, status)
    assert await waiting == code
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].startswith(f"JobFlow f: {verb.name} requested (Command f-")
    assert captured.out.splitlines()[-1] == f"JobFlow f: {line}"
    resumed = "jobflow: error: JobFlow f was resumed in the meantime\n"
    assert captured.err == (resumed if (verb, code) == (SUSPEND, 1) else "")


@pytest.mark.parametrize("verb", [CANCEL, SUSPEND])
async def test_an_earlier_finish_is_an_error(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str], verb: Verb
) -> None:
    waiting = await start_command(world, kubeconfig, verb, {})
    await set_status(world, {"state": {"phase": "Succeed"}})
    assert await waiting == 1
    assert capsys.readouterr().err == "jobflow: error: JobFlow f finished first: Succeed\n"


async def test_a_deleted_flow_is_an_error(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = await start_command(world, kubeconfig, CANCEL, {})
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    assert await waiting == 1
    assert capsys.readouterr().err == "jobflow: error: JobFlow f was deleted in the meantime\n"


@pytest.mark.long
async def test_a_missing_right_to_watch_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    forbid(world, "GET", "/jobflows")
    with pytest.raises(CommandError, match="needs the rights to list and watch JobFlows"):
        await send_and_wait_for_f(CANCEL, kubeconfig)


async def test_a_missing_controller_gets_a_warning(
    world: Cluster,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(send_command, "PATIENCE_SECONDS", 0.0)
    waiting = await start_command(world, kubeconfig, CANCEL, {})
    async with asyncio.timeout(10):
        while "is `jobflow serve` running?" not in capsys.readouterr().err:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with world.controller():
        assert await waiting == 0


@pytest.mark.long
async def test_several_flows_are_waited_for(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}), flow("g", {"a": ""}))
    for name in "fg":
        await set_status(world, FAILED | FIRST, name)
    waiting = asyncio.create_task(run_process(kubeconfig, "retry", "f", "g", "--wait"))
    await world.seen(COMMANDS, Command, lambda commands: len(commands) == 2)
    await set_status(world, SUCCEED | SECOND, "g")
    await set_status(world, FAILED | SECOND, "f")
    result = await waiting
    assert (result.code, result.err) == (1, "")
    assert sorted(result.out.splitlines()[2:]) == [
        "JobFlow f: Failed, 2/2 steps finished (StepFailed)",
        "JobFlow g: Succeed, 2/2 steps finished",
    ]


@pytest.mark.long
async def test_ctrl_c_ends_the_wait(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    process = await asyncio.create_subprocess_exec(
        *(JOBFLOW, "cancel", "f", "--wait", "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):  # only the command requests one flow by its name
        while not any("fieldSelector" in request.query for request in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


# ------------------------------------------------------------- with a controller and Volcano


@pytest.fixture
async def running_flow(world: Cluster) -> AsyncIterator[None]:
    """Run the flow f, whose step a runs for an hour."""
    async with volcano_on(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        yield


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("running_flow")
@pytest.mark.parametrize("output", ["text", "json"])
async def test_a_running_flow_is_cancelled(kubeconfig: Path, output: str) -> None:
    result = await run_process(kubeconfig, "cancel", "f", "--wait", "-o", output)
    assert (result.code, result.err) == (0, "")
    if output == "json":
        assert result.json.pop("command").startswith("f-terminatejob-")
        assert result.json | {"command": ""} == {
            "namespace": NAMESPACE,
            "name": "f",
            "command": "",
            "phase": "Failed",
            "reason": "Cancelled",
            "message": "the flow was cancelled",
            "progress": "2/2",
        }
        return
    first, *_, last = result.out.splitlines()
    assert first.startswith("JobFlow f: cancel requested (Command f-terminatejob-")
    assert last == "JobFlow f: Failed, 2/2 steps finished (Cancelled): the flow was cancelled"


@pytest.mark.long
async def test_finally_steps_are_cancelled_too(world: Cluster, kubeconfig: Path) -> None:
    async with volcano_on(world), world.controller():
        await long_flow(world, **{"finally": [{"name": "z", "template": "a"}]})
        await world.until_jobs(f_a="Running")
        assert (await run_command(kubeconfig, "cancel", "f")).code == 0
        await world.until_jobs(f_z="Running")
        result = await run_process(kubeconfig, "cancel", "f", "--now", "--wait")
        assert (result.code, result.err) == (0, "")
        done = await world.flow("f")
    assert (done.status.state.phase, done.status.state.reason) == ("Failed", "Cancelled")
    assert {each.phase for each in (done.status.conditions or {}).values()} == {
        "Failed",
        "Skipped",
    }


@pytest.mark.usefixtures("running_flow")
async def test_jobs_aborted_by_a_suspension_start_again_on_resume(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await send_and_wait_for_f(SUSPEND_AND_ABORT, kubeconfig) == 0
    assert last_line(capsys).startswith("JobFlow f: Running, 0/2 steps finished (Suspended)")
    assert await world.jobs() == {"f-a": "Aborted"}
    assert (await run_command(kubeconfig, "resume", "f")).code == 0
    await world.until_jobs(f_a_r1="Running")


async def test_a_suspended_flow_starts_nothing_while_its_jobs_finish(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world.controller():
        await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
        await world.until_jobs(f_a="")
        await set_phase(world.client, "f-a", "Running")
        waiting = asyncio.create_task(send_and_wait_for_f(SUSPEND, kubeconfig))
        await world.until("f", lambda flow: flow.status.suspended_at is not None)
        await set_phase(world.client, "f-a", "Completed")
        assert await waiting == 0
        assert last_line(capsys).startswith("JobFlow f: Running, 1/2 steps finished (Suspended)")
        assert await world.jobs() == {"f-a": "Completed"}
        assert (await run_command(kubeconfig, "resume", "f")).code == 0
        await world.until_jobs(f_b="")


async def test_a_suspended_flow_is_idle_once_no_job_of_its_child_flows_runs(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outer = flow("f", {"a": ""})
    (step,) = outer["spec"]["flows"]
    step["flow"] = {"flows": [{"name": "x", "template": "t"}], "finally": [{"name": "z"}]}
    async with world.controller():
        await world.apply(template("t"), template("z"), outer)
        await world.until_jobs(f_a_x="")
        await set_phase(world.client, "f-a-x", "Running")
        waiting = asyncio.create_task(send_and_wait_for_f(SUSPEND, kubeconfig))
        await world.until("f-a", lambda child: child.status.suspended_at is not None)
        assert not waiting.done()
        await set_phase(world.client, "f-a-x", "Completed")
        assert await waiting == 0
        assert await world.jobs() == {"f-a-x": "Completed"}
        assert (await run_command(kubeconfig, "resume", "f")).code == 0
        await world.until_jobs(f_a_z="")


NOON = "2026-01-01T12:00:00Z"


def suspended(name: str, owner: str) -> JobFlow:
    owners = [{"kind": "JobFlow", "name": owner, "uid": owner, "controller": True}]
    raw = {
        "metadata": {"name": name, "uid": name, "ownerReferences": owners if owner else []},
        "spec": {"flows": [{"name": "x", "flow": {"flows": [{"name": "x"}]}}]},
        "status": {"suspendedAt": NOON, "conditions": {f"{name}-x": {"phase": "Running"}}},
    }
    return msgspec.convert(raw, JobFlow)


class Children(dict[str, JobFlow]):
    """Child flows that count how often all are looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


@pytest.mark.parametrize(("phase", "is_reached"), [("Waiting", True), ("Running", False)])
def test_a_wait_looks_at_child_flows_once(phase: str, is_reached: bool) -> None:
    """Each flow has one child flow, and that of the last one has a job in this phase."""
    chain = [suspended(name, owner) for name, owner in pairwise(["c", "b", "a", "f", ""])]
    raw = {"status": {"suspendedAt": NOON, "conditions": {"c-job": {"phase": phase}}}}
    chain[0] = msgspec.structs.replace(chain[0], status=msgspec.convert(raw, JobFlow).status)
    children = Children({each.metadata.name: each for each in chain[:-1]})
    assert SUSPEND.reached(chain[-1], children) is is_reached
    assert children.looks == 1


async def test_a_retry_uses_the_current_template(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = template("b")
    broken["metadata"]["annotations"] = {EXIT_CODE: "3"}
    async with volcano_on(world), world.controller():
        await world.apply(template("a"), broken, flow("f", {"a": "", "b": "a"}))
        assert (await world.ended("f")).status.state.phase == "Failed"
        assert await send_and_wait_for_f(RETRY, kubeconfig) == 1
        assert last_line(capsys).startswith("JobFlow f: Failed, 2/2 steps finished")
        patch = {"metadata": {"annotations": {EXIT_CODE: None}}}
        await merge(world.client, JOBTEMPLATES, "b", patch)
        assert await send_and_wait_for_f(RETRY, kubeconfig) == 0
        assert last_line(capsys) == "JobFlow f: Succeed, 2/2 steps finished"
        assert sorted(await world.jobs()) == ["f-a", "f-b", "f-b-r1", "f-b-r2"]
