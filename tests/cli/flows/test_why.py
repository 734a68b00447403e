"""`jobflow why` on the sandbox's API server: its answers and its errors."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.cli.errors import CommandError
from jobflow.cli.flags import ClusterOptions, Output
from jobflow.cli.flows.why import print_explanation
from support.sandbox.flow_commands import forbid, run_process, set_status
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, flow, template

Why = Callable[..., Awaitable[str]]


@pytest.fixture
def why(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Why:
    """Return a function that runs the command on the test's own loop and returns the output."""

    async def explain(
        flow: str, step: str | None = None, *, namespace: str | None = None, as_json: bool = False
    ) -> str:
        output = Output.JSON if as_json else Output.TEXT
        options = ClusterOptions(namespace, str(kubeconfig), output)
        capsys.readouterr()  # a controller's log
        assert await print_explanation(flow, step, options) == 0
        return capsys.readouterr().out

    return explain


async def apply_waiting_flow(world: Cluster) -> None:
    """Apply a flow whose first step waits for its template."""
    async with world.controller():
        await world.apply(*(template(name) for name in "bcde"), flow("test", DIAMOND))
        await world.until("test", lambda flow: bool(flow.status.state.reason))


async def test_the_installed_command_answers_in_one_paragraph(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_waiting_flow(world)
    result = await run_process(kubeconfig, "why", "test", "e")
    assert (result.code, result.err) == (0, "")
    [paragraph] = result.out.splitlines()
    assert paragraph.startswith("Step e has been waiting for ")
    assert "Apply the JobTemplate a" in paragraph


async def test_json_has_the_causes(world: Cluster, why: Why) -> None:
    await apply_waiting_flow(world)
    answer = json.loads(await why("test", as_json=True))
    since = (await world.flow("test")).status.start_time
    assert since is not None
    assert answer.pop("sentences")[0].startswith("JobFlow test is Pending")
    assert answer == {
        "namespace": NAMESPACE,
        "flow": "test",
        "step": None,
        "phase": "Pending",
        "reason": "WaitingForTemplate",
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "causes": ["a"],
    }
    step = json.loads(await why("test", "e", as_json=True))
    assert (step["step"], step["phase"], step["causes"]) == ("e", "Waiting", ["a"])


async def test_a_flow_in_another_namespace_is_explained(world: Cluster, why: Why) -> None:
    elsewhere = flow("test", {"a": ""})
    elsewhere["metadata"]["namespace"] = "team"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(namespace).encode())
    await world.client.create(JOBFLOWS, "team", json.dumps(elsewhere).encode())
    assert "JobFlow test " in await why("test", namespace="team")


async def test_a_paragraph_cannot_move_the_cursor(world: Cluster, why: Why) -> None:
    await apply_waiting_flow(world)
    condition = {"phase": "Waiting", "message": "\x1b[2Jx\ny"}
    await set_status(world, {"conditions": {"test-a": condition}}, "test")
    text = await why("test", "a")
    assert "\x1b" not in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("tset",), 2, '"tset" does not exist in namespace "default"; did you mean "test"?'),
        (("test", "prepar"), 2, 'JobFlow test has no step "prepar"; did you mean "prepare"?'),
        (("test", ""), 2, 'JobFlow test has no step ""'),
        (("secret",), 1, "alice must not"),
    ],
)
async def test_a_missing_flow_or_step_is_an_error(
    world: Cluster, why: Why, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    await world.apply(flow("test", {"prepare": ""}))
    forbid(world, "GET", "/jobflows/secret")
    with pytest.raises(CommandError) as caught:
        await why(*arguments)
    assert caught.value.code == code
    assert str(caught.value).endswith(sentence)


async def test_without_the_right_to_list_no_name_is_suggested(world: Cluster, why: Why) -> None:
    await world.apply(flow("test", {"prepare": ""}))
    forbid(world, "GET", "/jobflows")
    with pytest.raises(CommandError, match=r'"tset" does not exist in namespace "default"$'):
        await why("tset")
