"""Tasks of dag and steps templates: order, conditions, loops, failures."""

from typing import Any

import pytest

from support.argo.migrated import (
    dag,
    echo,
    inputs,
    migrate,
    parameters,
    shell,
    step,
    steps,
    workflow,
)

RESULT = "{{steps.flip.outputs.result}}"


def targets(found: dict[str, Any]) -> dict[str, Any]:
    depends: dict[str, Any] = found["dependsOn"]
    return depends


def test_a_container_is_the_only_step() -> None:
    found = migrate(workflow(echo()))
    assert found.text.err == ""
    assert found.flow == {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "flow"},
        "spec": {
            "flows": [
                {
                    "name": "echo",
                    "container": {"image": "busybox", "command": ["echo"], "args": ["hello"]},
                }
            ]
        },
    }


def test_a_group_of_steps_waits_for_the_group_before() -> None:
    found = migrate(
        workflow(steps("main", [step("A")], [step("B"), step("C")], [step("D")]), echo())
    )
    assert "dependsOn" not in found.step("a")
    assert targets(found.step("b")) == targets(found.step("c")) == {"targets": ["a"]}
    assert targets(found.step("d")) == {"targets": ["b", "c"]}


def test_dependencies_of_tasks() -> None:
    tasks = [step("a"), step("b", dependencies=["a"]), step("c", depends="a && b")]
    found = migrate(workflow(dag("main", *tasks), echo()))
    assert targets(found.step("b")) == {"targets": ["a"]}
    assert targets(found.step("c")) == {"targets": ["a", "b"]}


@pytest.mark.parametrize(
    ("depends", "expected"),
    [
        ("a.Succeeded || a.Failed", {"targets": ["a"], "condition": "Finished"}),
        ("a.Failed", {"targets": ["a"], "condition": "Failed"}),
        ("(a.Failed || a.Errored)", {"targets": ["a"], "condition": "Failed"}),
        ("a.Succeeded || a.Skipped", {"targets": ["a"]}),
        ("a && b.Failed", {"targets": ["a", "b"], "conditions": {"b": "Failed"}}),
        ("a || b", {"targets": ["a", "b"], "strategy": "any"}),
    ],
)
def test_conditions_of_targets(depends: str, expected: dict[str, Any]) -> None:
    tasks = [step("a"), step("b"), step("c", depends=depends), step("d", depends="a"), step("e")]
    tasks += [step("f", depends="b")]
    found = migrate(workflow(dag("main", *tasks), echo()))
    assert targets(found.step("c")) == expected
    assert found.spec.get("failurePolicy") == ("Continue" if "." in depends else None)


def test_a_mixed_condition_is_tested_after_all_have_finished() -> None:
    tasks = [step("a"), step("b"), step("c"), step("d", depends="(a && b) || c.Failed")]
    found = migrate(workflow(dag("main", *tasks), echo()))
    assert targets(found.step("d")) == {"targets": ["a", "b", "c"], "condition": "Finished"}
    assert found.step("d")["when"] == (
        '((steps["a"].phase == "Completed" && steps["b"].phase == "Completed")'
        ' || steps["c"].phase == "Failed")'
    )


@pytest.mark.parametrize(
    ("depends", "when"),
    [
        ("!a.Succeeded", '!(steps["a"].phase == "Completed")'),
        ("a.AnySucceeded", "false"),
        ("a.Skipped", "false"),
        ("c.Skipped", 'steps["c"].reason == "NotTaken"'),
        ("c.Failed", 'steps["c"].phase == "Failed"'),
        (
            "l.AnySucceeded || l.Skipped",
            '(steps["l"].items.exists(i, i.phase == "Completed") || size(steps["l"].items) == 0)',
        ),
    ],
)
def test_ends_that_dependencies_cannot_name_are_tested(depends: str, when: str) -> None:
    tasks = [step("a"), step("c", when="1 == 2"), step("l", withParam="[]")]
    found = migrate(workflow(dag("main", *tasks, step("d", depends=depends)), echo()))
    assert found.step("d")["when"] == when


def test_a_failure_is_forgiven_if_the_end_of_each_branch_runs_in_spite_of_it() -> None:
    tasks = [step("a"), step("b", depends="a.Failed"), step("c", depends="a || b")]
    found = migrate(workflow(dag("main", *tasks), echo()))
    assert found.step("a")["continueOnFailure"] is True
    assert "continueOnFailure" not in found.step("b")


