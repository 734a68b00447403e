"""Admission of expressions: faults, their places and messages."""

from typing import Any

import pytest

from jobflow.core.admission.analysis.flow_expressions import MAX_CHARACTERS
from support.admission.reviewed import (
    AFTER_A,
    faults,
    faults_of_step,
    flow_of,
    knowing,
    template_of,
)


@pytest.mark.parametrize(
    "text",
    [
        'steps.a.phase == "Completed"',
        'steps["a"].reason == "" || steps["a"].attempts > 1',
        "steps.a.outputs.acc > 0.9",
        "has(steps.a.outputs.acc) && steps.a.outputs.acc > 0.9",
        "steps.a.outputs.list.map(x, x.y).max() > 3",
        'steps.a.tasks["worker"].Succeeded == 3',
        "steps.a.tasks.all(t, steps.a.tasks[t].Failed == 0)",
        "steps.a == steps.a",
        'params.workers > 2 && params.mode == "fast"',
        "params.map.x.y == 1",
        "params.rates[0] == 0.1",
        "size(params) == 6",
        'flow.name == "f" && flow.namespace.startsWith("t")',
        "type(params.workers) == int",
        "params.on",
        "10 / (steps.a.attempts - 1) > 1",
        "steps.a.attempts == 1 ? true : 3 > 4",
    ],
)
def test_a_valid_condition_is_admitted(text: str) -> None:
    assert faults_of_step(when=text) == []


