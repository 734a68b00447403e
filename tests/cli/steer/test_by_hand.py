"""`jobflow cancel FLOW --step` and similar: what they print, the Commands that they send, and their
errors."""

from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from support.sandbox.child_flows import create_child
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import Status, forbid, run_command, set_status
from support.sandbox.rest_client import vcjob
from support.sandbox.running_controller import Cluster, set_phase

STEPS: list[dict[str, Any]] = [
    {"name": "done"},
    {"name": "part", "forEach": {"count": "$(params.parts)"}},
    {"name": "samples", "forEach": {"count": 2}, "flow": {"flows": [{"name": "fit"}]}},
    {"name": "ok", "approval": {}},
    {"name": "merge", "dependsOn": {"targets": ["part"]}},
]
STATUS: Status = {
    "state": {"phase": "Running"},
    "conditions": {
        "f-done": {"phase": "Completed", "attempts": 1},
        "f-part": {
            "phase": "Running",
            "attempts": 2,
            "runs": [
                {"index": 0, "phase": "Completed", "attempts": 1},
                {"index": 2, "phase": "Running", "attempts": 1},
            ],
        },
        "f-ok": {"phase": "Waiting", "reason": "WaitingForApproval", "attempts": 1},
    },
}


async def start(world: Cluster) -> None:
    """Create a running flow whose item samples/1 has a child flow."""
    meta, spec = {"name": "f"}, {"flows": STEPS, "params": [{"name": "parts", "value": 4}]}
    await world.apply(
        {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "metadata": meta, "spec": spec}
    )
    await set_status(world, STATUS)
    await create_child(world, "f", "samples", index=1)


async def test_what_is_given_up_is_printed_then_sent_as_one_command(
    world: Cluster, kubeconfig: Path
) -> None:
    await start(world)
    flags = "--step part --step merge --step samples/1/fit -m hangs".split()
    result = await run_command(kubeconfig, "cancel", "f", *flags)
    [sent] = await world.raw(COMMANDS)
    assert (sent["action"], sent["message"]) == ("CancelStep", "part,merge,samples/1/fit hangs")
    assert result.out.splitlines() == [
        "JobFlow f: these are given up, and fail",
        "  part (3 of 4 items)  Running",
        "  merge                Waiting",
        "  samples/1/fit        Waiting",
        "JobFlow f: cancel of part, merge, samples/1/fit requested "
        f"(Command {sent['metadata']['name']})",
    ]


async def test_a_dry_run_sends_nothing(world: Cluster, kubeconfig: Path) -> None:
    await start(world)
    flags = "--step part/2 --dry-run client -o json".split()
    result = await run_command(kubeconfig, "cancel", "f", *flags)
    assert await world.raw(COMMANDS) == []
    assert result.json == {
        "namespace": "default",
        "name": "f",
        "cancels": [{"step": "part/2", "phase": "Running"}],
    }


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("f --step merg", 2, 'JobFlow f: the flow has no step "merg"; did you mean "merge"?'),
        ("f --step merge --step done", 1, "JobFlow f: step done has ended already: it is Complete"),
        ("f --step part/0", 1, "JobFlow f: step part/0 has ended already: it is Completed"),
        ("f --step part/7", 2, "JobFlow f: there is no part/7: step part has 4 items, from 0"),
        ("f --step ok", 1, "JobFlow f: step ok asks for approval: approve or reject it"),
        ("f --step samples/0/fit", 1, "JobFlow f: step samples/0 has not started, so it has no fl"),
        ("f --step samples/1/no", 2, 'JobFlow f-samples-1: the flow has no step "no"'),
        ("f-samples-1 fit", 2, "of JobFlow f-samples-1: write `jobflow cancel f --step samples/1/"),
        ("f-samples-1 --step fit", 1, "JobFlow f-samples-1 is a child flow: name the path from"),
        (
            "f --step merge --now",
            2,
            "--step takes neither --now nor --wait; afterwards, `jobflow wait f` w",
        ),
        ("f g --step merge", 2, "--step is for one flow, not for f, g: name one, and each step wi"),
        ("-A --step merge", 2, "--step is for one flow: give its name, without -l and -A"),
        ("--step merge", 2, "--step is for one flow: give its name\n"),
        ("f -m why", 2, "--dry-run and -m need --step"),
        ("f --step merge --dry-run server", 2, "a Command has no dry run on the server"),
    ],
)
async def test_nothing_is_sent_if_anything_that_is_named_cannot_be(
    world: Cluster, kubeconfig: Path, arguments: str, code: int, error: str
) -> None:
    await start(world)
    result = await run_command(kubeconfig, "cancel", *arguments.split())
    assert (result.code, result.out) == (code, "")
    assert error in result.err
    assert await world.raw(COMMANDS) == []


async def test_a_skip_has_outputs_and_says_what_it_touches(
    world: Cluster, kubeconfig: Path
) -> None:
    await start(world)
    flags = "part/2 --output n=3 -m fine".split()
    result = await run_command(kubeconfig, "skip", "f", *flags)
    [sent] = await world.raw(COMMANDS)
    assert (sent["action"], sent["message"]) == ("SkipStep", "part/2 fine")
    assert sent["metadata"]["annotations"]["flow.volcano.sh/outputs"] == '{"n":3}'
    assert result.out.splitlines()[:2] == [
        "JobFlow f: these are skipped, as if they had completed",
        "  part/2  Running",
    ]


