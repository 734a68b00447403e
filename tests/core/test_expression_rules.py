"""Expressions and references at admission: what is refused, where, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.jobflow import DependsOn, Step
from jobflow.core.expression_rules import MAX_CHARACTERS
from jobflow.core.graph import Graph
from jobflow.core.upstream import Upstream
from reviewed import faults, flow_of, knowing, template_of

PARAMS: list[dict[str, Any]] = [
    {"name": "workers", "value": 4},
    {"name": "mode", "value": "fast"},
    {"name": "on", "value": True},
    {"name": "rates", "value": [0.1, 0.2]},
    {"name": "many", "value": [0] * 1001},
    {"name": "map", "value": {"x": {"y": 1}}},
]
AFTER_A: dict[str, Any] = {"name": "b", "dependsOn": {"targets": ["a"]}}


def said_of(**step: Any) -> list[str]:
    """What is said of step b, behind a; c is behind b, d beside them, z the last."""
    others: list[Any] = ["a", "c: b", "d", "a-b", "e.f", "2a"]
    flow = flow_of(
        others[0],
        AFTER_A | step,
        *others[1:],
        {"name": "all", "forEach": {"count": 2}},
        params=PARAMS,
        **{"finally": [{"name": "z"}]},
    )
    return [fault.removeprefix("spec.flows[1].") for fault in faults(flow)]


def said_of_when(text: str, **step: Any) -> str:
    """The detail of what is wrong with b's `when`; empty where it is right."""
    found = said_of(when=text, **step)
    assert len(found) <= 1, found
    return found[0].split(": ", 3)[-1] if found and found[0].count(": ") > 2 else "".join(found)


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
def test_a_condition_that_is_admitted(text: str) -> None:
    assert said_of(when=text) == []