NOT_CEL = "is not a CEL expression"
NO_ORDER = "> does not take a text and a whole number"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        # names
        ("params.wokers > 2",
         'character 1: there is no parameter "wokers"; did you mean "workers"?'),
        ("has(params.x)", 'character 5: there is no parameter "x"'),
        ("workers > 2", "character 1: there is no variable workers; write params.workers"),
        ("true && a.phase == ''", 'character 9: there is no variable a; write steps["a"]'),
        ("parms.x", 'character 1: there is no variable parms; did you mean "params"?'),
        ("foo == 1", "character 1: there is no variable foo; there are params, flow, steps"),
        ("flow.nam == ''", 'character 1: a flow has no "nam"; did you mean "name"?'),
        ("flow.uid == ''", 'character 1: a flow has no "uid"; it has name, namespace'),
        ("flow[params.mode] == ''",
         "character 1: write which field of a flow is meant: name, namespace"),
        ("size(flow.failures) > 0",
         "character 6: only steps of finally and outputs of the flow have flow.failures"),
        ("flow.phase == 'Failed'",
         "character 1: only steps of finally and outputs of the flow have flow.phase"),
        ("sze(params.rates) > 1", 'character 1: there is no function sze; did you mean "size"?'),
        ("params.rates.length() > 1",
         'character 14: there is no function length; did you mean "size"?'),
        # places
        ("item.x == 1",
         "character 1: only the patch, vars, compute, fail, forEach.when and the retry.when of a "
         "step with forEach have an item"),
        ("index == 1",
         "character 1: only the patch, vars, compute, fail, forEach.when, retry.when and "
         "repeat.until of a step with forEach or repeat have an index"),
        ("outputs.x == 1",
         "character 1: only repeat.until and retry.when have outputs, of the run that has "
         'ended; for another step write steps["NAME"].outputs'),
        # steps
        ("steps.x.phase == ''", 'character 1: no such step as "x"'),
        ("steps.A.phase == ''", 'character 1: no such step as "A"; did you mean "a"?'),
        ("steps.d.phase == ''",
         'character 1: step "b" does not depend on "d"; add it to dependsOn.targets'),
        ("steps.c.phase == ''",
         'character 1: step "b" does not depend on "c"; add it to dependsOn.targets'),
        ("steps.b.phase == ''",
         "character 1: a step cannot use its own result; repeat.until and retry.when have "
         "outputs, phase and reason of the run that has just ended, and retry.when has its "
         "failure"),
        ("failure.exitCode == 1",
         "character 1: only vars, retry.when and retry.patch have failure, of the last attempt; "
         'for another step write steps["NAME"].failure'),
        ("attempt > 1",
         "character 1: only the patch, vars and the retry.when have the numbers of an attempt; for "
         'another step write steps["NAME"].attempts'),
        ("steps.a.failure.code == 1",
         'character 1: a failure has no "code"; did you mean "node"?'),
        ("steps.a.failure.step == 'x'",
         'character 1: only the failure of a step that runs a flow has "step"'),
        ("steps.z.phase == ''", ('character 1: "z" is a step of finally, whose result '
                                "no step of flows can use")),
        ("steps.a-b.phase == ''",
         'character 1: write steps["a-b"], because a name with - or . needs quotes'),
        ("1 > 2 || steps.e.f.phase == ''",
         'character 10: write steps["e.f"], because a name with - or . needs quotes'),
        ("steps.2a.phase == ''", f"character 6: {NOT_CEL}: unexpected '.2'; write steps[\"2a\"]"),
        ("steps[params.mode].phase == ''",
         'character 1: write the name of the step, as in steps["NAME"].phase'),
        ("size(steps) > 1", 'character 6: write the name of the step, as in steps["NAME"].phase'),
        ("steps.a.output.x == 1", 'character 1: a step has no "output"; did you mean "outputs"?'),
        ("steps.a[params.mode] == ''",
         "character 1: write which field of a step is meant: phase, reason, job, attempts, "
         "failure, outputs, tasks"),
        ("steps.a.items[0].phase == ''", 'character 1: "a" has no forEach, and so no items'),
        ('steps.a.tasks["w"].succeeded == 1',
         'character 1: a task has no "succeeded"; did you mean "Succeeded"?'),
        # values
        ("steps.a.phase", "gives a text, not true or false"),
        ("params.workers", "gives a whole number, not true or false"),
        ("params.rates", "gives a list, not true or false"),
        ("params.map.x", "gives a map, not true or false"),
        ("null", "gives null, not true or false"),
        ("params.mode > 3", NO_ORDER),
        ("steps.a.phase > 3", NO_ORDER),
        ("1 / 0 > 1", "division by zero"),
        ("params.workers.startsWith('a')", "startsWith does not take a whole number and a text"),
        # texts
        ("params.on = true", f"character 11: {NOT_CEL}: unexpected '='; write == for ="),
        ("params.on AND true", f"character 11: {NOT_CEL}: unexpected 'AND'; write && for AND"),
        ("params.n === 1", f"character 12: {NOT_CEL}: unexpected '='; write == for ==="),
        ("params.n <> 1", "character 11: is not a CEL expression: unexpected '>'; write != for <>"),
        ("not params.on", f"character 5: {NOT_CEL}: unexpected 'params'; write ! for not"),
        ("params.n is null", f"character 10: {NOT_CEL}: unexpected 'is'; write == for is"),
        ("if params.on then true",
         "character 1: is not a CEL expression: if is a reserved word; write condition ? one : "
         "other"),
        ("'abc", "character 1: is not a CEL expression: unexpected '''; close the quote"),
        ("{{inputs.parameters.n}} > 1",
         "character 22: is not a CEL expression: unexpected '}'; write params.x and "
         'steps["x"].outputs.y without {{…}}'),
        ("params.on == True", "character 14: there is no variable True; write true"),
        ("params.on == None", "character 14: there is no variable None; write null"),
        ("steps.a.reason.matches('*')",
         "character 16: the pattern of matches is not a regular expression"),
        ("params.on and true", f"character 11: {NOT_CEL}: unexpected 'and'; write && for and"),
        ("$(params.on)",
         "character 1: is not a CEL expression: unexpected '$'; references $(…) are for "
         "patches, in an expression write params.x"),
        (" ", "is empty"),
    ],
)  # fmt: skip
def test_an_invalid_condition_is_refused(text: str, detail: str) -> None:
    (found,) = faults_of_step(when=text)
    assert found.startswith("when: Invalid value: ")
    assert found.endswith(f": {detail}")


