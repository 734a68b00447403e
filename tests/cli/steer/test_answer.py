"""`jobflow approve` and `jobflow reject`: the Commands that they send, and their errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import Status, run_command, set_status
from support.sandbox.running_controller import Cluster

ASKING = {"phase": "Waiting", "reason": "WaitingForApproval", "message": "Deploy?", "attempts": 1}
STATUS: Status = {
    "state": {"phase": "Running", "reason": "WaitingForApproval"},
    "conditions": {
        "f-a": {"phase": "Completed"},
        "f-ok": ASKING,
        "f-each": {
            **ASKING,
            "runs": [
                {"index": 0, "phase": "Completed", "message": "approved by ann", "attempts": 1},
                {**ASKING, "index": 1},
            ],
        },
        "f-later": {"phase": "Waiting", "message": "waits for ok (Waiting)"},
    },
}
STEPS: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "ok", "approval": {"message": "Deploy?"}},
    {"name": "each", "approval": {}, "forEach": {"count": 3}},
    {"name": "none", "approval": {}, "forEach": {"count": 2}},
    {"name": "later", "approval": {}, "dependsOn": {"targets": ["ok"]}},
]


async def ask(world: Cluster, status: Status = STATUS) -> None:
    """Create a flow whose steps ok and each/1 wait for approval."""
    meta = {"name": "f"}
    spec = {"flows": STEPS}
    await world.apply(
        {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "metadata": meta, "spec": spec}
    )
    await set_status(world, status)


@pytest.mark.parametrize(
    ("command", "action", "message"),
    [
        ("approve f ok", "ApproveStep", "ok"),
        ("approve jf/f each/1", "ApproveStep", "each/1"),
        ("reject f ok -m too-early", "RejectStep", "ok too-early"),
    ],
)
async def test_an_answer_is_a_command(
    world: Cluster, kubeconfig: Path, command: str, action: str, message: str
) -> None:
    await ask(world)
    result = await run_command(kubeconfig, *command.split())
    [sent] = await world.raw(COMMANDS)
    assert (sent["action"], sent["message"]) == (action, message)
    assert sent["metadata"]["ownerReferences"] == [sent["target"]]
    verb, _, step, *_ = command.split()
    name = sent["metadata"]["name"]
    assert result == Result(0, f"JobFlow f: {verb} of {step} requested (Command {name})\n", "")


async def test_outputs_are_an_annotation(world: Cluster, kubeconfig: Path) -> None:
    await ask(world)
    flags = ["--output", "percent=10", "--output", "regions=[eu, us]", "--output", "who='7'"]
    assert (await run_command(kubeconfig, "approve", "f", "ok", *flags)).code == 0
    [sent] = await world.raw(COMMANDS)
    outputs = json.loads(sent["metadata"]["annotations"]["flow.volcano.sh/outputs"])
    assert outputs == {"percent": 10, "regions": ["eu", "us"], "who": "7"}


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_the_answer_as_json(world: Cluster, kubeconfig: Path, verb: str) -> None:
    await ask(world)
    result = await run_command(kubeconfig, verb, "f", "each/1", "-o", "json")
    [sent] = await world.raw(COMMANDS)
    assert (result.code, result.json["step"]) == (0, "each/1")
    assert result.json["command"] == sent["metadata"]["name"]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("a", 1, "JobFlow f: step a has no approval"),
        ("each", 1, "JobFlow f: step each has items; name one that waits for approval: each/1"),
        ("none", 1, "JobFlow f: step none has items, and none of them waits for approval"),
        ("each/0", 1, "JobFlow f: item each/0 is Completed: approved by ann"),
        ("each/2", 1, "JobFlow f: item each/2 does not wait for approval yet"),
        ("each/3", 2, 'step "each" has no item "3": it has 3 items, 0 to 2'),
        (
            "later",
            1,
            "JobFlow f: step later does not wait for approval yet: it waits for ok (Waiting)",
        ),
        ("okk", 2, 'JobFlow f has no step "okk"; did you mean "ok"?'),
        ("ok --output percent", 2, "--output percent: write it as --output NAME=VALUE"),
        (
            f"ok --output text={'x' * 4096}",
            2,
            "--output: the outputs have 4107 bytes as JSON, and a step has room for 4096",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_an_answer_that_makes_no_sense_is_an_error(
    world: Cluster, kubeconfig: Path, arguments: str, code: int, error: str
) -> None:
    await ask(world)
    result = await run_command(kubeconfig, "approve", "f", *arguments.split())
    assert result == Result(code, "", f"jobflow: error: {error}\n")
    assert await world.raw(COMMANDS) == []


async def test_a_finished_flow_is_not_answered(world: Cluster, kubeconfig: Path) -> None:
    await ask(world, {**STATUS, "state": {"phase": "Failed", "reason": "Cancelled"}})
    result = await run_command(kubeconfig, "reject", "f", "ok")
    assert result.code == 1
    assert "it has already finished: Failed (Cancelled)" in result.err
