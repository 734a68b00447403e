"""`jobflow wait` on the sandbox's API server: what it prints, when it ends, its exit codes."""

import asyncio
import io
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.show.wait import WaitLine
from jobflow.kube.cache import key_of
from support.plan.flow_statuses import DIAMOND, standing
from support.sandbox.api_server import InjectedFault
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import JOBFLOW, run_process, set_status
from support.sandbox.running_controller import NAMESPACE, Cluster, flow

RUNNING = {"state": {"phase": "Running"}, "progress": "1/2"}
FAILED = {"state": {"phase": "Failed", "reason": "StepFailed"}, "progress": "2/2"}
SUCCEED = {"state": {"phase": "Succeed"}, "progress": "2/2"}


async def apply(world: Cluster, name: str, status: dict[str, Any]) -> None:
    manifest = flow(name, {"a": "", "b": "a"})
    manifest["metadata"]["labels"] = {"team": "vision"}
    await world.apply(manifest)
    await set_status(world, status, name)


async def start(world: Cluster, kubeconfig: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start `jobflow wait` and return once it watches the flows."""
    world.server.requests.clear()
    pipe = asyncio.subprocess.PIPE
    command = (JOBFLOW, "wait", *arguments, "--kubeconfig", str(kubeconfig))
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(30):  # it lists the flows before it watches them
        while not any(each.path.endswith("/jobflows") for each in world.server.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return process


async def ended(process: asyncio.subprocess.Process) -> Result:
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), err.decode())


@pytest.mark.long
async def test_a_line_is_printed_when_each_flow_ends(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    await apply(world, "g", RUNNING)
    process = await start(world, kubeconfig, "f", "jf/g")
    await set_status(world, SUCCEED, "g")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"JobFlow g: Succeed, 2/2 steps finished\n"
    await set_status(world, SUCCEED, "f")
    assert await ended(process) == Result(0, "JobFlow f: Succeed, 2/2 steps finished\n", "")


@pytest.mark.long
async def test_a_failed_flow_does_not_end_the_wait_for_others(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, "f", FAILED)
    await apply(world, "g", SUCCEED)
    lines = [
        "JobFlow f: Failed, 2/2 steps finished (StepFailed)",
        "JobFlow g: Succeed, 2/2 steps finished",
    ]
    result = await run_process(kubeconfig, "wait", "-l", "team=vision", "--timeout", "0")
    assert (result.code, result.err, sorted(result.out.splitlines())) == (1, "", lines)


@pytest.mark.long
async def test_a_deleted_flow_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    process = await start(world, kubeconfig, "f")
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    sentence = "jobflow: error: JobFlow f was deleted before it had finished\n"
    assert await ended(process) == Result(1, "", sentence)


@pytest.mark.long
async def test_a_flow_that_is_deleted_once_it_has_finished_is_no_error(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, "f", RUNNING)
    process = await start(world, kubeconfig, "f")
    await set_status(world, SUCCEED)
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    assert (await ended(process)).code == 0


@pytest.mark.long
async def test_the_timeout_has_its_own_exit_code(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    await apply(world, "g", SUCCEED)
    result = await run_process(kubeconfig, "wait", "f", "g", "--timeout", "300ms")
    assert result.code == 124
    sentence = "f has not finished within --timeout; `jobflow why f` explains it"
    assert result.err == f"jobflow: error: {sentence}\n"


@pytest.mark.long
async def test_a_number_is_a_timeout_in_seconds(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    result = await run_process(kubeconfig, "wait", "f", "--timeout", "0.3")
    assert (result.code, result.out) == (124, "")


@pytest.mark.long
async def test_a_lost_server_is_a_warning_in_words(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    process = await start(world, kubeconfig, "f")
    is_read = InjectedFault(lambda request: "jobflows" in request.path, times=None)
    world.server.faults.append(is_read)
    world.server.storage.close_watches()
    assert process.stderr is not None
    async with asyncio.timeout(30):
        warning = (await process.stderr.readline()).decode()
    assert warning == (
        "jobflow: warning: the flows cannot be followed at present (Server disconnected); trying "
        "again\n"
    )
    world.server.faults.remove(is_read)
    await set_status(world, SUCCEED)
    assert (await ended(process)).code == 0


@pytest.mark.long
async def test_ctrl_c_ends_the_wait(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    process = await start(world, kubeconfig, "f")
    process.send_signal(signal.SIGINT)
    assert await ended(process) == Result(130, "", "")


def line_on(console: Console, *flows: JobFlow, seconds: int = 0) -> str:
    """Return the line of progress about these flows."""
    line = WaitLine({key_of(flow): flow for flow in flows}, console)
    return line.text(datetime.now(UTC) + timedelta(seconds=seconds)).plain


def test_the_line_says_how_long_and_for_what_it_waits() -> None:
    pipe = Console(file=io.StringIO())
    train, other = standing("train", "Running", a="Completed", b="Running"), DIAMOND
    running = "train is Running, 1/2 steps finished"
    assert line_on(pipe, train, seconds=75) == f"waiting 1m15s: {running}"
    assert line_on(pipe, train, other) == f"waiting 0s for 2 of 2 flows: {running}"


def test_only_a_terminal_shows_the_line() -> None:
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=40)
        with WaitLine({key_of(DIAMOND): DIAMOND}, console):
            pass
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        assert ("waiting 0s: test is Running, 2/5 steps …" in shown) is is_terminal
        assert bool(shown) is is_terminal


@pytest.mark.long
async def test_json_has_the_finished_flows(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", FAILED)
    await apply(world, "g", SUCCEED)
    result = await run_process(kubeconfig, "wait", "g", "-o", "json")
    get = await run_process(kubeconfig, "get", "g", "-o", "json")
    assert (result.code, result.err, result.json) == (0, "", get.json)
    result = await run_process(kubeconfig, "wait", "-l", "team=vision", "-o", "json")
    names = [item["metadata"]["name"] for item in result.json["items"]]
    assert (result.code, result.json["kind"], names) == (1, "List", ["f", "g"])
    result = await run_process(kubeconfig, "wait", "g", "f", "-o", "name")
    assert result.out.splitlines() == [f"jobflow.flow.volcano.sh/{name}" for name in "gf"]


@pytest.mark.long
async def test_without_an_end_json_is_empty(world: Cluster, kubeconfig: Path) -> None:
    await apply(world, "f", RUNNING)
    result = await run_process(kubeconfig, "wait", "f", "-o", "json", "--timeout", "100ms")
    assert (result.code, result.out) == (124, "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "no flow is named: give a FLOW, or select flows with -l"),
        (("f", "none"), 'JobFlow "none" does not exist in namespace "default"'),
        (("-l", "team=x"), 'no JobFlow in namespace "default" matches -l team=x'),
        (("f", "-l", "team=x"), "a FLOW excludes -l and -A: give names or a selection"),
        *(
            (
                ("f", "--timeout", limit),
                f'--timeout "{limit}" is not a duration: write it like 90s, 10m or 1h30m',
            )
            for limit in ("soon", "-5", "nan")
        ),
    ],
)
async def test_a_wrong_call_is_an_error_at_once(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    await apply(world, "f", RUNNING)
    result = await run_process(kubeconfig, "wait", *arguments)
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")