def test_a_failure_is_not_forgiven_if_a_branch_ends_with_it() -> None:
    tasks = [step("a"), step("b", depends="a.Failed"), step("c", depends="a")]
    found = migrate(workflow(dag("main", *tasks), echo()))
    assert "continueOnFailure" not in found.step("a")


def test_a_step_after_skipped_ones_runs_as_in_argo() -> None:
    first = step("a", when="{{workflow.parameters.go}} == yes")
    main = steps("main", [first], [step("b")], [step("c", when="1 == 2")], [step("d")])
    found = migrate(workflow(main, echo(), arguments=parameters(go="yes")))
    assert [each["name"] for each in found.spec["flows"]] == ["a", "b", "c", "d"]
    assert targets(found.step("b")) == {"targets": ["a"], "condition": "NotFailed"}
    assert targets(found.step("d")) == {"targets": ["c"], "condition": "NotFailed"}
    assert found.step("a")["when"] == 'string(params.go) == "yes"'


@pytest.mark.parametrize(
    ("depends", "condition", "when"),
    [
        ("a", "NotFailed", None),
        ("a.Succeeded || a.Skipped", "NotFailed", None),
        ("a || a.Failed", "Always", None),
        ("a.Succeeded", None, 'steps["a"].phase == "Completed"'),
        ("a.Skipped", "Always", 'steps["a"].reason == "NotTaken"'),
        (
            "a.Succeeded || a.Omitted",
            "Always",
            '((steps["a"].phase == "Skipped" && steps["a"].reason != "NotTaken")'
            ' || steps["a"].phase == "Completed")',
        ),
        (
            "a.Omitted",
            "Always",
            '(steps["a"].phase == "Skipped" && steps["a"].reason != "NotTaken")',
        ),
    ],
)
def test_a_task_behind_one_that_may_be_skipped(
    depends: str, condition: str | None, when: str | None
) -> None:
    tasks = [step("a", when="1 == 2"), step("b", depends=depends)]
    found = migrate(workflow(dag("main", *tasks), echo())).step("b")
    assert (found["dependsOn"].get("condition"), found.get("when")) == (condition, when)


def test_a_task_behind_a_daemon_that_may_be_skipped_does_not_wait_for_its_end() -> None:
    daemon = {"name": "serve", "daemon": True, "container": {"image": "busybox"}}
    tasks = [step("a", "serve", when="1 == 2"), step("b", dependencies=["a"])]
    found = migrate(workflow(dag("main", *tasks), echo(), daemon))
    assert targets(found.step("b")) == {"targets": ["a"]}
    assert (
        "spec.templates[0].dag.tasks[1]",
        "it is skipped if the daemon a is; in Argo it runs",
    ) in found.found("warning")


def test_continue_on() -> None:
    main = steps(
        "main", [step("a", continueOn={"failed": True}), step("b", continueOn={"error": True})]
    )
    found = migrate(workflow(main, echo()))
    assert found.step("a")["continueOnFailure"] is True
    path = "spec.templates[0].steps[0][1].continueOn"
    assert [at for at, _ in found.found("warning")] == [path, path]
    assert "Argo tolerates it" in found.found("warning")[1][1]


def test_fail_fast_and_target() -> None:
    tasks = [step("a"), step("b", depends="a"), step("c")]
    found = migrate(workflow(dag("main", *tasks, failFast=False, target="b"), echo()))
    assert (found.spec["failurePolicy"], found.spec["targets"]) == ("Continue", ["b"])


def test_a_nested_dag_has_only_the_tasks_that_its_targets_need() -> None:
    inner = dag("inner", step("a"), step("b", depends="a"), step("c"), target="b")
    found = migrate(workflow(steps("main", [step("x", "inner")]), inner, echo()))
    assert [each["name"] for each in found.step("x")["flow"]["flows"]] == ["a", "b"]


