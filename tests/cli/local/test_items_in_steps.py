"""Items that go through several steps, with real processes on this machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.sandbox.command_line import jobflow

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sh(script: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a step that runs a script, with `$0`, `$1` and so on."""
    return {
        "container": {"image": "busybox", "command": ["sh", "-c", script, *arguments]},
        **fields,
    }


def matching(target: str, **fields: Any) -> dict[str, Any]:
    return {"dependsOn": {"targets": [target], "items": "Matching", **fields}}


def run(flows: dict[str, dict[str, Any]], **spec: Any) -> None:
    steps = [{"name": name, **step} for name, step in flows.items()]
    document = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {**spec, "flows": steps},
    }
    text = msgspec.json.encode(document).decode()
    answer = jobflow("run", "--runner", "process", "-", stdin=text)
    assert answer.code == 0, answer.out + answer.err


def test_an_item_gets_the_result_of_the_item_before_it_or_how_it_failed(home: Path) -> None:
    fails = 'if [ $0 = 2 ]; then echo "bad value 2" > /dev/termination-log; exit 4; fi; '
    item = 'steps["task1"].item'
    got = f'{item}.phase == "Completed" ? string({item}.outputs.v) : {item}.failure.message'
    run(
        {
            "list": sh('echo "{\\"l\\": [1, 2, 3]}" > /dev/termination-log'),
            "task1": sh(
                fails + 'echo "{\\"v\\": $0}" > /dev/termination-log',
                "$(item)",
                dependsOn={"targets": ["list"]},
                forEach={"from": 'steps["list"].outputs.l'},
                continueOnFailure=True,
            ),
            "task2": sh(
                "echo $1 > $0.got",
                f"{home}/$(item)",
                "$(vars.got)",
                vars={"got": got},
                **matching("task1", condition="Finished"),
            ),
        }
    )
    found = [(home / f"{item}.got").read_text() for item in (1, 2, 3)]
    assert found == ["1\n", "bad value 2\n", "3\n"]


def test_the_order_of_the_steps_is_the_priority(home: Path) -> None:
    """The last step is written first, so that an item is finished before others start."""
    log = f"{home}/log"
    step = {"call": matching("align"), "align": {"forEach": {"count": 6}}}
    flows = {
        name: sh(f"sleep 0.3; echo {name} $0 >> {log}", "$(item)", **fields)
        for name, fields in step.items()
    }
    run(flows, parallelism=2)
    open_items = 0
    for line in (home / "log").read_text().splitlines():
        open_items += 1 if line.startswith("align") else -1
        assert open_items <= 3


def test_a_step_runs_for_some_items_and_the_next_one_takes_what_there_is(home: Path) -> None:
    items = [{"id": "a", "reads": 10}, {"id": "b", "reads": 99}, {"id": "c", "reads": 50}]
    each = {"from": "params.samples"}
    kept = 'printf \'{"kept": "%s.trimmed"}\' $0 > /dev/termination-log'
    both = {"targets": ["check", "trim"], "items": "Matching"}
    flows = {
        "check": sh("true", when="params.samples != null", forEach=each),
        "trim": sh(kept, "$(item.id)", forEach={"when": "item.reads > 20"}, **matching("check")),
        "align": sh(
            'printf \'{"bam": "%s"}\' $0 > /dev/termination-log',
            "$(vars.input)",
            dependsOn=both,
            vars={"input": 'get(steps["trim"].item.outputs, "kept", item.id)'},
        ),
        "gather": sh(
            "echo $1 > $0",
            f"{home}/gathered",
            "$(vars.bams)",
            dependsOn={"targets": ["align"]},
            vars={"bams": 'steps["align"].items.map(i, i.outputs.bam).join(" ")'},
        ),
    }
    run(flows, params=[{"name": "samples", "value": items}])
    assert (home / "gathered").read_text() == "a b.trimmed c.trimmed\n"