NO_OVERLOAD = "an operator or function does not take what it is given, such as a text and a number"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        # names
        (
            "params.wokers > 2",
            'character 1: there is no parameter "wokers"; did you mean "workers"?',
        ),
        ("has(params.x)", 'character 5: there is no parameter "x"'),
        ("workers > 2", "character 1: there is no variable workers; write params.workers"),
        ("true && a.phase == ''", 'character 9: there is no variable a; write steps["a"]'),
        ("parms.x", 'character 1: there is no variable parms; did you mean "params"?'),
        ("foo == 1", "character 1: there is no variable foo; there are params, flow, steps"),
        ("flow.nam == ''", 'character 1: a flow has no "nam"; did you mean "name"?'),
        ("flow.uid == ''", 'character 1: a flow has no "uid"; it has name, namespace'),
        (
            "flow[params.mode] == ''",
            "character 1: what is taken of a flow has to be written out: name, namespace",
        ),
        (
            "flow.phase == 'Failed'",
            "character 1: flow.phase is to be seen in the steps of finally only",
        ),
        ("sze(params.rates) > 1", 'character 1: there is no function sze; did you mean "size"?'),
        (
            "params.rates.length() > 1",
            'character 14: there is no function length; did you mean "size"?',
        ),
        # places
        (
            "item.x == 1",
            "character 1: there is an item only in the patch and the retry.when of a step with "
            "forEach",
        ),
        (
            "index == 1",
            "character 1: there is an index only in the patch, the retry.when and the "
            "repeat.until of a step with forEach or repeat",
        ),
        (
            "outputs.x == 1",
            "character 1: outputs is that of a run that has ended, in repeat.until and "
            'retry.when; of another step write steps["NAME"].outputs',
        ),
        # steps
        ("steps.x.phase == ''", 'character 1: no such step as "x"'),
        ("steps.A.phase == ''", 'character 1: no such step as "A"; did you mean "a"?'),
        (
            "steps.d.phase == ''",
            'character 1: step "b" does not depend on "d"; add it to dependsOn.targets',
        ),
        (
            "steps.c.phase == ''",
            'character 1: step "b" does not depend on "c"; add it to dependsOn.targets',
        ),
        (
            "steps.b.phase == ''",
            "character 1: a step does not see itself; of a run that has just ended, "
            "repeat.until and retry.when see outputs, phase and reason",
        ),
        ("steps.z.phase == ''", 'character 1: "z" is a step of finally, which no other step sees'),
        (
            "steps.a-b.phase == ''",
            'character 1: write steps["a-b"], for a name with - or . needs quotes',
        ),
        (
            "1 > 2 || steps.e.f.phase == ''",
            'character 10: write steps["e.f"], for a name with - or . needs quotes',
        ),
        (
            "steps.2a.phase == ''",
            "character 6: is no CEL expression: unexpected '.2'; write steps[\"2a\"]",
        ),
        (
            "steps[params.mode].phase == ''",
            'character 1: the step has to be written out, as in steps["NAME"].phase',
        ),
        (
            "size(steps) > 1",
            'character 6: the step has to be written out, as in steps["NAME"].phase',
        ),
        ("steps.a.output.x == 1", 'character 1: a step has no "output"; did you mean "outputs"?'),
        (
            "steps.a[params.mode] == ''",
            "character 1: what is taken of a step has to be written out: phase, reason, "
            "attempts, outputs, tasks",
        ),
        ("steps.a.items[0].phase == ''", 'character 1: "a" has no forEach, and so no items'),
        (
            'steps.a.tasks["w"].succeeded == 1',
            'character 1: a task has no "succeeded"; did you mean "Succeeded"?',
        ),
        # values
        ("steps.a.phase", "gives a text, not true or false"),
        ("params.workers", "gives a number, not true or false"),
        ("params.rates", "gives a list, not true or false"),
        ("params.map.x", "gives a map, not true or false"),
        ("null", "gives null, not true or false"),
        ("params.mode > 3", NO_OVERLOAD),
        ("steps.a.phase > 3", NO_OVERLOAD),
        ("1 / 0 > 1", "division by zero in CEL expression"),
        ("params.workers.startsWith('a')", "startsWith does not take what it is given"),
        # texts
        (
            "params.on = true",
            "character 11: is no CEL expression: unexpected '= '; write == for =",
        ),
        (
            "params.on and true",
            "character 11: is no CEL expression: unexpected 'and'; write && for and",
        ),
        (
            "$(params.on)",
            "character 1: is no CEL expression: unexpected '$'; references $(…) stand in patches, "
            "an expression writes params.x",
        ),
        (" ", "is empty"),
    ],
)  # fmt: skip
def test_a_condition_that_is_refused(text: str, detail: str) -> None:
    (found,) = said_of(when=text)
    assert found.startswith("when: Invalid value: ")
    assert found.endswith(f": {detail}")


def test_every_fault_of_an_expression_is_told() -> None:
    found = said_of(when="params.x > params.y && fo(foo) == 1")
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
        ({"forEach": {"from": "params.workers"}}, [
            'forEach.from: Invalid value: "params.workers": gives a number, not a list',
        ]),
        ({"forEach": {"from": "params.many"}}, [
            'forEach.from: Invalid value: "params.many": gives 1,001 items; at most 1,000 are '
            "allowed",
        ]),
        ({"forEach": {"from": "[item]"}}, [
            'forEach.from: Invalid value: "[item]": character 2: there is an item only in the '
            "patch and the retry.when of a step with forEach",
        ]),
        ({"repeat": {"max": 3, "until": "outputs.acc > 0.9 || index == 2 || phase == ''"}}, []),
        ({"repeat": {"max": 3, "until": "outputs"}}, [
            'repeat.until: Invalid value: "outputs": gives a map, not true or false',
        ]),
        ({"repeat": {"max": 3, "until": "index"}}, [
            'repeat.until: Invalid value: "index": gives a number, not true or false',
        ]),
        ({"retry": {"limit": 3, "when": "reason == 'JobFailed' && phase == 'Failed'"}}, []),
        ({"retry": {"limit": 3, "when": "steps.a.outputs.x == outputs.y"}}, []),
        ({"retry": {"limit": 3, "when": "index == 0"}}, [
            'retry.when: Invalid value: "index == 0": character 1: there is an index only in the '
            "patch, the retry.when and the repeat.until of a step with forEach or repeat",
        ]),
        ({"retry": {"limit": 3, "when": "item.x > index"}, "forEach": {"items": [{"x": 1}]}}, []),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"items": ["a", "b"]}}, [
            f'retry.when: Invalid value: "item > 3": {NO_OVERLOAD}',
        ]),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"items": ["a", 4]}}, []),
        ({"retry": {"limit": 3, "when": "item > 3"}, "forEach": {"from": "params.rates"}}, []),
    ],
)  # fmt: skip
def test_other_fields(step: dict[str, Any], found: list[str]) -> None:
    assert said_of(**step) == found