LOOPS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"withItems": ["a", 1]}, {"items": ["a", 1]}),
    ({"withItems": [{"k": "v"}]}, {"items": [{"k": "v"}]}),
    ({"withParam": "[1, 2]"}, {"items": [1, 2]}),
    ({"withParam": "{{workflow.parameters.list}}"}, {"from": "params.list"}),
    ({"withSequence": {"count": "3"}}, {"count": 3}),
    ({"withSequence": {"count": "3", "start": 5}}, {"from": "range(3).map(i, 5 + i)"}),
    ({"withSequence": {"start": "5", "end": "3"}}, {"from": "range(3).map(i, 5 - i)"}),
    (
        {"withSequence": {"count": "{{workflow.parameters.num}}"}},
        {"from": "range(int(params.num))"},
    ),
    (
        {"withSequence": {"count": "2", "format": "t%02X"}},
        {"from": 'range(2).map(i, (i < 16 ? "t0%X" : "t%X").format([i]))'},
    ),
]


@pytest.mark.parametrize(("loop", "expected"), LOOPS)
def test_loops(loop: dict[str, Any], expected: dict[str, Any]) -> None:
    call = step("a", arguments=parameters(message="{{item}}"), **loop)
    params = parameters(list='["x", "y"]', num="4")
    found = migrate(
        workflow(steps("main", [call]), echo(inputs=inputs("message")), arguments=params)
    )
    assert found.step("a")["forEach"] == expected
    assert found.step("a")["container"]["args"] == ["$(item)"]


def test_a_loop_over_the_result_of_a_step() -> None:
    main = steps(
        "main",
        [step("make", "script")],
        [
            step(
                "use",
                withParam="{{steps.make.outputs.result}}",
                arguments=parameters(message="{{item.k}}"),
            )
        ],
    )
    script = shell("script", "cat list")
    found = migrate(workflow(main, script, echo(inputs=inputs("message"))))
    assert found.step("use")["forEach"] == {"from": 'steps["make"].outputs.items'}
    assert found.step("use")["container"]["args"] == ["$(vars.k)"]
    assert found.step("use")["vars"] == {"k": 'get(item, "k", "{{item.k}}")'}


def test_a_condition_on_the_item_is_decided_for_each() -> None:
    call = step("a", withItems=[{"k": 1}, {"k": 2}], when="{{item.k}} > 1")
    found = migrate(workflow(steps("main", [call]), echo()))
    assert found.step("a")["forEach"] == {"items": [{"k": 1}, {"k": 2}], "when": "item.k > 1"}


def test_results_of_a_loop_are_a_list() -> None:
    first = step("a", "script", withItems=[1, 2])
    last = step("b", arguments=parameters(message="{{steps.a.outputs.result}}"))
    found = migrate(
        workflow(steps("main", [first], [last]), shell("script"), echo(inputs=inputs("message")))
    )
    assert found.step("b")["vars"] == {
        "results": 'steps["a"].items.filter(i, i.phase == "Completed")'
        '.map(i, get(i.outputs, "text", ""))'
    }
    assert found.step("b")["container"]["args"] == ["$(vars.results)"]


def test_a_nested_template_is_a_child_flow_with_params() -> None:
    inner = steps(
        "inner",
        [
            step(
                "x",
                arguments=parameters(message="{{inputs.parameters.who}} {{workflow.parameters.w}}"),
            )
        ],
        inputs=inputs("who"),
    )
    main = steps(
        "main",
        [step("a", "script")],
        [step("b", "inner", arguments=parameters(who="{{steps.a.outputs.result}}"))],
    )
    found = migrate(
        workflow(
            main,
            inner,
            shell("script"),
            echo(inputs=inputs("message")),
            arguments=parameters(w="1"),
        )
    )
    assert found.step("b")["flow"]["params"] == {
        "who": "$(steps.a.outputs.text)",
        "w": "$(params.w)",
    }
    [inside] = found.step("b")["flow"]["flows"]
    assert inside["container"]["args"] == ["$(params.who) $(params.w)"]


def test_outputs_of_a_nested_template() -> None:
    out = {
        "parameters": [{"name": "out", "valueFrom": {"parameter": "{{steps.x.outputs.result}}"}}]
    }
    inner = steps("inner", [step("x", "script")], outputs=out)
    last = step("b", arguments=parameters(message="{{steps.a.outputs.parameters.out}}"))
    main = steps("main", [step("a", "inner")], [last])
    found = migrate(workflow(main, inner, shell("script"), echo(inputs=inputs("message"))))
    assert found.step("a")["flow"]["outputs"] == {"out": 'steps["x"].outputs.text'}
    assert found.step("b")["container"]["args"] == ["$(steps.a.outputs.out)"]


