"""`jobflow suspend` and `jobflow resume` on the sandbox's API server: what they make, what they
say, when they refuse."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.command import Command
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.cli.flows.find_flow import Stopped
from jobflow.cli.flows.send_command import Order
from jobflow.cli.flows.send_command import asked as ask
from jobflow.cli.flows.suspend import SUSPEND
from support.sandbox.command_line import Said
from support.sandbox.flow_commands import asked, long_flow
from support.sandbox.running_controller import NAMESPACE, Cluster, flow

SINCE = "2026-01-01T12:00:00Z"
RUNNING = {"state": {"phase": "Running"}, "progress": "0/1"}
SUSPENDED = {
    "state": {"phase": "Running", "reason": "Suspended", "message": "nothing starts"},
    "suspendedAt": SINCE,
}
STILL_RUNS = {**SUSPENDED, "conditions": {"f-a": {"phase": "Running"}}}
AT_REST = {**SUSPENDED, "conditions": {"f-a": {"phase": "Completed"}, "f-b": {"phase": "Waiting"}}}
OVER = {"state": {"phase": "Failed", "reason": "StepFailed"}, "progress": "1/1"}


async def stands(world: Cluster, status: dict[str, Any]) -> None:
    """The flow f has this status."""
    body = json.dumps({"status": status}).encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", body, subresource="status")


@pytest.mark.parametrize(
    ("arguments", "status", "action"),
    [
        (("suspend", "f"), RUNNING, "SuspendFlow"),
        (("suspend", "f"), {}, "SuspendFlow"),
        (("suspend", "f", "--abort"), RUNNING, "AbortJob"),
        (("suspend", "f", "--abort"), STILL_RUNS, "AbortJob"),
        (("resume", "f"), SUSPENDED, "ResumeJob"),
    ],
)
async def test_each_makes_its_command(
    world: Cluster,
    kubeconfig: Path,
    arguments: tuple[str, ...],
    status: dict[str, Any],
    action: str,
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await stands(world, status)
    said = await asked(kubeconfig, *arguments)
    [made] = await world.raw(COMMANDS)
    assert made["action"] == action
    assert (made["target"]["kind"], made["target"]["name"]) == ("JobFlow", "f")
    name = made["metadata"]["name"]
    assert said == Said(0, f"JobFlow f: asked to {arguments[0]} (Command {name})\n", "")


async def test_a_flow_that_is_created_suspended_can_be_resumed_before_anybody_took_it_up(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(flow("f", {"a": ""}, suspend=True))
    assert (await asked(kubeconfig, "resume", "f")).code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("suspend", "f"), OVER, "is over already: Failed, 1/1 steps over (StepFailed)"),
        (("suspend", "f", "--abort"), OVER, "is over already: Failed, 1/1 steps over (StepFailed)"),
        (("suspend", "f"), AT_REST, "is suspended already: `jobflow resume f` lets it go on"),
        (
            ("suspend", "f"),
            STILL_RUNS,
            "is suspended already: `jobflow resume f` lets it go on; `jobflow suspend --abort f` "
            "aborts what runs",
        ),
        (
            ("suspend", "f", "--abort"),
            AT_REST,
            "is suspended already: `jobflow resume f` lets it go on",
        ),
        (("resume", "f"), RUNNING, "is not suspended: Running, 0/1 steps over"),
        (("resume", "f"), {}, "is not suspended: Pending"),
        (("resume", "f"), {"state": {"phase": "Succeed"}}, "is over already: Succeed"),
        (
            ("resume", "f"),
            OVER,
            "is over already: Failed, 1/1 steps over (StepFailed); `jobflow retry f` takes it up "
            "anew",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused_with_what_does(
    world: Cluster,
    kubeconfig: Path,
    arguments: tuple[str, ...],
    status: dict[str, Any],
    sentence: str,
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await stands(world, status)
    said = await asked(kubeconfig, *arguments)
    assert (said.code, said.out) == (1, "")
    assert said.err == f"jobflow {arguments[0]}: JobFlow f {sentence}\n"
    assert await world.raw(COMMANDS) == []


async def test_a_flow_that_may_be_meant_is_named(world: Cluster, kubeconfig: Path) -> None:
    await long_flow(world, "nightly")
    said = await asked(kubeconfig, "resume", "nightyl")
    assert said.code == 2
    assert said.err.endswith('in the namespace "default"; did you mean "nightly"?\n')


async def test_json_names_the_command(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    answer = (await asked(kubeconfig, "suspend", "f", "-o", "json")).json
    assert answer.pop("command").startswith("f-suspendflow-")
    assert answer["name"] == "f"


# ------------------------------------------------------------------------- while it waits


@pytest.fixture
async def waiting(world: Cluster, kubeconfig: Path) -> asyncio.Task[int]:
    """`jobflow suspend f --wait` that has made its Command, while a job of f runs."""
    await world.apply(flow("f", {"a": ""}))
    task = asyncio.create_task(ask(SUSPEND, Order("f", None, str(kubeconfig), True, False)))
    await world.seen(COMMANDS, Command, bool)
    return task


async def test_waiting_ends_once_nothing_runs(
    world: Cluster, waiting: asyncio.Task[int], capsys: pytest.CaptureFixture[str]
) -> None:
    await stands(world, STILL_RUNS)
    await stands(world, AT_REST)
    assert await waiting == 0
    assert "Running (Suspended): nothing starts\n" in capsys.readouterr().out


async def test_waiting_ends_as_well_when_the_flow_does(
    world: Cluster, waiting: asyncio.Task[int]
) -> None:
    await stands(world, STILL_RUNS)
    await stands(world, {"state": {"phase": "Succeed"}})
    assert await waiting == 0


async def test_that_it_was_resumed_meanwhile_is_no_success(
    world: Cluster, waiting: asyncio.Task[int], capsys: pytest.CaptureFixture[str]
) -> None:
    await stands(world, STILL_RUNS)
    await stands(world, {**RUNNING, "suspendedAt": None})
    assert await waiting == 1
    assert capsys.readouterr().err == "jobflow suspend: JobFlow f was resumed meanwhile\n"


async def test_a_flow_that_was_quicker_is_not_suspended(
    world: Cluster, waiting: asyncio.Task[int]
) -> None:
    await stands(world, {"state": {"phase": "Succeed"}})
    with pytest.raises(Stopped, match="JobFlow f was over before that: Succeed"):
        await waiting