def test_the_items_of_a_step_before() -> None:
    def said(text: str) -> list[str]:
        behind = {"name": "b", "dependsOn": {"targets": ["a"]}, "when": text}
        found = faults(flow_of({"name": "a", "forEach": {"count": 3}}, behind))
        return [each.partition('": ')[2] for each in found]

    assert said('steps.a.items.all(i, i.phase == "Completed")') == []
    assert said("steps.a.items[2].outputs.acc > 0.9") == []
    assert said("steps.a.items.map(i, i.outputs.acc).max() > 0.9") == []
    assert said("steps.a.items[0].output.acc > 0.9") == [
        'character 1: an item has no "output"; did you mean "outputs"?'
    ]
    assert said("steps.a.outputs.acc > 0.9") == [
        'character 1: "a" has forEach: each of its items has outputs, as in '
        'steps["a"].items[0].outputs'
    ]


def test_tasks_of_a_known_template() -> None:
    def said(task: str, **patch: Any) -> list[str]:
        behind = AFTER_A | {"when": f'steps.a.tasks["{task}"].Failed == 0'}
        known = knowing(template_of("a", "ps", "worker"))
        found = faults(flow_of({"name": "a", "patch": {"spec": patch}}, behind), known)
        return [each.partition('0": ')[2] for each in found]

    assert said("worker") == []
    assert said("wroker") == [
        'character 1: the job of "a" has no task "wroker"; did you mean "worker"?'
    ]
    assert said("x") == ['character 1: the job of "a" has no task "x"; it has ps, worker']
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    assert said("x", tasks=[{"name": "x", "template": pod}]) == []


def test_steps_of_finally_see_every_step_and_the_phase_of_the_flow() -> None:
    def said(text: str) -> list[str]:
        last = {"finally": [{"name": "y"}, {"name": "z", "when": text}]}
        return faults(flow_of("a", "b: a", **last))

    assert said('steps.a.phase == "Failed" || steps.b.outputs.x == 1') == []
    assert said('flow.phase == "Failed"') == []
    (found,) = said('steps.y.phase == ""')
    assert found.startswith("spec.finally[1].when: ")
    assert found.endswith('"y" is a step of finally, which no other step sees')


def test_a_step_behind_steps_is_upstream_however_far() -> None:
    behind = [f"s{i}: s{i - 1}" for i in range(1, 30)]
    flow = flow_of(
        "s0",
        *behind,
        {**AFTER_A, "dependsOn": {"targets": ["s29"]}, "when": "steps.s0.phase == ''"},
    )
    assert faults(flow) == []  # fmt: skip


def test_in_a_cycle_only_the_cycle_is_told() -> None:
    first = {"name": "a", "dependsOn": {"targets": ["b"]}, "when": "steps.c.phase == ''"}
    (found,) = faults(flow_of(first, "b: c", "c: a"))
    assert "these steps wait for each other" in found