def test_every_fault_of_an_expression_is_reported() -> None:
    found = faults_of_step(when="params.x > params.y && fo(foo) == 1")
    assert [each.partition('foo) == 1": ')[2].partition(":")[0] for each in found] == [
        "character 24",
        "character 1",
        "character 12",
        "character 27",
    ]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ({"switch": [{"when": "params.x"}, {"when": "steps.a.phase"}, {}]}, [
            'switch[0].when: Invalid value: "params.x": character 1: there is no parameter "x"',
            'switch[1].when: Invalid value: "steps.a.phase": gives a text, not true or false',
        ]),
        ({"forEach": {"from": "params.rates"}}, []),
        ({"forEach": {"from": "params.rates.map(x, {'lr': x})"}}, []),
        ({"forEach": {"from": "steps.a.outputs.files"}}, []),
        ({"forEach": {"from": "params.workers"}},
         ['forEach.from: Invalid value: "params.workers": gives a whole number, not a list']),
        ({"forEach": {"from": "params.many"}}, [
            'forEach.from: Invalid value: "params.many": gives 1,001 items; at most 1,000 are '
            "allowed",
        ]),
        ({"forEach": {"from": "[item]"}}, [
            ('forEach.from: Invalid value: "[item]": character 2: only the patch, vars, compute, '
            "fail, forEach.when and the retry.when of a step with forEach have an item"),
        ]),
        ({"repeat": {"max": 3, "until": "outputs.acc > 0.9 || index == 2 || phase == ''"}}, []),
        ({"repeat": {"max": 3, "until": "outputs"}},
         ['repeat.until: Invalid value: "outputs": gives a map, not true or false']),
        ({"repeat": {"max": 3, "until": "index"}},
         ['repeat.until: Invalid value: "index": gives a whole number, not true or false']),
        ({"retry": {"limit": 3, "when": "reason == 'JobFailed' && phase == 'Failed'"}}, []),
        ({"retry": {"limit": 3, "when": "steps.a.outputs.x == outputs.y"}}, []),
        ({"retry": {"limit": 3, "when": "index == 0"}}, [
            ('retry.when: Invalid value: "index == 0": character 1: only the patch, vars, compute, '
            "fail, forEach.when, retry.when and repeat.until of a step with forEach or repeat have "
            "an index"),
        ]),
        ({"retry": {"limit": 3, "when": "item.x > index"}, "forEach": {"items": [{"x": 1}]}}, []),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"items": ["a", "b"]}},
         [f'retry.when: Invalid value: "item > 3": {NO_ORDER}']),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"items": ["a", 4]}}, []),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"from": "params.rates"}}, []),
    ],
)  # fmt: skip
def test_expressions_of_other_fields_are_checked(step: dict[str, Any], found: list[str]) -> None:
    assert faults_of_step(**step) == found


def test_expressions_are_checked_despite_a_param_without_a_value() -> None:
    def reported(text: str) -> list[str]:
        params = [{"name": "open", "enum": [1, 2]}, {"name": "n", "value": 4}]
        flow = flow_of({"name": "a", "when": text}, params=params)
        return [each for each in faults(flow) if each.startswith("spec.flows")]

    assert reported("params.n") == [
        'spec.flows[0].when: Invalid value: "params.n": gives a whole number, not true or false'
    ]
    assert reported("params.open") == reported("params.open + params.n") == []


def test_expressions_may_use_items_of_an_upstream_step() -> None:
    def reported(text: str) -> list[str]:
        step = {"name": "b", "dependsOn": {"targets": ["a"]}, "when": text}
        found = faults(flow_of({"name": "a", "forEach": {"count": 3}}, step))
        return [each.partition('": ')[2] for each in found]

    assert reported('steps.a.items.all(i, i.phase == "Completed")') == []
    assert reported("steps.a.items[2].outputs.acc > 0.9") == []
    assert reported("steps.a.items.map(i, i.outputs.acc).max() > 0.9") == []
    assert reported("steps.a.items[0].output.acc > 0.9") == [
        'character 1: an item has no "output"; did you mean "outputs"?'
    ]
    assert reported("steps.a.outputs.acc > 0.9") == [
        'character 1: "a" has forEach: each of its items has outputs, as in '
        'steps["a"].items[0].outputs'
    ]


