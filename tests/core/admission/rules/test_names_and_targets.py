"""Rules of names, dependencies and policies of a new flow, with their messages."""

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.suggest import CURLY_QUOTES_ARE_PART
from jobflow.core.violations import Reason, Verdict, quote
from support.admission.reviewed import faults, flow_of

GET = {"taskName": "ps", "path": "/", "port": 80}
PROBE = {"taskStatusList": [{}], "httpGetList": [GET, GET | {"path": "", "port": 0}]}


@pytest.mark.parametrize(
    "steps",
    [
        ("a",),
        ("a", "b: a", "c: b", "d: b", "e: c d"),
        ("e: c d", "d: b", "c: b", "b: a", "a"),
        ("a", "b: a a"),
        ("0", "a.b: 0", "x--y: a.b"),
        ({"name": "a", "template": "", "dependsOn": {"targets": []}, "patch": {}},),
        ({"name": "a", "template": None, "dependsOn": None, "patch": {"jobSpec": None}},),
        ({"name": "a", "dependsOn": {"probe": {"taskStatusList": []}}},),
        ({"name": "a", "template": "some.template"}, {"name": "b", "template": "some.template"}),
        ("a", {"name": "b", "dependsOn": {"targets": ["a"], "strategy": "any"}},
         {"name": "c", "dependsOn": {"targets": ["a"], "condition": "Failed"}},
         {"name": "d", "dependsOn": {"targets": ["a"], "condition": "Finished"}},
         {"name": "e", "dependsOn": {"targets": ["a"], "condition": "Running"}}),
    ],
)  # fmt: skip
def test_valid_steps_are_admitted(steps):
    assert validate_flow(flow_of(*steps), Known()) == Verdict()


NO_NAME = "a step has a name, which is also its JobTemplate's unless template is set"
ENDS = 'a Kubernetes name begins and ends with a letter or digit, also around each "."'
CHARACTERS = 'use lower-case letters, digits, "-" and "."'
CONDITIONS = '"Completed", "Failed", "Finished", "Running", "NotFailed", "Always"'


@pytest.mark.parametrize(
    ("name", "characters", "guess"),
    [
        ("Train_A", '"T", "_" and "A"', "train-a"),
        ("“a”", '"“" (U+201C LEFT DOUBLE QUOTATION MARK) and "”" (U+201D RIGHT DOUBLE QUOTATION '
                "MARK)", "a"),
        ("größe", '"ö" (U+00F6 LATIN SMALL LETTER O WITH DIAERESIS) and "ß" (U+00DF LATIN SMALL '
                  "LETTER SHARP S)", "grosse"),
        ("训练", '"训" (U+8BAD CJK UNIFIED IDEOGRAPH-8BAD) and "练" (U+7EC3 CJK UNIFIED '
                 "IDEOGRAPH-7EC3)", ""),
        ("a\u200bb\n", "(U+200B ZERO WIDTH SPACE) and U+000A", "ab"),
        ("ABCDEF", '"A", "B", "C", "D" and 2 more', "abcdef"),
    ],
)  # fmt: skip
def test_invalid_characters_of_a_name_are_listed(name, characters, guess):
    assert faults(flow_of("ok", {"name": name})) == [
        f"spec.flows[1].name: Invalid value: {quote(name)}: a Kubernetes name cannot hold "
        f"{characters}: {CHARACTERS}" + (f'; "{guess}" would do' if guess else "")
    ]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", f"Required value: {NO_NAME}"),
        ("-a.-b", f'Invalid value: "-a.-b": {ENDS}; "a.b" would do'),
        ("..", f'Invalid value: "..": {ENDS}'),
    ],
)
def test_other_faults_of_a_name_are_reported(name, fault):
    assert faults(flow_of("ok", {"name": name})) == [f"spec.flows[1].name: {fault}"]


