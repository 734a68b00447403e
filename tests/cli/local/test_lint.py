"""`jobflow lint`: every fault at once with its place, whatever is in the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sandbox.command_line import jobflow

FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata:
  name: test
spec:
  flows:
    - name: prep
      template: a
    - name: b
      dependsOn:
        targets: [prep]
"""
TEMPLATE = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata:
  name: {name}
spec:
  minAvailable: 1
  tasks:
    - name: t
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: c
              image: busybox
"""
A, B = TEMPLATE.format(name="a"), TEMPLATE.format(name="b")


def lint(text: str) -> list[str]:
    """The faults of a text as `line:column path: message`."""
    answer = jobflow("lint", "-o", "json", "-", stdin=text)
    return [f"{f['line']}:{f['column']} {f['path']}: {f['message']}" for f in answer.json]


def test_nothing_wrong() -> None:
    answer = jobflow("lint", "-", stdin=f"{FLOW}---\n{A}---\n{B}")
    assert (answer.code, answer.out) == (0, "1 JobFlow and 2 JobTemplates: no faults\n")


def test_the_same_as_json_is_an_empty_list() -> None:
    answer = jobflow("lint", "-o", "json", "-", stdin=A)
    assert (answer.code, answer.out, answer.err) == (0, "[]\n", "")


def test_a_missing_template_is_a_warning() -> None:
    answer = jobflow("lint", "-", stdin=f"{FLOW}---\n{A}")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        '<stdin>:4:9: warning: JobTemplate "b" does not exist yet: its steps wait until it does',
        "1 JobFlow and 1 JobTemplate: no faults, 1 warning",
    ]


def test_in_json_warnings_go_to_standard_error() -> None:
    answer = jobflow("lint", "-o", "json", "-", stdin=f"{FLOW}---\n{A}")
    assert (answer.code, answer.json) == (0, [])
    assert 'JobTemplate "b" does not exist yet' in answer.err


def test_templates_count_in_their_own_namespace_only() -> None:
    elsewhere = B.replace("metadata:", "metadata:\n  namespace: elsewhere")
    answer = jobflow("lint", "-", stdin=f"{FLOW}---\n{A}---\n{elsewhere}")
    assert 'JobTemplate "b" does not exist yet' in answer.out


def test_a_fault_is_shown_with_its_line_and_a_caret() -> None:
    answer = jobflow("lint", "-", stdin=FLOW.replace("[prep]", "[pre]") + f"---\n{A}---\n{B}")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "<stdin>:11:19: error: spec.flows[1].dependsOn.targets[0]: "
        'Invalid value: "pre": no such step; did you mean "prep"?',
        "   11 |         targets: [pre]",
        "      |                   ^^^",
        "1 fault in 1 file",
    ]


def test_a_fault_as_json() -> None:
    answer = jobflow("lint", "-o", "json", "-", stdin=FLOW.replace("[prep]", "[pre]"))
    assert answer.json == [
        {
            "file": "<stdin>",
            "line": 11,
            "column": 19,
            "kind": "JobFlow",
            "name": "test",
            "path": "spec.flows[1].dependsOn.targets[0]",
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "pre": no such step; did you mean "prep"?',
        }
    ]


def test_what_is_unreadable_does_not_hide_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: @")
    (tmp_path / "b.yaml").write_text(FLOW.replace("[prep]", "[b]"))
    answer = jobflow("lint", "-o", "json", tmp_path, tmp_path / "missing.yaml")
    assert answer.code == 2
    assert [(f["reason"], f["line"]) for f in answer.json] == [
        ("Unreadable", 1),
        ("FieldValueInvalid", 11),
        ("Unreadable", 0),
    ]


def test_all_faults_are_printed_and_not_a_hundred() -> None:
    steps = "".join(f"    - name: S{i}\n" for i in range(300))
    found = lint(f"{FLOW.split('flows:')[0]}flows:\n{steps}")
    assert len(found) == 300


def test_a_cycle_through_5000_steps() -> None:
    steps = "".join(
        f"    - name: s{i}\n      dependsOn: {{targets: [s{(i - 1) % 5000}]}}\n"
        for i in range(5000)
    )
    (said,) = lint(f"{FLOW.split('flows:')[0]}flows:\n{steps}")
    assert "spec.flows[0].dependsOn.targets[0]" in said
    assert "s0 -> s1 -> s2 -> s3 -> s4 -> (4993 more) -> s4998 -> s4999 -> s0" in said


KINDS: list[tuple[str, list[str]]] = [
    (
        FLOW.replace("flow.volcano.sh/v1alpha1", "batch.volcano.sh/v1alpha1"),
        [
            '1:13 apiVersion: Unsupported value: "batch.volcano.sh/v1alpha1": '
            "for a JobFlow write flow.volcano.sh/v1alpha1"
        ],
    ),
    (
        FLOW.replace("apiVersion: flow.volcano.sh/v1alpha1\n", ""),
        ["1:1 apiVersion: Required value: for a JobFlow write flow.volcano.sh/v1alpha1"],
    ),
    (
        FLOW.replace("kind: JobFlow", "kind: Jobflow"),
        [
            '2:7 kind: Unsupported value: "Jobflow": supported values: "JobFlow", "JobTemplate"; '
            'did you mean "JobFlow"?'
        ],
    ),
    (
        FLOW.replace("kind: JobFlow", "kind: Workflow"),
        ['2:7 kind: Unsupported value: "Workflow": supported values: "JobFlow", "JobTemplate"'],
    ),
    (
        FLOW.replace("kind: JobFlow\n", ""),
        ['1:1 kind: Required value: supported values: "JobFlow", "JobTemplate"'],
    ),
    (
        FLOW.replace("kind: JobFlow", "kind: [JobFlow]"),
        ['2:1 kind: Unsupported value: ["JobFlow"]: supported values: "JobFlow", "JobTemplate"'],
    ),
]


@pytest.mark.parametrize(("text", "faults"), KINDS)
def test_kinds_and_versions(text: str, faults: list[str]) -> None:
    assert lint(text) == faults


def test_an_object_of_a_misspelt_kind_or_version_is_checked_further() -> None:
    for wrong in (
        FLOW.replace("flow.volcano.sh", "batch.volcano.sh"),
        FLOW.replace("JobFlow", "jobflow"),
    ):
        first, second = lint(wrong.replace("[prep]", "[b]"))
        assert second.startswith("11:19 spec.flows[1].dependsOn.targets[0]: ")


UNKNOWN = A.replace("image: busybox", "image: busybox\n              comand: [x]").replace(
    "minAvailable: 1", "minAvailabel: 1"
)


def test_unknown_fields_of_a_job_are_faults_at_their_keys() -> None:
    assert lint(UNKNOWN) == [
        '6:3 spec.minAvailabel: Forbidden: unknown field; did you mean "minAvailable"?',
        "16:15 spec.tasks[0].template.spec.containers[0].comand: Forbidden: unknown field; "
        'did you mean "command"?',
    ]


def test_lenient_lint_only_warns_of_what_admission_only_warns_of() -> None:
    text = UNKNOWN.replace("replicas: 1", "maxRetry: 1").replace("Availabel: 1", "Availabel: 0")
    strict, lenient = (
        jobflow("lint", "-", stdin=text),
        jobflow("lint", "--lenient", "-", stdin=text),
    )
    assert (strict.code, lenient.code) == (1, 0)
    warnings = [line for line in lenient.out.splitlines() if ": warning: " in line]
    assert [line.split(": ")[0] for line in warnings] == [
        "<stdin>:6:3",
        "<stdin>:16:15",
        "<stdin>:8:7",
    ]
    assert lenient.out.endswith("no faults, 3 warnings\n")
    assert jobflow("lint", "--lenient", "-o", "json", "-", stdin=text).json == []


def test_lenient_lint_still_refuses_what_admission_refuses() -> None:
    flow = FLOW.replace("- name: b", "- name: b\n      frobnicate: 1")
    answer = jobflow("lint", "--lenient", "-", stdin=f"{flow}---\n{A.replace('busybox', '7')}")
    assert answer.code == 1
    assert answer.out.count(": error: ") == 2


def test_objects_of_other_kinds_are_passed_over() -> None:
    other = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n"
    job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
    answer = jobflow("lint", "-", stdin=f"{other}---\n{A}---\n{job}")
    assert (answer.code, answer.out) == (
        0,
        "0 JobFlows and 1 JobTemplate: no faults; "
        "passed over 2 objects of other kinds (Job, Namespace)\n",
    )


def test_nothing_of_ours() -> None:
    answer = jobflow("lint", "-", stdin="apiVersion: v1\nkind: Namespace\n")
    assert answer.code == 2
    assert "<stdin>: error: no JobFlow and no JobTemplate in it" in answer.out


def test_a_misspelt_field_hides_nothing_below_it_and_makes_no_second_fault() -> None:
    text = FLOW.replace("flows:", "Flows:").replace("dependsOn", "dependson")
    assert lint(text.replace("[prep]", "[x]")) == [
        '6:3 spec.Flows: Forbidden: unknown field; did you mean "flows"?',
        '10:7 spec.flows[1].dependson: Forbidden: unknown field; did you mean "dependsOn"?',
        '11:19 spec.flows[1].dependsOn.targets[0]: Invalid value: "x": no such step',
    ]


def test_a_wrong_type_is_one_fault_and_the_rest_is_checked() -> None:
    text = FLOW.replace("name: prep\n", "name: 5\n").replace("[prep]", "[b, 7]")
    found = lint(text)
    assert [said.split(": ")[0] for said in found] == [
        "7:13 spec.flows[0].name",
        "11:19 spec.flows[1].dependsOn.targets[0]",
        "11:22 spec.flows[1].dependsOn.targets[1]",
    ]
    assert 'write "5", in quotes' in found[0]


@pytest.mark.parametrize("wrong", ["[null]", "[7]", "[[]]", "7", "{}"])
def test_targets_of_the_wrong_type_do_not_hide_other_faults(wrong: str) -> None:
    text = FLOW.replace("name: prep\n", "name: Prep\n").replace("[prep]", wrong)
    assert any(said.startswith("7:13 spec.flows[0].name: Invalid") for said in lint(text))


def test_names_in_metadata() -> None:
    text = A.replace("name: a", "name: Template A\n  namespace: My_Space", 1)
    found = lint(text)
    assert [said.split(": ")[0] for said in found] == [
        "4:9 metadata.name",
        "5:14 metadata.namespace",
    ]


def test_a_flow_sees_the_templates_of_its_own_file(tmp_path: Path) -> None:
    """Examples that share a template's name say nothing wrong of each other."""
    patch = "      patch: {jobSpec: {tasks: [{name: t, replicas: 2}]}}\n"
    flow = FLOW.replace("template: a\n", f"template: a\n{patch}")
    (tmp_path / "one.yaml").write_text(f"{flow}---\n{A}---\n{B}")
    (tmp_path / "two.yaml").write_text(A.replace("name: t\n", "name: other\n"))
    faults = [fault["path"] for fault in jobflow("lint", "-o", "json", str(tmp_path)).json]
    assert faults == ["metadata.name"]