async def test_a_retry_of_steps_lists_all_that_runs_again(world: Cluster, kubeconfig: Path) -> None:
    await start(world)
    result = await run_command(kubeconfig, "retry", "f", "--step", "done", "--dry-run", "client")
    assert result.out.splitlines() == ["JobFlow f: these run again", "  done  Completed"]
    result = await run_command(kubeconfig, "retry", "f", "--step", "part/0", "-o", "json")
    [sent] = await world.raw(COMMANDS)
    assert (sent["action"], sent["message"]) == ("RetrySteps", "part/0")
    assert result.json["runsAgain"] == [
        {"step": "part", "phase": "Running", "count": "1 of 4 items", "completedSeconds": 0}
    ]


async def test_what_has_just_ended_runs_again_before_the_status_says_that_it_has(
    world: Cluster, kubeconfig: Path
) -> None:
    await start(world)
    job = {"job": "f-part-2"}
    conditions = {"f-part": {"runs": [{"index": 2, "phase": "Running", "attempts": 1, **job}]}}
    await set_status(world, {"conditions": conditions})
    await world.apply(vcjob("f-part-2"))
    await set_phase(world.client, "f-part-2", "Running")
    flags = ("retry", "f", "--step", "part/2")
    refused = await run_command(kubeconfig, *flags)
    assert (refused.code, await world.raw(COMMANDS)) == (1, [])
    await set_phase(world.client, "f-part-2", "Completed")
    result = await run_command(kubeconfig, *flags)
    assert result.code == 0, result.err
    assert [each["message"] for each in await world.raw(COMMANDS)] == ["part/2"]


async def test_a_child_flow_that_has_just_ended_runs_again(
    world: Cluster, kubeconfig: Path
) -> None:
    await start(world)
    await set_status(world, {"conditions": {"f-samples": {"attempts": 1}}})
    await set_status(world, {"state": {"phase": "Succeed"}}, "f-samples-1")
    result = await run_command(kubeconfig, "retry", "f", "--step", "samples/1")
    assert result.code == 0, result.err


async def test_child_flows_that_may_not_be_listed_are_named(
    world: Cluster, kubeconfig: Path
) -> None:
    await start(world)
    forbid(world, "GET", "/jobflows")
    result = await run_command(kubeconfig, "skip", "f", "part/2")
    assert result == Result(
        1,
        "",
        'jobflow: error: reading child flows needs the right to list JobFlows in "default", '
        "which the role view has: alice must not\n",
    )


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("skip f done", 1, "JobFlow f: step done needs no skip: it is Completed"),
        ("skip f part --output n=1", 1, "JobFlow f: step part has items: outputs are for one of"),
        ("skip f part/2 --output n", 2, "--output n: write it as --output NAME=VALUE"),
        ("skip f part/7", 2, "JobFlow f: there is no part/7: step part has 4 items, from 0"),
        ("skip f ok", 1, "JobFlow f: step ok asks for approval: approve or reject it"),
        ("retry f --step part/2", 1, "JobFlow f: step part/2 has not ended: it is Running"),
        ("retry f --step part/7", 2, "JobFlow f: there is no part/7: step part has 4 items, from"),
        ("retry f --step done --wait", 2, "neither --tolerated nor --wait; afterwards, `jobflow w"),
        ("retry f --step ok", 1, "JobFlow f: step ok asks for approval: approve or reject it"),
        ("retry f -m why", 2, "-m needs --step"),
    ],
)
async def test_a_skip_or_a_retry_that_cannot_be_sends_nothing(
    world: Cluster, kubeconfig: Path, command: str, code: int, error: str
) -> None:
    await start(world)
    result = await run_command(kubeconfig, *command.split())
    assert (result.code, result.out) == (code, "")
    assert error in result.err
    assert await world.raw(COMMANDS) == []


async def test_a_scale_says_what_it_replaces(world: Cluster, kubeconfig: Path) -> None:
    await start(world)
    result = await run_command(kubeconfig, "scale", "f", "part", "--parallelism", "8")
    [sent] = await world.raw(COMMANDS)
    assert (sent["action"], sent["message"]) == ("ScaleFlow", "part=8")
    line = "JobFlow f: part: at most 8 at once, instead of any number"
    assert result.out.splitlines()[0] == line
    flags = "--parallelism 2 --dry-run client --output json".split()
    result = await run_command(kubeconfig, "scale", "f", *flags)
    assert result.json["scales"] == [{"step": "", "parallelism": 2, "before": None}]
    assert len(await world.raw(COMMANDS)) == 1
    result = await run_command(kubeconfig, "scale", "f", "merge", "--parallelism", "2")
    assert (result.code, result.out) == (1, "")
    assert "JobFlow f: step merge has no forEach, so it has no parallelism" in result.err


async def test_an_item_that_is_no_flow_is_not_scaled(world: Cluster, kubeconfig: Path) -> None:
    await start(world)
    result = await run_command(kubeconfig, "scale", "f", "part/2", "--parallelism", "1")
    assert (result.code, result.out) == (1, "")
    why = "part/2 is one item, and runs no flow, so it has no parallelism: write part"
    assert f"JobFlow f: {why}" in result.err
    assert await world.raw(COMMANDS) == []