@pytest.mark.parametrize(
    ("template", "reported"),
    [
        ("Train", 'Invalid value: "Train": a Kubernetes name cannot hold "T": '
                  f'{CHARACTERS}; "train" would do'),
        ("t" * 254, "Too long: 254 characters, but a name has at most 253; shorten it"),
    ],
)  # fmt: skip
def test_an_invalid_template_name_is_refused(template, reported):
    flow = flow_of({"name": "a", "template": "good"}, {"name": "b", "template": template})
    assert faults(flow) == [f"spec.flows[1].template: {reported}"]


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("prepare", '; did you mean "prepare-data"?'),
        ("prepair-data", '; did you mean "prepare-data"?'),
        ("TRAIN", '; did you mean "train"?'),
        ("“train”", f'{CURLY_QUOTES_ARE_PART}; did you mean "train"?'),
        ("eval_model", '; did you mean "eval-model"?'),
        ("zzz", ""),
        ("", ""),
        ("joi", ""),  # nearest is the step itself
        ("x" * 400, ""),
    ],
)
def test_an_unknown_target_gets_a_suggestion(target, hint):
    flow = flow_of(
        "prepare-data",
        "train",
        "eval-model",
        {"name": "join", "dependsOn": {"targets": ["train", target]}},
    )
    (violation,) = validate_flow(flow, Known()).violations
    assert violation.path == "spec.flows[3].dependsOn.targets[1]"
    assert (violation.reason, violation.value) == (Reason.INVALID, target)
    assert violation.detail == f"no such step{hint}"


def test_unknown_targets_get_suggestions_while_these_are_cheap():
    names = [f"step-number-{i}" for i in range(5_000)]
    flow = flow_of("first", *(f"{name}: {name[:-1]}x FIRST" for name in names))
    reported = faults(flow)
    assert len(reported) == 1_000
    assert reported[0].endswith('did you mean "step-number-9"?')
    assert reported[-2].endswith("no such step")
    assert reported[-1].endswith('did you mean "first"?')


def test_a_cycle_is_reported_in_start_order_at_one_of_its_targets():
    assert faults(flow_of("x", "a: x c", "b: a", "c: b", "d: c")) == [
        'spec.flows[1].dependsOn.targets[1]: Invalid value: "c": these steps wait for '
        "each other: a -> b -> c -> a; remove one of these dependencies"
    ]


def test_each_group_of_cycles_has_one_fault():
    reported = faults(flow_of("a: b", "b: a", "c: d", "d: c", "e: a c"))
    assert len(reported) == 2
    assert "a -> b -> a;" in reported[0]
    assert "c -> d -> c;" in reported[1]


def test_a_cycle_through_5000_steps_shows_its_beginning_and_its_end():
    steps = [f"s{i}: s{(i - 1) % 5_000}" for i in range(5_000)]
    assert faults(flow_of(*steps)) == [
        'spec.flows[0].dependsOn.targets[0]: Invalid value: "s4999": these steps wait '
        "for each other: s0 -> s1 -> s2 -> s3 -> s4 -> (4993 more) -> s4998 -> s4999 "
        "-> s0; remove one of these dependencies"
    ]


@pytest.mark.parametrize(
    ("field", "word", "listed"),
    [
        ("strategy", "ANY", '"all", "any"; did you mean "any"?'),
        ("strategy", "some", '"all", "any"'),
        ("strategy", "", '"all", "any"'),
        ("condition", "completed", f'{CONDITIONS}; did you mean "Completed"?'),
        ("condition", "Complete", f'{CONDITIONS}; did you mean "Completed"?'),
        ("condition", "Succeeded", CONDITIONS),
        ("jobRetainPolicy", "Delete", '"retain", "delete"; did you mean "delete"?'),
        ("jobRetainPolicy", "", '"retain", "delete"'),
    ],
)
def test_an_unsupported_word_is_refused(field, word, listed):
    if field == "jobRetainPolicy":
        path, flow = "spec", flow_of("a", jobRetainPolicy=word)
    else:
        path = "spec.flows[1].dependsOn"
        flow = flow_of("a", {"name": "b", "dependsOn": {"targets": ["a"], field: word}})
    expected = f'{path}.{field}: Unsupported value: "{word}": supported values: {listed}'
    assert faults(flow) == [expected]


def test_targets_of_the_flow_are_steps_of_flows():
    last = {"finally": [{"name": "z"}]}
    assert faults(flow_of("a", "b: a", targets=["a", "a"], **last)) == []
    assert faults(flow_of("first", "b", targets=["b", "frist", "z"], **last)) == [
        'spec.targets[1]: Invalid value: "frist": no such step; did you mean "first"?',
        'spec.targets[2]: Invalid value: "z": a step of finally, which runs in any case; name '
        "steps of flows",
    ]