def test_a_template_that_calls_itself_at_its_end_is_repeated() -> None:
    again = step(
        "again",
        "count",
        arguments=parameters(num="{{steps.next.outputs.result}}"),
        when="{{steps.next.outputs.result}} < 5",
    )
    call = step("next", "script", arguments=parameters(num="{{inputs.parameters.num}}"))
    count = steps("count", [call], [again], inputs=inputs("num"))
    script = shell("script", "expr {{inputs.parameters.num}} + 1", inputs=inputs("num"))
    main = steps("main", [step("loop", "count", arguments=parameters(num="0"))])
    found = migrate(workflow(main, count, script))
    loop = found.step("loop")
    assert loop["repeat"] == {"until": "!outputs.again", "max": 100}
    assert loop["vars"] == {"num": 'has(last.outputs) ? last.outputs.next_num : "0"'}
    assert loop["flow"]["params"] == {"num": "$(vars.num)"}
    assert loop["flow"]["outputs"] == {
        "again": 'double(steps["next"].outputs.text) < 5',
        "next_num": 'steps["next"].outputs.text',
    }


def test_a_template_that_calls_itself_in_the_middle_is_named() -> None:
    tree = steps("tree", [step("left", "tree"), step("right", "tree")])
    found = migrate(workflow(steps("main", [step("a", "tree")]), tree))
    assert {path for path, _ in found.found()} >= {"spec.templates[1]"}


def test_hooks_at_the_end_of_a_step() -> None:
    first = step(
        "a",
        hooks={
            "exit": {"template": "echo"},
            "odd": {"template": "echo", "expression": 'steps["a"].status == "Failed"'},
        },
    )
    found = migrate(workflow(steps("main", [first], [step("b", onExit="echo")]), echo()))
    assert targets(found.step("a-exit")) == {"targets": ["a"], "condition": "Finished"}
    assert found.step("a-odd")["when"] == 'steps["a"].phase == "Failed"'
    assert targets(found.step("b-exit")) == {"targets": ["b"], "condition": "Finished"}
    assert found.step("b-exit")["when"] == 'steps["b"].phase != "Skipped"'
    assert found.step("b-exit")["continueOnFailure"] is True


def test_a_hook_of_a_loop_runs_once_with_a_warning() -> None:
    main = steps("main", [step("a", withItems=[1, 2], onExit="echo")])
    assert migrate(workflow(main, echo())).found("warning") == [
        (
            "spec.templates[0].steps[0][0].onExit",
            "runs once, after all items; in Argo it runs after each",
        )
    ]


def test_a_hook_beside_a_running_step_is_named() -> None:
    hook = {"template": "echo", "expression": 'steps["a"].status == "Running"'}
    found = migrate(workflow(steps("main", [step("a", hooks={"running": hook})]), echo()))
    [(path, _)] = found.found()
    assert path == "spec.templates[0].steps[0][0].hooks.running.expression"


def test_names_that_become_the_same_differ() -> None:
    found = migrate(workflow(dag("main", step("A"), step("a", depends="A")), echo()))
    assert [each["name"] for each in found.spec["flows"]] == ["a", "a-2"]
    assert targets(found.step("a-2")) == {"targets": ["a"]}


def test_a_missing_task_and_a_missing_template_are_named() -> None:
    found = migrate(workflow(dag("main", step("a", depends="b"), step("c", "none")), echo()))
    assert [path for path, _ in found.found()] == [
        "spec.templates[0].dag.tasks[0]",
        "spec.templates[0].dag.tasks[1].template",
    ]


def test_two_tasks_with_one_name_are_named() -> None:
    found = migrate(workflow(steps("main", [step("a")], [step("a")]), echo()))
    assert found.found()[0][0] == "spec.templates[0].steps[1][0]"


def test_a_flow_that_fails_by_one_item_is_a_warning() -> None:
    first = step("a", withItems=[1, 2])
    found = migrate(workflow(dag("main", first, step("b", depends="a.AnySucceeded")), echo()))
    assert found.found("warning") == [
        (
            "spec.templates[0].dag.tasks[1].depends",
            "the flow fails if an item of a fails; in Argo only if all do",
        )
    ]
