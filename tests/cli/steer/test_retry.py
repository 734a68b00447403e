"""`jobflow retry`: what would run again, and the question before long work is repeated."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS
from jobflow.cli.flags import ClusterOptions, RetryOptions
from jobflow.cli.steer.send_command import send_and_wait
from jobflow.client.errors import CommandError
from jobflow.client.options import Selection
from jobflow.client.verbs.command import RETRY
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import run_command, set_status
from support.sandbox.running_controller import Cluster, flow


def record(name: str, hours: int) -> dict[str, Any]:
    """Return the record of a job that ran this long."""
    start, end = "2026-01-01T00:00:00Z", f"2026-01-01T{hours:02}:00:00Z"
    return {"name": name, "state": "Completed", "startTimestamp": start, "endTimestamp": end}


def condition(phase: str, name: str, reason: str = "") -> dict[str, Any]:
    return {"phase": phase, "reason": reason, "job": name, "attempts": 1}


async def failed(world: Cluster, hours: int = 2) -> None:
    """Apply a flow of which a has failed, and b, which depends on its end, ran for some hours."""
    made = flow("f", {"a": "", "b": "a", "c": ""})
    made["spec"]["flows"][1]["dependsOn"]["condition"] = "Finished"
    await world.apply(made)
    conditions = {
        "f-a": condition("Failed", "f-a", "JobFailed"),
        "f-b": condition("Completed", "f-b"),
        "f-c": condition("Completed", "f-c"),
    }
    records = [record("f-b", hours), record("f-c", 5)]
    state = {"phase": "Failed", "reason": "StepFailed"}
    await set_status(world, {"state": state, "conditions": conditions, "jobStatusList": records})


async def test_a_dry_run_lists_what_would_run_again_and_sends_nothing(
    world: Cluster, kubeconfig: Path
) -> None:
    await failed(world)
    result = await run_command(kubeconfig, "retry", "f", "--dry-run", "client")
    assert result == Result(
        0,
        "JobFlow f: these run again\n"
        "  a  Failed\n"
        "  b  Completed  its completed jobs ran for 2h\n"
        "Completed jobs of f that run again ran for 2h in all.\n",
        "",
    )
    assert await world.raw(COMMANDS) == []


async def test_a_dry_run_names_the_steps_that_run_the_same_again(
    world: Cluster, kubeconfig: Path
) -> None:
    made = flow("f", {"a": "", "b": ""})
    made["spec"]["flows"][0]["container"] = {"image": "busybox"}
    await world.apply(made)
    conditions = {f"f-{each}": condition("Failed", f"f-{each}") for each in "ab"}
    await set_status(world, {"state": {"phase": "Failed"}, "conditions": conditions})
    result = await run_command(kubeconfig, "retry", "f", "--dry-run", "client")
    assert result.out.splitlines()[-1] == (
        "Step a has its own container or jobSpec and runs the same again, because the spec of a "
        "flow cannot change: to change it, correct the file, and `jobflow submit FILE --reuse f` "
        "runs what has changed in a new flow."
    )


async def test_a_dry_run_prints_json(world: Cluster, kubeconfig: Path) -> None:
    await failed(world)
    result = await run_command(kubeconfig, "retry", "f", "--dry-run", "client", "-o", "json")
    assert result.json == {
        "namespace": "default",
        "name": "f",
        "runsAgain": [
            {"step": "a", "phase": "Failed"},
            {"step": "b", "phase": "Completed", "completedSeconds": 7200},
        ],
        "completedSeconds": 7200,
    }


async def test_a_dry_run_of_a_flow_that_runs_is_refused(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}))
    result = await run_command(kubeconfig, "retry", "f", "--dry-run", "client")
    assert (result.code, result.out) == (1, "")
    assert "only a Failed flow can be retried" in result.err


async def test_a_retry_with_params_is_a_new_flow(world: Cluster, kubeconfig: Path) -> None:
    result = await run_command(kubeconfig, "retry", "f", "--param", "rate=0.1")
    assert (result.code, result.out) == (2, "")
    sentence = "`jobflow resubmit FLOW --param rate=0.1 --reuse` creates a flow that runs only what"
    assert sentence in " ".join(result.err.split())


async def test_a_command_has_no_dry_run_on_the_server(world: Cluster, kubeconfig: Path) -> None:
    result = await run_command(kubeconfig, "retry", "f", "--dry-run", "server")
    assert result.code == 2
    assert "use --dry-run client" in result.err


async def answer(
    monkeypatch: pytest.MonkeyPatch, kubeconfig: Path, text: str, *, yes: bool = False
) -> int:
    """Retry the flow on a terminal on which a user answers with a text."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, text.encode())
    try:
        with os.fdopen(terminal) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            options = ClusterOptions(kubeconfig=str(kubeconfig))
            how = RetryOptions(yes=yes)
            return await send_and_wait(RETRY, ["f"], Selection(), options, retry=how)
    finally:
        os.close(keyboard)


async def test_work_of_more_than_an_hour_is_repeated_after_a_question(
    world: Cluster,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await failed(world)
    with pytest.raises(CommandError, match="nothing was sent"):
        await answer(monkeypatch, kubeconfig, "\n")
    assert await world.raw(COMMANDS) == []
    assert "Run again what took 2h? [y/N]" in capsys.readouterr().out
    assert await answer(monkeypatch, kubeconfig, "y\n") == 0
    assert len(await world.raw(COMMANDS)) == 1


@pytest.mark.parametrize(("hours", "yes"), [(1, False), (2, True)])
async def test_nothing_is_asked_before_shorter_work_or_with_yes(
    world: Cluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, hours: int, yes: bool
) -> None:
    await failed(world, hours)
    assert await answer(monkeypatch, kubeconfig, "", yes=yes) == 0
    assert len(await world.raw(COMMANDS)) == 1