def test_templates_of_steps_that_are_left_out_need_not_exist():
    flow = flow_of({"name": "a", "template": "t"}, {"name": "b", "template": "u"}, targets=["a"])
    warnings = validate_flow(flow, Known(templates={})).warnings
    assert warnings == ('JobTemplate "t" does not exist yet: its steps wait until it does',)


@pytest.mark.parametrize(
    ("conditions", "reported"),
    [
        ({"a": "Failed", "c": "Completed"}, []),
        ({"A": "Failed"},
         ['.A: Invalid value: "A": no target of this step; add it to dependsOn.targets or remove '
          'it; did you mean "a"?']),
        ({"other": "Failed"},
         ['.other: Invalid value: "other": no target of this step; add it to dependsOn.targets or '
          "remove it"]),
        ({"a": "failed"},
         [f'.a: Unsupported value: "failed": supported values: {CONDITIONS}; did you mean '
          '"Failed"?']),
    ],
)  # fmt: skip
def test_each_entry_of_conditions_is_about_a_target(conditions, reported):
    depends_on = {"targets": ["a", "c"], "conditions": conditions}
    flow = flow_of("a", "c", "other", {"name": "b", "dependsOn": depends_on})
    path = "spec.flows[3].dependsOn.conditions"
    assert faults(flow) == [f"{path}{fault}" for fault in reported]


def test_conditions_are_refused_beside_a_probe():
    probe = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
    depends_on = {"targets": ["a"], "conditions": {"a": "Running"}, "probe": probe}
    assert faults(flow_of("a", {"name": "b", "dependsOn": depends_on})) == [
        "spec.flows[1].dependsOn.conditions: Forbidden: excludes probe, which decides alone "
        "whether a target is met; remove one"
    ]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("", "Required value: name or generateName is required"),
        ("My.Flow", 'Invalid value: "My.Flow": a Kubernetes name cannot hold "M" and "F": '
                    f'{CHARACTERS}; "my.flow" would do'),
    ],
)  # fmt: skip
def test_an_invalid_flow_name_is_refused(name, reported):
    assert faults(flow_of("a", name=name)) == [f"metadata.name: {reported}"]


def test_faults_are_in_the_order_of_the_flow():
    flow = flow_of(
        "a: b",
        {"name": "B", "dependsOn": {"targets": ["a", "nobody", "B"], "strategy": "one"}},
        {"name": "a", "template": "T", "dependsOn": {"condition": "ok", "probe": PROBE}},
        {"name": "c", "dependsOn": {"targets": ["d"]}, "patch": {"spec": {}, "jobSpec": {}}},
        "d: c",
        jobRetainPolicy="x",
        name="F",
    )
    assert [line.partition(": ")[0] for line in faults(flow)] == [
        "metadata.name",
        "spec.flows[0].dependsOn.targets[0]",
        "spec.flows[1].name",
        "spec.flows[1].dependsOn.targets[1]",
        "spec.flows[1].dependsOn.targets[2]",
        "spec.flows[1].dependsOn.strategy",
        "spec.flows[2].name",
        "spec.flows[2].template",
        "spec.flows[2].dependsOn.targets",
        "spec.flows[2].dependsOn.condition",
        "spec.flows[2].dependsOn.probe.httpGetList[1].path",
        "spec.flows[2].dependsOn.probe.httpGetList[1].port",
        "spec.flows[2].dependsOn.probe.taskStatusList[0].taskName",
        "spec.flows[2].dependsOn.probe.taskStatusList[0].phase",
        "spec.flows[3].dependsOn.targets[0]",
        "spec.flows[3].patch.spec",
        "spec.jobRetainPolicy",
    ]


def test_faults_are_sorted_by_number():
    flow = flow_of("a", *(f"s{i}: x{i}" for i in range(12)))
    places = [line.partition(".dependsOn")[0] for line in faults(flow)]
    assert places == [f"spec.flows[{i}]" for i in range(1, 13)]
