"""`jobflow get --watch` on the sandbox's API server, in a pipe and on a terminal."""

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.api.resources import JOBFLOWS
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import (
    FAILED,
    JOBFLOW,
    RUNNING,
    SUCCEED,
    apply_flow,
    set_status,
)
from support.sandbox.running_controller import NAMESPACE, Cluster
from support.sandbox.terminals import terminal, until_shown


@dataclass
class Watching:
    """A running `jobflow get -w`, and what it has printed."""

    process: asyncio.subprocess.Process
    out: str = ""

    async def until(self, text: str, *, count: int = 1) -> None:
        """Wait until the text was printed so many times."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            while self.out.count(text) < count:
                chunk = await self.process.stdout.read(1000)
                assert chunk, f"it ended after {self.out}"
                self.out += chunk.decode()

    async def ended(self) -> Result:
        """Wait for the end."""
        async with asyncio.timeout(30):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return Result(self.process.returncode, self.out + out.decode(), err.decode())


async def watch(kubeconfig: Path, *arguments: str) -> Watching:
    command = (JOBFLOW, "get", "-w", *arguments, "--kubeconfig", str(kubeconfig))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    return Watching(process)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("status", "code"), [(SUCCEED, 0), (FAILED, 1)])
async def test_one_flow_is_watched_until_it_ends(
    world: Cluster, kubeconfig: Path, status: dict[str, Any], code: int
) -> None:
    await apply_flow(world, "f", RUNNING)
    watching = await watch(kubeconfig, "f")
    await watching.until("f  Running")
    await set_status(world, status)
    result = await watching.ended()
    assert (result.code, result.err) == (code, "")
    assert f"f  {status['state']['phase']}" in result.out.splitlines()[-1]


@pytest.mark.long
async def test_several_flows_are_watched_until_all_have_ended(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_flow(world, "f", RUNNING)
    await apply_flow(world, "g", RUNNING)
    watching = await watch(kubeconfig, "f", "g")
    await watching.until("Running", count=2)
    await set_status(world, SUCCEED, "f")
    await watching.until("Succeed")
    await set_status(world, FAILED, "g")
    result = await watching.ended()
    assert result.code == 1
    assert [line.split()[:2] for line in result.out.splitlines()] == [
        ["NAME", "PHASE"],
        ["f", "Running"],
        ["g", "Running"],
        ["f", "Succeed"],
        ["g", "Failed"],
    ]


@pytest.mark.long
async def test_a_flow_that_is_deleted_while_it_is_watched_is_an_error(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_flow(world, "f", RUNNING)
    watching = await watch(kubeconfig, "f")
    await watching.until("f  Running")
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    result = await watching.ended()
    assert result.code == 1
    assert result.err == "jobflow: error: JobFlow f was deleted before it had finished\n"


@pytest.mark.long
async def test_all_flows_are_watched_until_ctrl_c(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f", SUCCEED)
    watching = await watch(kubeconfig)
    await watching.until("Succeed")
    await apply_flow(world, "new")
    await watching.until("Pending")
    await set_status(world, RUNNING, "new")
    await watching.until("Running")
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    await watching.until("Deleted")
    watching.process.send_signal(signal.SIGINT)
    result = await watching.ended()
    assert (result.code, result.err) == (130, "")
    assert [line.split()[:2] for line in result.out.splitlines()] == [
        ["NAME", "PHASE"],
        ["f", "Succeed"],
        ["new", "Pending"],
        ["new", "Running"],
        ["f", "Deleted"],
    ]


@pytest.mark.long
async def test_a_watch_shows_only_the_phase_that_was_asked_for(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_flow(world, "f", RUNNING)
    watching = await watch(kubeconfig, "--phase", "Failed", "-o", "wide")
    await watching.until("MESSAGE")
    await set_status(world, {**RUNNING, "progress": "0/2"}, "f")
    await set_status(world, FAILED)
    await watching.until("step a failed")
    assert "Running" not in watching.out
    watching.process.send_signal(signal.SIGINT)
    assert (await watching.ended()).code == 130


@pytest.mark.long
async def test_objects_are_printed_again_after_each_change(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_flow(world, "f", RUNNING)
    watching = await watch(kubeconfig, "f", "-o", "yaml")
    await watching.until("phase: Running")
    await set_status(world, SUCCEED)
    result = await watching.ended()
    assert result.code == 0
    phases = [each["status"]["state"]["phase"] for each in yaml.safe_load_all(result.out)]
    assert phases == ["Running", "Succeed"]


@pytest.mark.long
async def test_a_terminal_gets_one_live_tree(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f", RUNNING)
    async with terminal(kubeconfig, "get", "f", "-w") as (process, read):
        shown = await until_shown(read, "Running")
        assert "\x1b[?25l" in shown  # the cursor is hidden while the tree is drawn
        await set_status(world, SUCCEED)
        await until_shown(read, "Succeed")
        assert await process.wait() == 0


@pytest.mark.long
async def test_a_terminal_gets_one_live_table(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f", RUNNING)
    async with terminal(kubeconfig, "get", "-w") as (process, read):
        await until_shown(read, "Running")
        await set_status(world, SUCCEED)
        await until_shown(read, "Succeed")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
