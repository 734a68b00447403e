"""Converted workflows run with real processes: values go from step to step as in Argo."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.argo.carried_out import carry_out, program
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


ONE_FILE = {"parameters": [file_output("o", LOG)]}
WITH_DEFAULT = {"parameters": [file_output("o", LOG, default="d")]}
GLOBAL = {"parameters": [file_output("o", LOG) | {"globalName": "g"}]}
SUPPLIED = {"parameters": [{"name": "o", "valueFrom": {"supplied": {}}}]}
RETRY = {"limit": 1, "expression": "lastRetry.status == 'Failed' && asInt(lastRetry.exitCode) > 0"}
LIBRARY = [
    program("work", "code", "out", outputs=ONE_FILE),
    program("defaults", "code", "out", outputs=WITH_DEFAULT),
    program("global", "code", "out", outputs=GLOBAL),
    program("daemon", "code", "out", daemon=True),
    program("tries", "code", "out", outputs=ONE_FILE, retryStrategy=RETRY,
            text="try {{retries}} {{lastRetry.exitCode}}"),
    program("tell", "message", text="{{inputs.parameters.message}}"),
    {"name": "pause", "suspend": {"duration": "5"}, "inputs": inputs("code", "out"),
     "outputs": SUPPLIED},
]  # fmt: skip
"""Templates. `work` and the like exit with a code and write an output, unless that is empty."""
How = dict[str, Any]
"""Fields of a task, and `code` and `out` of the work that it calls."""
ENDS: dict[str, How] = {
    "completed": {"code": "0", "out": "2"},
    "failed": {"code": "1", "out": ""},
    "skipped": {"code": "0", "out": "2", "when": "{{workflow.parameters.go}} == yes"},
}
TOLERATED: dict[str, Any] = {"continueOn": {"failed": True}}


def work(name: str, how: How, template: str = "work", **more: Any) -> How:
    """Return a task that ends in a way."""
    fields = {key: value for key, value in how.items() if key not in ("code", "out")}
    arguments = parameters(code=how.get("code", "0"), out=how.get("out", "2"))
    return {"name": name, "template": template, "arguments": arguments, **fields, **more}


def tell(name: str, text: str, **more: Any) -> How:
    return {"name": name, **say(text), **more}


def group_with(*then: How, template: str = "work", **more: Any) -> Callable[[How], list[How]]:
    """Return steps: work, whose failure is tolerated, and others after it."""

    def build(how: How) -> list[How]:
        return [steps("main", [work("a", how, template, **TOLERATED, **more)], [*then])]

    return build


def tasks_with(*then: How, **more: Any) -> Callable[[How], list[How]]:
    """Return a dag of work and others."""
    return lambda how: [dag("main", work("a", how, **more), *then)]


def nested(how: How) -> list[How]:
    """Return steps whose second one calls steps with the output of the first."""
    given = parameters(x="{{steps.a.outputs.parameters.o}}")
    inner = steps("inner", [tell("b", "b {{inputs.parameters.x}}")], inputs=inputs("x"))
    first = work("a", how, **TOLERATED)
    main = steps("main", [first], [{"name": "nest", "template": "inner", "arguments": given}])
    return [main, inner]


def output_of_flow(**source: str) -> Callable[[How], list[How]]:
    """Return steps that print the output of a child flow, which is that of a step."""
    out = {"parameters": [{"name": "p", "valueFrom": source}]}

    def build(how: How) -> list[How]:
        inner = steps("inner", [work("a", how, **TOLERATED)], outputs=out)
        after = tell("b", "b {{steps.nest.outputs.parameters.p}}")
        return [steps("main", [{"name": "nest", "template": "inner"}], [after]), inner]

    return build


def child_flow(how: How) -> list[How]:
    """Return steps that print the output and the end of a child flow."""
    given = parameters(code=how["code"], out=how["out"])
    condition = {key: how[key] for key in ("when",) if key in how}
    nest = {"name": "nest", "template": "inner", "arguments": given, **condition, **TOLERATED}
    out = {"parameters": [file_output("p", "") | {"valueFrom": {"parameter": OUT_OF_A}}]}
    own = {"code": "{{inputs.parameters.code}}", "out": "{{inputs.parameters.out}}"}
    inner = steps("inner", [work("a", own)], inputs=inputs("code", "out"), outputs=out)
    text = "{{steps.nest.status}} {{steps.nest.outputs.parameters.p}}"
    return [steps("main", [nest], [tell("b", text)]), inner]


def exit_handler(how: How) -> list[How]:
    """Return steps with an exit handler that reads the end and a global output."""
    last = tell("last", "{{workflow.status}} {{workflow.outputs.parameters.g}}")
    only = tell("only", "not well", when="{{workflow.status}} != Succeeded")
    return [steps("main", [work("a", how, "global")]), steps("exit", [last, only])]


def failing_hook(how: How) -> list[How]:
    hook = {"template": "work", "arguments": parameters(code=how["code"], out=how["out"])}
    return [dag("main", tell("b", "b", hooks={"exit": hook}))]


def failing_exit_handler(how: How) -> list[How]:
    return [steps("main", [tell("b", "b")]), steps("exit", [work("a", how)])]


OUT_OF_A = "{{steps.a.outputs.parameters.o}}"
TASK_OUT = "{{tasks.a.outputs.parameters.o}}"
GLOBAL_OUT = "{{workflow.outputs.parameters.g}}"
EXIT = {"hooks": {"exit": say("exit {{tasks.a.status}}")}}
Expected = tuple[str, str]
"""The phase of the workflow, and the texts of its pods in alphabetical order."""
CONSTRUCTS: list[tuple[Callable[[How], list[How]], Expected, Expected, Expected]] = [
    # values
    (group_with(tell("b", OUT_OF_A)),
     ("Succeed", "2"), ("Succeed", OUT_OF_A), ("Succeed", OUT_OF_A)),
    (group_with(tell("b", OUT_OF_A), template="defaults"),
     ("Succeed", "2"), ("Succeed", "d"), ("Succeed", "d")),
    (group_with(tell("b", "{{steps.a.status}}")),
     ("Succeed", "Succeeded"), ("Succeed", "Failed"), ("Succeed", "Skipped")),
    (group_with(tell("b", "b"), tell("c", "c", when="{{steps.a.status}} == Failed")),
     ("Succeed", "b"), ("Succeed", "b|c"), ("Succeed", "b")),
    (nested, ("Succeed", "b 2"), ("Succeed", f"b {OUT_OF_A}"), ("Succeed", f"b {OUT_OF_A}")),
    (group_with(tell("b", f"b {GLOBAL_OUT}"), template="global"),
     ("Succeed", "b 2"), ("Succeed", f"b {GLOBAL_OUT}"), ("Succeed", f"b {GLOBAL_OUT}")),
    (group_with(tell("b", "{{steps.a.ip}}"), template="daemon"),
     ("Succeed", "flow-a-main-0.flow-a"), ("Succeed", "flow-a-main-0.flow-a"),
     ("Succeed", "")),  # skipped with the daemon: there is a warning
    (group_with(tell("b", OUT_OF_A), template="pause"),
     ("Succeed", OUT_OF_A), ("Succeed", OUT_OF_A), ("Succeed", OUT_OF_A)),
    (group_with(tell("b", f"b {OUT_OF_A}"), template="tries"),
     ("Succeed", "b 2|try 0 0"), ("Succeed", f"b {OUT_OF_A}|try 0 0|try 1 1"),
     ("Succeed", f"b {OUT_OF_A}")),
    # values that must exist: Argo ends with an error
    (group_with(tell("b", "b", when=f"{OUT_OF_A} == 2")),
     ("Succeed", "b"), ("Failed", ""), ("Failed", "")),
    (group_with(tell("b", "{{item}}", withSequence={"count": OUT_OF_A})),
     ("Succeed", "0|1"), ("Failed", ""), ("Failed", "")),
    (output_of_flow(parameter=OUT_OF_A), ("Succeed", "b 2"), ("Failed", ""), ("Failed", "")),
    (output_of_flow(parameter=OUT_OF_A, default="e"),
     ("Succeed", "b 2"), ("Succeed", "b e"), ("Succeed", "b e")),
    # child flows
    (child_flow, ("Succeed", "Succeeded 2"),
     ("Succeed", "Failed {{steps.nest.outputs.parameters.p}}"),
     ("Succeed", "Skipped {{steps.nest.outputs.parameters.p}}")),
    # groups of steps
    (lambda how: [steps("main", [work("a", how), tell("b", "b")], [tell("c", "c")])],
     ("Succeed", "b|c"), ("Failed", "b"), ("Succeed", "b|c")),
    (lambda how: [steps("main", [work("a", how, **TOLERATED), tell("b", "b")], [tell("c", "c")])],
     ("Succeed", "b|c"), ("Succeed", "b|c"), ("Succeed", "b|c")),
    # dependencies
    (tasks_with(tell("b", "b", depends="a"), tell("c", "c", depends="a.Skipped"),
                tell("d", "d", depends="a.Failed"), tell("e", "e", depends="a.Succeeded"),
                tell("f", "f", depends="a.Omitted"), tell("g", "g", depends="!a.Succeeded"),
                tell("h", "h", depends="a.AnySucceeded"), tell("i", "i", depends="!a.AllFailed")),
     ("Succeed", "b|e|i"), ("Failed", "d|g|i"), ("Succeed", "b|c|g|i")),
    (tasks_with(tell("b", "b", depends="a.Failed"), tell("c", "c", depends="b"),
                tell("d", "d", depends="b.Omitted"), tell("e", "e", depends="b || b.Omitted")),
     ("Succeed", "d|e"), ("Succeed", "b|c|e"), ("Succeed", "d|e")),
    (tasks_with(tell("b", "b", depends="a"), tell("c", "c", depends="b || b.Omitted")),
     ("Succeed", "b|c"), ("Succeed", "c"), ("Succeed", "b|c")),
    (tasks_with(tell("b", "b"), tell("c", "c", depends="(a && b) || b.Failed"),
                tell("d", "d", depends="a || a.Failed")),
     ("Succeed", "b|c|d"), ("Failed", "b|d"), ("Succeed", "b|c|d")),
    (tasks_with(tell("c", f"c {TASK_OUT}", depends="a"), **TOLERATED),
     ("Succeed", "c 2"), ("Succeed", f"c {TASK_OUT}"), ("Succeed", f"c {TASK_OUT}")),
    # hooks and exit handlers
    (tasks_with(tell("b", "b", depends="a || a.Failed"), **EXIT),
     ("Succeed", "b|exit Succeeded"), ("Succeed", "b|exit Failed"), ("Succeed", "b")),
    (tasks_with(tell("b", "b", depends="a", hooks={"exit": say("exit of b")})),
     ("Succeed", "b|exit of b"), ("Failed", ""), ("Succeed", "b|exit of b")),
    (tasks_with(tell("b", "b", depends="a || a.Failed"),
                hooks={"x": {"expression": "tasks.a.status == 'Failed'", **say("hook")}}),
     ("Succeed", "b"), ("Succeed", "b|hook"), ("Succeed", "b")),
    (failing_hook,
     ("Succeed", "b"), ("Succeed", "b"), ("Succeed", "b")),
    (exit_handler, ("Succeed", "Succeeded 2"),
     ("Failed", f"Failed {GLOBAL_OUT}|not well"), ("Succeed", f"Succeeded {GLOBAL_OUT}")),
    (failing_exit_handler, ("Succeed", "b"), ("Failed", "b"), ("Succeed", "b")),
]  # fmt: skip
"""A workflow with work that ends in a way, and the end that Argo's rules give it when the work
completes, fails without an output, and is skipped."""


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CONSTRUCTS)))
def test_constructs_end_as_in_argo_however_their_tasks_end(number: int) -> None:
    build, *expected = CONSTRUCTS[number]
    for how, wanted in zip(ENDS.values(), expected, strict=True):
        main, *others = build(how)
        handler = {"onExit": "exit"} if "exit" in [each["name"] for each in others] else {}
        given = parameters(go="no")
        ran = carry_out(workflow(main, *others, *LIBRARY, arguments=given, **handler))
        assert (ran.phase, "|".join(sorted(ran.told))) == wanted, ran.migrated.text.out
        warned = [text for _, text in ran.migrated.found("warning") if "ExpressionError" in text]
        assert warned or not ran.errors, ran.errors


def test_what_follows_a_skipped_task_runs() -> None:
    skipped = work("trim", ENDS["skipped"])
    sort = tell("sort", "sort", depends="align.Succeeded && (trim.Succeeded || trim.Skipped)")
    tasks = dag("main", skipped, tell("align", "align", dependencies=["trim"]), sort)
    groups = steps("main", [skipped], [tell("align", "align")], [tell("count", "count")])
    for main, expected in ((tasks, ["align", "sort"]), (groups, ["align", "count"])):
        ran = carry_out(workflow(main, *LIBRARY, arguments=parameters(go="no")))
        assert (ran.phase, ran.told) == ("Succeed", expected), ran.migrated.text.out


ITEMS = {"completed": '["0", "0"]', "one failed": '["0", "1"]', "none": "[]"}
"""Items, which are the codes that the work of a loop exits with."""
EACH = {"withParam": "{{workflow.parameters.items}}", "out": "o", "code": "{{item}}"}
ENDED = "a.AnySucceeded || a.AllFailed || a.Skipped"


def loop_of_flows(how: How) -> list[How]:
    """Return a dag that prints the outputs of a loop of child flows."""
    given, loop = parameters(code="{{item}}"), {"withParam": EACH["withParam"]}
    inner = steps("inner", [work("w", {"code": "{{inputs.parameters.code}}"})])
    out = {"parameters": [{"name": "o", "valueFrom": {"parameter": OUT_OF_A.replace("a", "w", 1)}}]}
    first = {"name": "a", "template": "inner", "arguments": given, **loop}
    after = tell("b", "b {{tasks.a.outputs.parameters}}", depends=ENDED)
    return [dag("main", first, after), inner | {"inputs": inputs("code"), "outputs": out}]


LOOPS: list[tuple[Callable[[How], list[How]], Expected, Expected, Expected]] = [
    (tasks_with(tell("b", f"b {TASK_OUT}", depends=ENDED)),
     ("Succeed", 'b ["o","o"]'), ("Succeed", 'b ["o"]'), ("Succeed", "b []")),
    (loop_of_flows, ("Succeed", 'b [{"o":"2"},{"o":"2"}]'), ("Succeed", 'b [{"o":"2"}]'),
     ("Succeed", "b []")),
    (group_with(tell("b", "b {{item}}", withParam=OUT_OF_A)),
     ("Succeed", "b o|b o"), ("Succeed", "b o"), ("Succeed", "")),
    (tasks_with(tell("b", "b", depends="a.Succeeded"), tell("c", "c", depends="a.Skipped"),
                tell("d", "d", depends="a"), tell("e", "e", depends="a.Failed")),
     ("Succeed", "b|d"), ("Failed", "e"), ("Succeed", "c|d")),
    (tasks_with(tell("b", "b", depends="a || a.Failed"), hooks={"exit": say("exit")}),
     ("Succeed", "b|exit"), ("Succeed", "b|exit"), ("Succeed", "b")),  # once: there is a warning
]  # fmt: skip
"""A workflow with a loop, and its end when all items complete, when one fails without an output,
and when there are none."""


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(LOOPS)))
def test_loops_end_as_in_argo_however_their_items_end(number: int) -> None:
    build, *expected = LOOPS[number]
    main, *others = build(EACH)
    for items, wanted in zip(ITEMS.values(), expected, strict=True):
        given = parameters(items=items)
        ran = carry_out(workflow(main, *others, *LIBRARY, arguments=given))
        assert (ran.phase, "|".join(sorted(ran.told))) == wanted, ran.migrated.text.out
        assert not ran.errors


def test_a_key_that_an_item_does_not_have_is_the_text_of_its_tag() -> None:
    maps = [{"k": "1", "j": "2"}, {"k": "3"}]
    known = tell("a", "{{item.k}} {{item.j}}", withItems=maps)
    given = tell("b", "{{item.k}} {{item.j}}", withParam="{{workflow.parameters.maps}}")
    arguments = parameters(maps=json.dumps(maps))
    ran = carry_out(workflow(steps("main", [known, given]), *LIBRARY, arguments=arguments))
    assert sorted(ran.told) == ["1 2", "1 2", "3 {{item.j}}", "3 {{item.j}}"]
    assert set(ran.migrated.step("a")["vars"]) == {"j"}


@pytest.mark.parametrize(
    ("written", "got"),
    [
        ("${{item}}", "$5"),
        ("$${{item}}", "$5"),
        ("a$$${{item}}$", "a$$5$"),
        ("$(params.x) {{item}}", "$(params.x) 5"),
    ],
)
def test_a_dollar_before_a_tag_stays_one(written: str, got: str) -> None:
    call = tell("a", written, withItems=["5"])
    assert carry_out(workflow(steps("main", [call]), *LIBRARY)).told == [got]
