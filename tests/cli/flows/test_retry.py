"""`jobflow retry` on the sandbox's API server: what it makes, what it says, when it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.command import Command
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.cli.flows.retry import RETRY
from jobflow.cli.flows.send_command import Order
from jobflow.cli.flows.send_command import asked as ask
from support.sandbox.command_line import Said
from support.sandbox.flow_commands import asked
from support.sandbox.running_controller import NAMESPACE, Cluster, flow

FAILED = {
    "state": {"phase": "Failed", "reason": "StepFailed", "message": "a failed"},
    "progress": "2/2",
    "completionTime": "2026-01-01T12:00:00Z",
}
AGAIN = {"state": {"phase": "Running", "reason": "", "message": ""}, "completionTime": None}
RUNNING = {"state": {"phase": "Running"}, "progress": "1/2"}


async def stands(world: Cluster, status: dict[str, Any]) -> None:
    """The flow f has this status."""
    body = json.dumps({"status": status}).encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", body, subresource="status")


@pytest.fixture
async def failed(world: Cluster) -> Cluster:
    await world.apply(flow("f", {"a": "", "b": "a"}))
    await stands(world, FAILED)
    return world


async def test_it_makes_the_command(failed: Cluster, kubeconfig: Path) -> None:
    said = await asked(kubeconfig, "retry", "f")
    [made] = await failed.raw(COMMANDS)
    assert made["action"] == "RestartJob"
    name = made["metadata"]["name"]
    assert said == Said(0, f"JobFlow f: asked to retry (Command {name})\n", "")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            {"state": {"phase": "Succeed"}},
            "has succeeded, so there is nothing to retry; to run it once more, delete it and apply "
            "it again",
        ),
        (
            RUNNING,
            "has not Failed, it is Running, 1/2 steps over. Only a flow that has Failed is "
            "retried; `jobflow why f` says what it waits for, and `jobflow cancel f` ends it",
        ),
        (
            {"state": {"phase": "Failed", "reason": "Invalid"}},
            "was refused as invalid, and would be again: delete it, correct it and apply it anew",
        ),
        (
            {**RUNNING, "suspendedAt": "2026-01-01T12:00:00Z"},
            "is not over but suspended: `jobflow resume f` lets it go on",
        ),
    ],
)
async def test_only_a_flow_that_has_failed_is_retried(
    world: Cluster, kubeconfig: Path, status: dict[str, Any], sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await stands(world, status)
    said = await asked(kubeconfig, "retry", "f")
    assert (said.code, said.out, said.err) == (1, "", f"jobflow retry: JobFlow f {sentence}\n")
    assert await world.raw(COMMANDS) == []


async def waited(world: Cluster, kubeconfig: Path, *statuses: dict[str, Any]) -> int:
    """The exit code of `jobflow retry f --wait`, where the flow comes to these statuses."""
    task = asyncio.create_task(ask(RETRY, Order("f", None, str(kubeconfig), True, False)))
    await world.seen(COMMANDS, Command, bool)
    for status in statuses:
        await stands(world, status)
    return await task


ENDED = {"completionTime": "2026-01-01T12:30:00Z", "progress": "2/2"}


async def test_waiting_tells_how_it_goes_from_there(
    failed: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await waited(failed, kubeconfig, AGAIN, {"state": {"phase": "Succeed"}, **ENDED})
    asked_for, *_, last = capsys.readouterr().out.splitlines()
    assert code == 0
    assert asked_for.startswith("JobFlow f: asked to retry (Command f-restartjob-")
    assert last == "JobFlow f: Succeed, 2/2 steps over"


async def test_a_flow_that_fails_again_ends_with_1(failed: Cluster, kubeconfig: Path) -> None:
    assert await waited(failed, kubeconfig, AGAIN, {**FAILED, **ENDED}) == 1


async def test_an_end_that_came_in_one_breath_is_one(failed: Cluster, kubeconfig: Path) -> None:
    """Of what a watch shows, versions in between may be missing."""
    assert await waited(failed, kubeconfig, {"state": {"phase": "Succeed"}, **ENDED}) == 0