def test_too_much_of_it_is_not_even_read() -> None:
    text = "params.x || " * 80 + "true"
    steps = [{"name": f"s{i}", "when": text} for i in range(MAX_CHARACTERS // len(text) + 1)]
    (found,) = faults(flow_of(*steps))
    assert found.startswith("spec: Too long: its expressions have 26")
    assert found.endswith("at most 262,144 are allowed")


# -------------------------------------------------------------------- references


def said_of_text(text: str, **step: Any) -> list[str]:
    """What is said of step b whose patch has this text."""
    found = said_of(patch={"jobSpec": {"plugins": {"env": [text]}}}, **step)
    path = "patch.jobSpec.plugins.env[0]: Invalid value: "
    assert all(each.startswith(path) for each in found)
    return [each.removeprefix(path) for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "$(params.mode)",
        "q-$(params.workers)-$(params.map.x.y)-$(params.rates.0)",
        "$(steps.a.outputs.queue)",
        "$(steps.a.outputs)",
        "$(flow.name)-$(flow.namespace)",
        "$$(params.x)",
        "$(POD_NAME)",
    ],
)
def test_a_reference_that_is_admitted(text: str) -> None:
    assert said_of_text(text) == []


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("$(params.mod)", '"$(params.mod)": there is no parameter "mod"; did you mean "mode"?'),
        ("q$(params.map.z)", "\"$(params.map.z)\": there is no 'z' in params.map"),
        ("$(params.rates.7)", "\"$(params.rates.7)\": there is no '7' in params.rates"),
        ("$(params.)", '"$(params.)": there is no parameter ""'),
        (
            "$(item)",
            '"$(item)": there is an item only in the patch and the retry.when of a step with '
            "forEach",
        ),
        ("$(flow.uid)", '"$(flow.uid)": a flow has no "uid"; it has name, namespace'),
        (
            "$(flow.phase)",
            '"$(flow.phase)": flow.phase is to be seen in the steps of finally only',
        ),
        ("$(flow.name.x)", '"$(flow.name.x)": a flow has no "name.x"; did you mean "name"?'),
        (
            "$(steps.a.phase)",
            '"$(steps.a.phase)": of a step write $(steps.NAME.outputs.KEY)',
        ),
        (
            "$(steps.a.output.x)",
            '"$(steps.a.output.x)": of a step there are only outputs; did you mean "outputs"?',
        ),
        ("$(steps.x.outputs.y)", '"$(steps.x.outputs.y)": no such step as "x"'),
        (
            "$(steps.d.outputs.y)",
            '"$(steps.d.outputs.y)": step "b" does not depend on "d"; add it to dependsOn.targets',
        ),
    ],
)
def test_a_reference_that_is_refused(text: str, detail: str) -> None:
    assert said_of_text(text) == [detail]


def test_references_in_loops() -> None:
    items = {"items": [{"q": "x"}, {"p": "y"}]}
    assert said_of_text("q-$(index)", forEach=items) == []
    assert said_of_text("q-$(index)", repeat={"max": 2, "until": "outputs.x == 1"}) == []
    assert said_of_text("q-$(item)", repeat={"max": 2, "until": "outputs.x == 1"}) != []
    assert said_of_text("$(item.q)", forEach={"items": [{"q": "x"}]}) == []
    assert said_of_text("$(item.q)", forEach=items) == ['"$(item.q)": items[1] has no "q"']
    assert said_of_text("$(item.q)", forEach={"from": "params.rates"}) == []
    assert said_of_text("q-$(item)", forEach={"count": 2}) == []
    assert said_of_text("$(item.q)", forEach={"count": 2}) == [
        '"$(item.q)": with count an item is a number, and nothing is taken of it; write $(item)'
    ]


def test_what_references_stand_for_is_bounded() -> None:
    large = [{"name": "x", "value": "x" * 60_000}]
    env = ["$(params.x)"] * 20
    steps = [{"name": f"s{i}", "patch": {"spec": {"plugins": {"env": env}}}} for i in range(8)]
    (found,) = faults(flow_of(*steps, params=large))
    assert found == (
        "spec.flows[6].patch.spec: Too long: its references, and those of the patches before it, "
        "stand for more than 8,388,608 bytes; put what is large into a ConfigMap or a volume"
    )


def test_references_in_the_patches_of_cases() -> None:
    case = {"patch": {"spec": {"queue": "$(params.x)"}}}
    assert said_of(switch=[case]) == [
        'switch[0].patch.spec.queue: Invalid value: "$(params.x)": there is no parameter "x"'
    ]


