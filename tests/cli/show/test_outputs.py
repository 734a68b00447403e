"""`jobflow outputs`, and the part of a tree that `jobflow get --step` prints."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.sandbox.command_line import Result
from support.sandbox.flow_commands import run_command, set_status
from support.sandbox.running_controller import Cluster, flow

STEPS: list[dict[str, Any]] = [
    {"name": "prepare"},
    {"name": "sweep", "forEach": {"items": ["eu", "us", "asia"]}},
    {"name": "count", "forEach": {"count": "$(params.one)"}},
    {"name": "poll", "repeat": {"max": 3}},
]
DONE = {"phase": "Completed", "attempts": 1}
STATUS = {
    "state": {"phase": "Succeed"},
    "outputs": {"best": 0.9},
    "conditions": {
        "f-prepare": {**DONE, "outputs": {"rows": 10, "text": "a b", "none": "x\x1b[2J"}},
        "f-sweep": {
            "phase": "Running",
            "runs": [
                {"index": 0, **DONE, "outputs": {"loss": 0.5}},
                {"index": 2, **DONE, "outputs": {"loss": 0.25, "tags": ["a"]}},
            ],
        },
        "f-count": {**DONE, "runs": [{"index": 0, **DONE, "outputs": {"n": 1}}]},
        "f-poll": {
            **DONE,
            "runs": [{"index": 0, **DONE}, {"index": 1, **DONE, "outputs": {"ok": True}}],
        },
    },
}


@pytest.fixture(autouse=True)
async def f(world: Cluster) -> None:
    """Provide the flow f, of which one item has not started."""
    manifest = flow("f", {})
    manifest["spec"] |= {"flows": STEPS, "params": [{"name": "one", "value": 1}]}
    await world.apply(manifest, flow("new", {"a": ""}))
    await set_status(world, STATUS)


async def test_a_table_has_a_row_for_each_output(kubeconfig: Path) -> None:
    result = await run_command(kubeconfig, "outputs", "jf/f")
    assert result.out.splitlines() == [
        "STEP      ITEM   OUTPUT   VALUE",
        "(flow)           best     0.9",
        "prepare          rows     10",
        "prepare          text     a b",
        'prepare          none     "x\\u001b[2J"',
        "sweep/0   eu     loss     0.5",
        "sweep/2   asia   loss     0.25",
        'sweep/2   asia   tags     ["a"]',
        "count/0          n        1",
        "poll/1           ok       true",
    ]


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("prepare", ["prepare   rows     10", "prepare   text     a b"]),
        ("count", ["count/0   n        1"]),
        ("sweep/0", ["sweep/0   eu     loss     0.5"]),
    ],
)
async def test_a_step_or_an_item_has_its_rows(
    kubeconfig: Path, step: str, lines: list[str]
) -> None:
    result = await run_command(kubeconfig, "outputs", "f", step)
    assert result.out.splitlines()[1:3] == lines


async def test_json_has_steps_by_name_and_items_with_index_and_value(kubeconfig: Path) -> None:
    whole = (await run_command(kubeconfig, "outputs", "f", "-o", "json")).json
    steps = whole["steps"]
    assert [*steps] == ["prepare", "sweep", "count", "poll"]
    assert {**whole, "steps": {}} == {
        "namespace": "default",
        "flow": "f",
        "phase": "Succeed",
        "outputs": {"best": 0.9},
        "steps": {},
    }
    assert steps["sweep"] == {
        "phase": "Running",
        "outputs": {},
        "items": [
            {"index": 0, "value": "eu", "phase": "Completed", "outputs": {"loss": 0.5}},
            {"index": 1, "value": "us", "phase": "Waiting", "outputs": {}},
            {
                "index": 2,
                "value": "asia",
                "phase": "Completed",
                "outputs": {"loss": 0.25, "tags": ["a"]},
            },
        ],
    }
    assert steps["count"]["items"][0]["value"] == 0
    assert steps["poll"]["outputs"] == {"ok": True}
    assert [*steps["poll"]["items"][1]] == ["index", "phase", "outputs"]
    one = (await run_command(kubeconfig, "outputs", "f", "sweep", "-o", "json")).json
    assert one == {**whole, "steps": {"sweep": steps["sweep"]}}
    item = await run_command(kubeconfig, "outputs", "f", "sweep/2", "-o", "yaml")
    found = {**steps["sweep"], "items": [steps["sweep"]["items"][2]]}
    assert yaml.safe_load(item.out) == {**whole, "steps": {"sweep": found}}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("new",), "JobFlow new has no outputs; the flow is Pending"),
        (("f", "sweep/1"), 'step "sweep/1" of JobFlow f has no outputs; the flow is Succeed'),
    ],
)
async def test_no_outputs_are_no_error(
    kubeconfig: Path, arguments: tuple[str, ...], told: str
) -> None:
    assert await run_command(kubeconfig, "outputs", *arguments) == Result(0, "", f"{told}\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("outputs", "f", "swep"), 'JobFlow f has no step "swep"; did you mean "sweep"?'),
        (("outputs", "f", "sweep/3"), 'step "sweep" has no item "3": it has 3 items, 0 to 2'),
        (("outputs", "f", "count/1"), 'step "count" has no item "1": it has 1 item, 0'),
        (("get", "f", "--step", "swep"), 'JobFlow f has no step "swep"; did you mean "sweep"?'),
        (("get", "f", "--step", "sweep/3"), 'step "sweep" has no item "3"'),
        (("get", "f", "--step", "prepare/0"), 'step "prepare" has no items, because it has no'),
        (("get", "--step", "a"), "--step shows a part of the tree of one FLOW: name one"),
        (("get", "f", "--step", "a", "-w"), "--step shows a part of the tree of one FLOW: leave"),
        (
            ("get", "f", "--step", "a", "-o", "json"),
            "--step shows a part of a tree: leave out -o json; `jobflow outputs f a -o json` "
            "prints its outputs",
        ),
        (("get", "cjf", "--step", "a"), "--phase, --watch, --items and --step are for flows"),
    ],
)
async def test_wrong_steps_are_errors(
    kubeconfig: Path, arguments: tuple[str, ...], error: str
) -> None:
    result = await run_command(kubeconfig, *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"jobflow: error: {error}")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("poll",), ["└─ ✔ poll  Completed          2 runs; ok=true"]),
        (("sweep/2",), ['└─ ✔ sweep/2  Completed          asia; loss=0.25, tags=["a"]']),
        (
            ("poll", "--items"),
            [
                "└─ ✔ poll       Completed          2 runs; ok=true",
                "   ├─ ✔ poll/0  Completed",
                "   └─ ✔ poll/1  Completed          ok=true",
            ],
        ),
    ],
)
async def test_get_prints_the_part_of_a_step(
    kubeconfig: Path, arguments: tuple[str, ...], lines: list[str]
) -> None:
    result = await run_command(kubeconfig, "get", "f", "--step", *arguments)
    assert (result.err, result.out.splitlines()) == ("", lines)
