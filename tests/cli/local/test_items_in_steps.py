"""Items that go through several steps, with real processes on this machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
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


def run(flows: dict[str, dict[str, Any]], *, code: int = 0, **spec: Any) -> JobFlow:
    steps = [{"name": name, **step} for name, step in flows.items()]
    document = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {**spec, "flows": steps},
    }
    text = msgspec.json.encode(document).decode()
    answer = jobflow("run", "--runner", "process", "-o", "json", "-", stdin=text)
    assert answer.code == code, answer.out + answer.err
    return msgspec.convert(answer.json["items"][0], JobFlow)


def condition_of(ended: JobFlow, step: str) -> StepCondition:
    return (ended.status.conditions or {})[f"f-{step}"]


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


def test_a_step_stops_early_if_more_than_a_tenth_of_its_items_fail(home: Path) -> None:
    """All forty fail; a fifth failure is one too many, and then at most three more are running."""
    trial = {"count": 40, "parallelism": 4, "maxFailed": "$(params.tolerated)"}
    ended = run(
        {
            "trial": sh(f"echo x >> {home}/count; exit 1", forEach=trial, timeout="60s"),
            "publish": sh("true", dependsOn={"targets": ["trial"]}),
        },
        code=1,
        params=[{"name": "tolerated", "value": "10%"}],
    )
    found = condition_of(ended, "trial")
    started = len((home / "count").read_text().split())
    assert 5 <= started <= 8
    assert (found.phase, found.reason) == ("Failed", "TooManyFailed")
    assert f"{started} of 40 items failed; maxFailed is 10%" in found.message
    assert f"{40 - started} of 40 items not started" in found.message
    assert found.message in ended.status.state.message
    assert condition_of(ended, "publish").reason == "UpstreamFailed"


def test_the_first_solver_that_completes_ends_the_others(home: Path) -> None:
    script = 'case $0 in slow) sleep 600;; broken) exit 1;; esac; echo "{\\"by\\": \\"$0\\"}"'
    solvers = {"items": ["slow", "broken", "fast"], "minSuccess": 1}
    winner = 'steps["race"].items.filter(i, i.phase == "Completed")[0].outputs.by'
    ended = run(
        {
            "race": sh(f"({script}) > /dev/termination-log", "$(item)", forEach=solvers),
            "use": sh(
                f"echo $0 > {home}/winner",
                "$(vars.winner)",
                vars={"winner": winner},
                dependsOn={"targets": ["race"]},
            ),
        }
    )
    assert (home / "winner").read_text() == "fast\n"
    assert condition_of(ended, "race").phase == "Completed"
    assert condition_of(ended, "race").runs[0].reason == "NotNeeded"


def test_a_search_ends_as_soon_as_a_trial_reaches_the_goal(home: Path) -> None:
    best = 'steps["trial"].items.maxBy("outputs.acc").outputs.acc'
    goal = 'items.exists(i, i.phase == "Completed" && i.outputs.acc >= params.goal)'
    script = f'echo $1 >> {home}/tried; [ $1 -lt 8 ] || sleep 600; echo "{{\\"acc\\": $0}}"'
    ended = run(
        {
            "trial": sh(
                f"({script}) > /dev/termination-log",
                "$(vars.acc)",
                "$(index)",
                vars={"acc": "double(index + 1) * 0.15"},
                forEach={"count": 12, "parallelism": 3, "until": goal},
            ),
            "use": sh(
                f"echo $0 > {home}/reached",
                "$(vars.reached)",
                vars={"reached": f"{best} >= params.goal"},
                dependsOn={"targets": ["trial"]},
            ),
        },
        params=[{"name": "goal", "value": 0.85}],
    )
    tried = {int(line) for line in (home / "tried").read_text().split()}
    assert {0, 1, 2, 3, 4, 5} <= tried <= {0, 1, 2, 3, 4, 5, 6, 7, 8}
    assert condition_of(ended, "trial").phase == "Completed"
    assert "items not needed" in condition_of(ended, "trial").message
    assert (home / "reached").read_text() == "true\n"