def test_a_reference_stands_with_its_place_in_the_patch() -> None:
    labels = {"x.io/y": "$(index)"}
    patch = {"tasks": [{"name": "t", "template": {"metadata": {"labels": labels}}}]}
    (found,) = said_of(patch={"jobSpec": patch})
    path = "patch.jobSpec.tasks[0].template.metadata.labels[x.io/y]"
    assert found.startswith(f'{path}: Invalid value: "$(index)": there is an index only')


# ----------------------------------------------------------------------- params


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ([{"name": "a_1", "value": False}, {"name": "_b", "value": 0}], []),
        ([{"name": "a", "value": 1, "enum": [1.0]}], []),
        ([{"name": "a", "value": {"x": [1]}, "enum": [{"x": [1]}]}], []),
        ([{"value": 1}], ["[0].name: Required value: a param has a name"]),
        (
            [{"name": "learning-rate", "value": 1}],
            [
                '[0].name: Invalid value: "learning-rate": a param\'s name holds letters, digits '
                'and _ and does not begin with a digit; did you mean "learning_rate"?'
            ],
        ),
        (
            [{"name": "in", "value": 1}],
            ['[0].name: Invalid value: "in": it is a word of CEL; give the param another name'],
        ),
        (
            [{"name": "a", "value": 1}, {"name": "a", "value": 2}],
            ['[1].name: Duplicate value: "a": already the name of spec.params[0]'],
        ),
        (
            [{"name": "a"}],
            [
                "[0].value: Required value: give the param a value, here or for jobflow run and "
                "lint by --param a=VALUE"
            ],
        ),
        (
            [{"name": "a", "enum": ["x", 2]}],
            [
                "[0].value: Required value: give the param a value, here or for jobflow run and "
                'lint by --param a=VALUE; it may be "x", 2'
            ],
        ),
        (
            [{"name": "a", "value": True, "enum": [1, 2]}],
            ["[0].value: Unsupported value: true: supported values: 1, 2"],
        ),
        (
            [{"name": "a", "value": 1, "enum": []}],
            ["[0].value: Unsupported value: 1: its enum allows nothing"],
        ),
        (
            [{"name": "a", "value": "x" * 70_000}],
            [
                ": Too long: its values come to 70,004 bytes; at most 65,536 are allowed: put what "
                "is large into a ConfigMap or a volume"
            ],
        ),
        (
            [{"name": f"p{i}", "value": 1} for i in range(257)],
            [": Too many: at most 256 are allowed; put more into one, as a map"],
        ),
    ],
)
def test_params(params: list[dict[str, Any]], found: list[str]) -> None:
    said = [each.removeprefix("spec.params") for each in faults(flow_of("a", params=params))]
    assert said == found


def test_what_hangs_on_a_param_without_a_value_is_left_alone() -> None:
    step = {"name": "a", "when": "params.n > 2 && size(params) == 1"}
    (found,) = faults(flow_of(step, params=[{"name": "n"}]))
    assert found.startswith("spec.params[0].value: Required value: ")


def test_a_param_that_is_nested_too_deep() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    flow = flow_of({"name": "a", "when": "params.a == 1"}, params=[{"name": "a", "value": deep}])
    deepest = "spec.params[0].value: Too long: at most 100 lists and maps in each other are allowed"
    assert deepest in faults(flow)


# --------------------------------------------------------------------- upstream

ARROWS = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10)


def reached(targets: list[list[int]], step: int) -> set[int]:
    """All that a step depends on, found by walking."""
    found: set[int] = set()
    work = [step]
    while work:
        for target in targets[work.pop()]:
            if target not in found:
                found.add(target)
                work.append(target)
    return found


@given(ARROWS)
def test_upstream_is_what_a_walk_finds(drawn: list[list[int]]) -> None:
    targets = [[t for t in row if t < i] for i, row in enumerate(drawn)]
    names = [f"s{i}" for i in range(len(targets))]
    graph = Graph(
        [
            Step(name=name, depends_on=DependsOn(targets=[f"s{t}" for t in row]))
            for name, row in zip(names, targets, strict=True)
        ]
    )
    upstream = Upstream(graph)
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    upstream.ask(pairs[::2])
    assert {pair: upstream.has(*pair) for pair in pairs} == {
        (i, j): j in reached(targets, i) for i, j in pairs
    }
