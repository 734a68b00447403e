"""`jobflow why` on the sandbox's API server: its answers and its errors."""

import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.show.why import print_explanations
from jobflow.client.errors import CommandError
from jobflow.client.options import Selection
from jobflow.display.console import print_sentences
from jobflow.display.formats import Output
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
        options = ClusterOptions(namespace, str(kubeconfig), output=output)
        capsys.readouterr()  # a controller's log
        assert await print_explanations(flow, step, Selection(), options) == 0
        return capsys.readouterr().out

    return explain


async def apply_waiting_flow(world: Cluster) -> None:
    """Apply a flow whose first step waits for its template."""
    async with world.controller():
        await world.apply(*(template(name) for name in "bcde"), flow("test", DIAMOND))
        await world.until("test", lambda flow: bool(flow.status.state.reason))


@pytest.mark.long
async def test_the_installed_command_prints_a_sentence_a_line(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_waiting_flow(world)
    result = await run_process(kubeconfig, "why", "test", "e")
    assert (result.code, result.err) == (0, "")
    first, *_, last = result.out.splitlines()
    assert first.startswith("Step e has been waiting for ")
    assert last == "Apply the JobTemplate a; the step then starts by itself."


def print_on_terminal(width: int, *sentences: str) -> list[str]:
    """Return the lines that a terminal of this width shows."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    print_sentences(sentences, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_terminal_wraps_each_sentence_by_itself() -> None:
    long = f"Step a failed: {'word ' * 30}end."
    assert print_on_terminal(40, long, "See it.") == [
        "Step a failed: word word word word",
        *["  word word word word word word word"] * 3,
        "  word word word word word end.",
        "See it.",
    ]
    assert max(map(len, print_on_terminal(160, long * 3))) <= 100


def test_a_command_is_not_broken_if_it_fits() -> None:
    command = "`jobflow logs train evaluate/3 -n team`"
    assert print_on_terminal(50, f"See its log: {command}.") == ["See its log:", f"  {command}."]
    assert print_on_terminal(30, f"See its log: {command}.") == [
        "See its log: `jobflow logs",
        "  train evaluate/3 -n team`.",
    ]


async def test_an_item_is_explained(world: Cluster, why: Why) -> None:
    await world.apply(flow("test", {"a": ""}, flows=[{"name": "a", "forEach": {"count": 3}}]))
    runs = [{"index": index, "phase": "Running", "job": f"test-a-{index}"} for index in range(2)]
    await set_status(
        world,
        {
            "state": {"phase": "Running"},
            "conditions": {"test-a": {"phase": "Running", "runs": runs, "attempts": 2}},
        },
        "test",
    )
    assert await why("test", "a/1") == "Step a/1 has been Running as the job test-a-1.\n"
    answer = json.loads(await why("test", "a/1", as_json=True))
    assert (answer["step"], answer["index"], answer["phase"]) == ("a", 1, "Running")
    assert "index" not in json.loads(await why("test", "a", as_json=True))
    with pytest.raises(CommandError, match='step "a" has no item "3": it has 3 items, 0 to 2'):
        await why("test", "a/3")


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


@pytest.mark.long
async def test_each_selected_flow_is_explained(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("b", {"x": ""}), flow("a", {"x": ""}))
    result = await run_process(kubeconfig, "why", "-A")
    first, blank, second = result.out.splitlines()
    assert (result.code, blank) == (0, "")
    assert first.startswith("JobFlow default/a ") and second.startswith("JobFlow default/b ")
    answers = (await run_process(kubeconfig, "why", "-A", "-o", "json")).json
    assert [answer["flow"] for answer in answers] == ["a", "b"]
    labelled = await run_process(kubeconfig, "why", "-l", "!team")
    assert labelled.out.startswith("JobFlow a ")


async def test_a_sentence_cannot_move_the_cursor(world: Cluster, why: Why) -> None:
    await apply_waiting_flow(world)
    condition = {"phase": "Waiting", "message": "\x1b[2Jx\ny"}
    await set_status(world, {"conditions": {"test-a": condition}}, "test")
    text = await why("test", "a")
    assert "\x1b" not in text and text.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("tset",), 2, '"tset" does not exist in namespace "default"; did you mean "test"?'),
        (("test", "prepar"), 2, 'JobFlow test has no step "prepar"; did you mean "prepare"?'),
        (("test", ""), 2, 'JobFlow test has no step ""'),
        (("test", "x/0"), 2, 'JobFlow test has no step "x"'),
        (
            ("test", "prepare/0"),
            2,
            'step "prepare" has no items, because it has no forEach or repeat: write prepare',
        ),
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


async def test_a_flow_that_waits_for_a_place_names_the_flows_before_it(
    world: Cluster, why: Why
) -> None:
    def member(name: str) -> dict[str, Any]:
        return flow(name, {"a": ""}, concurrency={"group": "g"})

    async with world.controller():
        await world.apply(template("a"), member("one"))
        await world.until("one", lambda flow: flow.status.start_time is not None)
        for name in ("two", "zoo"):
            await world.apply(member(name))
            await world.until(name, lambda flow: flow.status.state.reason == "Concurrency")
    assert (await why("zoo")).splitlines()[1:4] == [
        'It waits for a place in the concurrency group "g": at most 1 flow at once.',
        "one holds a place.",
        "1 flow waits before it: two.",
    ]
    assert "names the flows that it waits for" in await why("zoo", "a")


async def test_a_step_that_waits_for_places_names_who_holds_them_and_who_waits_before(
    world: Cluster, why: Why
) -> None:
    def member(name: str) -> dict[str, Any]:
        made = flow(name, {"a": ""})
        made["spec"]["flows"][0]["concurrency"] = {"group": "g"}
        return made

    async with world.controller():
        await world.apply(template("a"), member("one"))
        await world.until_jobs(one_a="")
        for name in ("two", "zoo"):
            await world.apply(member(name))
            await world.until(name, lambda flow: flow.status.places is not None)
    names = ['one holds a place in the group "g".', "1 flow waits before it: two."]
    assert (await why("zoo")).splitlines()[1:4] == ["Step a waits for places in its group.", *names]
    of_step = await why("zoo", "a")
    assert 'it waits for a place in the concurrency group "g": at most 1 at once' in of_step
    assert of_step.splitlines()[-2:] == names
