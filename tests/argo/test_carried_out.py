"""Converted workflows run with real processes: values go from step to step as in Argo."""

from pathlib import Path
from typing import Any

import pytest

from support.argo.migrated import dag, inputs, migrate, parameters, shell, step, steps, workflow
from support.sandbox.command_line import jobflow


def say(text: str) -> dict[str, Any]:
    """Return a call of the template `tell` with a message."""
    return {"template": "tell", "arguments": parameters(message=text)}


def several_values() -> dict[str, Any]:
    """Return a workflow of results, files, loops, conditions, a nested template and an exit
    handler; each `tell` writes what it got to a file."""
    path = {"valueFrom": {"path": "/dev/termination-log"}}
    make = shell("make", 'printf \'["a b", "c"]\'')
    word = shell("word", "echo $WORD")
    word["container"]["env"] = [{"name": "WORD", "value": "{{workflow.parameters.word}}"}]
    file = shell("file", "printf 'one file' > $TERMINATION_LOG")
    file["outputs"] = {"parameters": [{"name": "o", **path}]}
    tell = shell("tell", "printf '%s\\n' '{{inputs.parameters.message}}' >> $OUT")
    tell["inputs"] = inputs("message")
    inner = steps("inner", [{"name": "deep", **say("nested {{inputs.parameters.x}}")}])
    inner["inputs"] = inputs("x")
    given = parameters(x="{{steps.word.outputs.result}}")
    main = steps(
        "main",
        [step("make", "make"), step("word", "word"), step("file", "file")],
        [{"name": "each", **say("item {{item}}"), "withParam": "{{steps.make.outputs.result}}"}],
        [{"name": "yes", **say("yes"), "when": "{{steps.word.outputs.result}} == hello"}],
        [{"name": "no", **say("no"), "when": "{{steps.word.outputs.result}} != hello"}],
        [{"name": "nested", "template": "inner", "arguments": given}],
        [{"name": "last", **say("file {{steps.file.outputs.parameters.o}}")}],
    )
    bye = steps("bye", [{"name": "bye", **say("end {{workflow.status}}")}])
    templates = (main, make, word, file, tell, inner, bye)
    return workflow(*templates, arguments=parameters(word="hello"), onExit="bye", parallelism=1)


@pytest.mark.long
def test_values_go_from_step_to_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = migrate(several_values())
    assert found.text.code == 0
    flow = tmp_path / "flow.yaml"
    flow.write_text(found.text.out)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path)
    answer = jobflow("run", "--runner", "process", flow)
    assert answer.code == 0, answer.out + answer.err
    assert (tmp_path / "out").read_text().splitlines() == [
        "item a b",
        "item c",
        "yes",
        "nested hello",
        "file one file",
        "end Succeeded",
    ]


def fails_for_some(name: str, script: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    """Return a template that runs a script and fails before for the item FAIL."""
    found = shell(name, f"test {{{{inputs.parameters.x}}}} != FAIL || exit 1; {script}")
    return found | {"inputs": inputs("x"), "outputs": {"parameters": [*outputs]}}


def file_output(name: str, path: str, **more: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"path": path, **more}}


LOG = "/dev/termination-log"
WORD = "{{inputs.parameters.x}}"
COLLECTED: list[tuple[str, list[dict[str, Any]], str, str]] = [
    (f"echo {WORD} > {LOG}", [file_output("o", LOG)], "parameters.o", "[a,b]"),
    (f"echo {WORD} > {LOG}", [file_output("o", LOG, default="d")], "parameters.o", "[a,b]"),
    (f": > {LOG}", [file_output("o", LOG)], "parameters.o", "[,]"),
    (f"echo {WORD}", [], "result", "[a,b]"),
    (f"echo {WORD} > {LOG}", [file_output("o", LOG)], "parameters", "[{o:a},{o:b}]"),
]
"""A script, its outputs, how another task reads all of them, and what it gets."""


@pytest.mark.long
def test_lists_of_outputs_leave_out_items_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = {"withItems": ["a", "FAIL", "b"], "arguments": parameters(x="{{item}}")}
    tell = shell("tell", "printf '%s\\n' '{{inputs.parameters.message}}' >> $OUT")
    templates, tasks = [tell | {"inputs": inputs("message")}], list[dict[str, Any]]()
    for i, (script, outputs, read, _) in enumerate(COLLECTED):
        templates.append(fails_for_some(f"train-{i}", script, *outputs))
        report = say(f"{i} {{{{tasks.train-{i}.outputs.{read}}}}}")
        ended = f"train-{i}.AnySucceeded || train-{i}.AllFailed"
        tasks += [
            {"name": f"train-{i}", "template": f"train-{i}", **each},
            {"name": f"report-{i}", **report, "depends": ended},
        ]
    tasks += [
        {"name": "never", **say("all failed"), "depends": "train-0.AllFailed"},
        {"name": "empty", "template": "train-0", **each, "withItems": []},
        {"name": "lost", **say("no item failed"), "depends": "empty.AllFailed"},
    ]
    (tmp_path / "flow.yaml").write_text(migrate(workflow(dag("main", *tasks), *templates)).text.out)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path)
    answer = jobflow("run", "--runner", "process", tmp_path / "flow.yaml")
    told = (tmp_path / "out").read_text().replace('"', "").splitlines()
    assert sorted(told) == [f"{i} {each[-1]}" for i, each in enumerate(COLLECTED)], answer.out