def test_tasks_of_a_known_template_are_checked() -> None:
    def reported(task: str, **patch: Any) -> list[str]:
        step = AFTER_A | {"when": f'steps.a.tasks["{task}"].Failed == 0'}
        known = knowing(template_of("a", "ps", "worker"))
        found = faults(flow_of({"name": "a", "patch": {"spec": patch}}, step), known)
        return [each.partition('0": ')[2] for each in found]

    assert reported("worker") == []
    assert reported("wroker") == [
        'character 1: the job of "a" has no task "wroker"; did you mean "worker"?'
    ]
    assert reported("x") == ['character 1: the job of "a" has no task "x"; it has ps and worker']
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    assert reported("x", tasks=[{"name": "x", "template": pod}]) == []


def test_steps_of_finally_may_use_every_step_and_the_phase_of_the_flow() -> None:
    def reported(text: str) -> list[str]:
        last = {"finally": [{"name": "y"}, {"name": "z", "when": text}]}
        return faults(flow_of("a", "b: a", **last))

    assert reported('steps.a.phase == "Failed" || steps.b.outputs.x == 1') == []
    assert reported('flow.phase == "Failed"') == []
    assert reported("flow.failures.exists(f, f.failure.exitCode == 3)") == []
    assert reported("flow.failures[0].failure.reason == 'Error'") == []
    (fault,) = reported("flow.failures[0].failure.cause == 'Error'")
    assert 'a failure has no "cause"' in fault
    (fault,) = reported("flow.failures[0].name == 'a'")
    assert 'a failure of a step has no "name"' in fault
    (found,) = reported('steps.y.phase == ""')
    assert found.startswith("spec.finally[1].when: ")
    assert found.endswith('step "z" does not depend on "y"; add it to dependsOn.targets')
    upstream = {"name": "z", "dependsOn": {"targets": ["y"]}, "when": 'steps.y.phase == "Failed"'}
    assert faults(flow_of("a", **{"finally": [{"name": "x"}, {"name": "y"}, upstream]})) == []


def test_an_indirect_target_is_upstream() -> None:
    chain = [f"s{i}: s{i - 1}" for i in range(1, 30)]
    flow = flow_of(
        "s0",
        *chain,
        {**AFTER_A, "dependsOn": {"targets": ["s29"]}, "when": "steps.s0.phase == ''"},
    )
    assert faults(flow) == []  # fmt: skip


def test_steps_in_a_cycle_have_no_other_fault() -> None:
    first = {"name": "a", "dependsOn": {"targets": ["b"]}, "when": "steps.c.phase == ''"}
    (found,) = faults(flow_of(first, "b: c", "c: a"))
    assert "these steps wait for each other" in found


def test_expressions_of_too_many_characters_are_not_parsed() -> None:
    text = "params.x || " * 80 + "true"
    steps = [{"name": f"s{i}", "when": text} for i in range(MAX_CHARACTERS // len(text) + 1)]
    (found,) = faults(flow_of(*steps))
    assert found.startswith("spec: Too long: its expressions have 26")
    assert found.endswith("at most 262,144 are allowed")


def test_the_failure_of_a_step_that_may_run_a_flow_names_the_failed_step() -> None:
    def reported(text: str, **work: Any) -> list[str]:
        return faults(flow_of({"name": "a", **work}, AFTER_A | {"when": text}))

    inner = {"flow": {"flows": [{"name": "x", "template": "a"}]}}
    cases = [{"when": "true", **inner}, {"template": "a"}]
    assert reported('steps.a.failure.step == "x"', **inner) == []
    assert reported('steps.a.failure.step == "x"', switch=cases) == []
    (fault,) = reported("steps.a.failure.step > 3", **inner)
    assert fault.endswith("> does not take a text and a whole number")