def test_the_same_object_twice(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(A)
    (tmp_path / "two.yaml").write_text(f"{B}---\n{A}")
    (fault,) = jobflow("lint", "-o", "json", tmp_path).json
    assert (fault["line"], fault["reason"]) == (20, "FieldValueDuplicate")
    assert fault["message"] == (
        f'Duplicate value: "a": this JobTemplate is already at {tmp_path}/one.yaml:4:9'
    )


def test_a_status_that_kubectl_get_brought_along_is_no_fault() -> None:
    assert lint(A + "status:\n  jobDependsOnList: [x]\n") == []


@pytest.mark.parametrize("value", ["null", "5", "[]", "{}", "text", "[null]", "[[]]", "{a: null}"])
@pytest.mark.parametrize("field", ["metadata", "spec", "spec.flows", "spec.tasks", "status"])
def test_any_value_anywhere_has_an_answer(field: str, value: str) -> None:
    top, _, below = field.partition(".")
    inner = f"{top}: {{{below}: {value}}}" if below else f"{top}: {value}"
    for kind in ("JobFlow", "JobTemplate"):
        answer = jobflow(
            "lint", "-", stdin=f"apiVersion: flow.volcano.sh/v1alpha1\nkind: {kind}\n{inner}"
        )
        assert answer.code == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "flows", "dependsOn", "targets", "patch", "spec", "tasks", "x.y"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(spec=JSON, metadata=JSON, kind=st.sampled_from(["JobFlow", "JobTemplate"]))
def test_no_object_raises(spec: Any, metadata: Any, kind: str) -> None:
    whole = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind}
    text = json.dumps(whole | {"metadata": metadata, "spec": spec})
    assert jobflow("lint", "-", stdin=text).code in (0, 1)


def test_what_only_the_types_know_is_a_fault_too() -> None:
    (said,) = lint(A.replace("name: a", "name: a\n  creationTimestamp: yesterday", 1))
    assert said.startswith('1:1 : Invalid value: "JobTemplate": Invalid RFC3339 encoded datetime')
