"""A field with traits is in every list that is made of them."""

import json
import subprocess
import sys
from typing import Any

import pytest

from support.paths import ROOT

pytestmark = pytest.mark.long
CONTAINER = {"container": {"image": "i"}}
CHILD = {"flows": [{"name": "b", **CONTAINER}]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a part of a job, of an approval": (
        {"approval": {}, "workingDir": "/x"},
        "flows[0].workingDir: Forbidden: excludes approval: a step that waits for approval runs no "
        "job; move it to a step that depends on this one",
    ),
    "a field without traits, of an approval": (
        {"approval": {}, "unjudged": True},
        "flows[0].unjudged: Forbidden: excludes approval: a step that waits for approval runs no "
        "job; move it to a step that depends on this one",
    ),
    "a part of a job, of a child flow": (
        {"flow": CHILD, "workingDir": "/x"},
        "flows[0].workingDir: Forbidden: the step runs a flow, not a job; write it into the steps "
        "of the flow",
    ),
    "a field of outermost flows, in a child flow": (
        {"flow": CHILD | {"owner": "x"}},
        "flows[0].flow.owner: Forbidden: a child flow has no owner of its own; remove it",
    ),
    "a reference in a part of a job": (
        CONTAINER | {"workingDir": "$(params.x)"},
        'flows[0].workingDir: Invalid value: "$(params.x)": there is no parameter "x"',
    ),
    "a reference in another text": (
        {"approval": {}, "note": "$(params.x)"},
        'flows[0].note: Invalid value: "$(params.x)": there is no parameter "x"',
    ),
    "an expression": (
        CONTAINER | {"skipWhen": "params.x"},
        'flows[0].skipWhen: Invalid value: "params.x": character 1: there is no parameter "x"',
    ),
    "the type of an expression": (
        CONTAINER | {"skipWhen": "1 + 1"},
        'flows[0].skipWhen: Invalid value: "1 + 1": gives a whole number, not true or false',
    ),
    "a variable of another moment": (
        CONTAINER | {"skipWhen": "attempt > 1"},
        'flows[0].skipWhen: Invalid value: "attempt > 1": character 1: only the patch, vars and '
        "the retry.when have the numbers of an attempt; for another step write "
        'steps["NAME"].attempts',
    ),
    "a setting": (
        CONTAINER | {"lives": "many"},
        'flows[0].lives: Invalid value: "many": a whole number, or one reference to a param, such '
        "as $(params.n)",
    ),
    "two that exclude each other": (
        CONTAINER | {"lives": 2, "retry": {"limit": 1, "because": "x"}},
        "flows[0].lives: Forbidden: excludes retry: remove one",
    ),
    "a required field": (
        CONTAINER | {"retry": {"limit": 1}},
        "flows[0].retry.because: Required value: say why",
    ),
}
SOUND = {
    "params": [{"name": "dir", "value": "/x"}, {"name": "n", "value": 3}],
    "team": "t",
    "flows": [
        {"name": "a", **CONTAINER},
        {
            "name": "b",
            "dependsOn": {"targets": ["a"]},
            "workingDir": "$(params.dir)",
            "skipWhen": 'steps["a"].outputs.x == ""',
            "lives": "$(params.n)",
            "note": "$(params.dir)",
            **CONTAINER,
        },
        {"name": "c", "flow": CHILD | {"team": "u"}},
    ],
}


@pytest.fixture(scope="module")
def tomorrow() -> Any:
    """What becomes of the flows above with the types of tomorrow."""
    flows = {name: {"flows": [{"name": "a", **step}]} for name, (step, _) in REFUSED.items()}
    done = subprocess.run(
        [sys.executable, "-m", "support.fields_of_tomorrow"],
        input=json.dumps({"sound": SOUND, **flows}),
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", REFUSED)
def test_rules_know_it(tomorrow: Any, name: str) -> None:
    assert tomorrow["faults"][name] == [f"spec.{REFUSED[name][1]}"]


def test_a_flow_can_use_it(tomorrow: Any) -> None:
    assert tomorrow["faults"]["sound"] == []
    assert {"workingDir", "skipWhen", "lives", "note", "unjudged"} <= {*tomorrow["schema"]}


def test_it_is_in_the_job(tomorrow: Any) -> None:
    [task] = tomorrow["job"]["spec"]["tasks"]
    [container] = task["template"]["spec"]["containers"]
    assert container == {"name": "main", "image": "i", "workingDir": "/x"}


def test_it_has_the_value_of_a_param(tomorrow: Any) -> None:
    assert tomorrow["lives"] == 3


def test_the_outputs_that_it_reads_are_needed(tomorrow: Any) -> None:
    assert tomorrow["needed"] == ["a"]


def test_flows_in_python_have_it(tomorrow: Any) -> None:
    spec = tomorrow["python"]["spec"]
    assert spec["team"] == "t"
    assert spec["flows"][0] == {
        "name": "a",
        "container": {"image": "i", "workingDir": "$(params.dir)"},
        "skipWhen": "params.n > 1",
        "lives": "$(params.n)",
    }


def test_it_is_converted_to_python(tomorrow: Any) -> None:
    assert 'working_dir="$(params.dir)"' in tomorrow["converted"]
    assert 'lives="$(params.n)"' in tomorrow["converted"]
