"""`jobflow lint`: all faults of any files in one report, with their places."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sandbox.command_line import Result, jobflow

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
    """Return the faults of a text as `line:column path: message`."""
    answer = jobflow("lint", "-o", "json", "-", stdin=text)
    return [f"{f['line']}:{f['column']} {f['path']}: {f['message']}" for f in answer.json]


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"
JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
ELSEWHERE = B.replace("metadata:", "metadata:\n  namespace: elsewhere")
MISSING = (
    '<stdin>:4:9: warning: JobTemplate "b" does not exist yet: its steps wait until it does\n'
    "1 JobFlow and {}: no faults, 1 warning\n"
)


@pytest.mark.parametrize(
    ("texts", "code", "out"),
    [
        ((FLOW, A, B), 0, "1 JobFlow and 2 JobTemplates: no faults\n"),
        ((FLOW, A), 0, MISSING.format("1 JobTemplate")),
        ((FLOW, A, ELSEWHERE), 0, MISSING.format("2 JobTemplates")),
        (
            (NAMESPACE, A, JOB),
            0,
            "0 JobFlows and 1 JobTemplate: no faults; "
            "ignored 2 objects of other kinds (Job, Namespace)\n",
        ),
        (
            (NAMESPACE,),
            2,
            "<stdin>: error: contains no JobFlow, JobTemplate or CronJobFlow\n"
            "1 fault in 1 file; ignored 1 object of other kinds (Namespace)\n",
        ),
        (
            (FLOW.replace("[prep]", "[pre]"), A, B),
            1,
            "<stdin>:11:19: error: spec.flows[1].dependsOn.targets[0]: "
            'Invalid value: "pre": no such step; did you mean "prep"?\n'
            "   11 |         targets: [pre]\n"
            "      |                   ^^^\n"
            "1 fault in 1 file\n",
        ),
    ],
)
def test_the_report_lists_faults_and_counts(texts: tuple[str, ...], code: int, out: str) -> None:
    answer = jobflow("lint", "-", stdin="---\n".join(texts))
    assert answer == Result(code, out, "")


def test_json_has_faults_and_stderr_has_warnings() -> None:
    answer = jobflow("lint", "-o", "json", "-", stdin=A)
    assert answer == Result(0, "[]\n", "")
    answer = jobflow("lint", "-o", "json", "-", stdin=FLOW.replace("[prep]", "[pre]"))
    assert 'JobTemplates "a" and "b" do not exist yet' in answer.err
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


def test_an_object_that_etcd_does_not_store_is_a_fault() -> None:
    answer = jobflow(
        "lint", "-", stdin=FLOW + f"  jobDefaults: {{queue: {'x' * (16 * 2**20 // 10)}}}\n"
    )
    assert "error: spec: Too long: 1.6 MiB as JSON" in answer.out
    assert answer.out.endswith("1 fault in 1 file\n")


def test_a_null_that_kubectl_apply_removes_has_a_warning() -> None:
    nulls = "template: a\n      env: {B: null}\n      retry: null"
    answer = jobflow("lint", "-", stdin=f"{FLOW.replace('template: a', nulls)}---\n{A}---\n{B}")
    assert "<stdin>:9:16: warning: spec.flows[0].env.B: kubectl apply removes" in answer.out
    assert answer.out.count("warning: ") == 1


def test_unreadable_files_do_not_hide_faults_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: @")
    (tmp_path / "b.yaml").write_text(FLOW.replace("[prep]", "[b]"))
    answer = jobflow("lint", "-o", "json", tmp_path, tmp_path / "missing.yaml")
    assert answer.code == 2
    assert [(f["reason"], f["line"]) for f in answer.json] == [
        ("Unreadable", 1),
        ("FieldValueInvalid", 11),
        ("Unreadable", 0),
    ]


def test_more_than_a_hundred_faults_are_printed() -> None:
    steps = "".join(f"    - name: S{i}\n" for i in range(300))
    found = lint(f"{FLOW.split('flows:')[0]}flows:\n{steps}")
    assert len(found) == 300


@pytest.mark.long
def test_a_cycle_of_5000_steps_is_shortened() -> None:
    steps = "".join(
        f"    - name: s{i}\n      dependsOn: {{targets: [s{(i - 1) % 5000}]}}\n"
        for i in range(5000)
    )
    (fault,) = lint(f"{FLOW.split('flows:')[0]}flows:\n{steps}")
    assert "spec.flows[0].dependsOn.targets[0]" in fault
    assert "s0 -> s1 -> s2 -> s3 -> s4 -> (4993 more) -> s4998 -> s4999 -> s0" in fault


SUPPORTED = 'supported values: "JobFlow", "JobTemplate", "CronJobFlow"'


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "flow.volcano.sh/v1alpha1",
            "batch.volcano.sh/v1alpha1",
            '1:13 apiVersion: Unsupported value: "batch.volcano.sh/v1alpha1": '
            "for a JobFlow write flow.volcano.sh/v1alpha1",
        ),
        (
            "apiVersion: flow.volcano.sh/v1alpha1\n",
            "",
            "1:1 apiVersion: Required value: for a JobFlow write flow.volcano.sh/v1alpha1",
        ),
        (
            "kind: JobFlow",
            "kind: Jobflow",
            f'2:7 kind: Unsupported value: "Jobflow": {SUPPORTED}; did you mean "JobFlow"?',
        ),
        (
            "kind: JobFlow",
            "kind: Workflow",
            f'2:7 kind: Unsupported value: "Workflow": {SUPPORTED}',
        ),
        ("kind: JobFlow\n", "", f"1:1 kind: Required value: {SUPPORTED}"),
        (
            "kind: JobFlow",
            "kind: [JobFlow]",
            f'2:1 kind: Unsupported value: ["JobFlow"]: {SUPPORTED}',
        ),
    ],
)
def test_unknown_kinds_and_versions_are_faults(old: str, new: str, fault: str) -> None:
    assert lint(FLOW.replace(old, new)) == [fault]


@pytest.mark.parametrize(
    ("old", "new"), [("flow.volcano.sh", "batch.volcano.sh"), ("JobFlow", "jobflow")]
)
def test_an_object_of_a_misspelled_kind_or_version_is_checked(old: str, new: str) -> None:
    _, second = lint(FLOW.replace(old, new).replace("[prep]", "[b]"))
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


def test_lenient_reports_the_warnings_of_admission_as_warnings() -> None:
    text = UNKNOWN.replace("replicas: 1", "maxRetry: 1").replace("Availabel: 1", "Availabel: 0")
    assert jobflow("lint", "-", stdin=text).code == 1
    lenient = jobflow("lint", "--lenient", "-", stdin=text)
    assert lenient.code == 0
    warnings = [line for line in lenient.out.splitlines() if ": warning: " in line]
    places = [line.split(": ")[0] for line in warnings]
    assert places == ["<stdin>:6:3", "<stdin>:16:15", "<stdin>:8:7"]
    assert lenient.out.endswith("no faults, 3 warnings\n")
    assert jobflow("lint", "--lenient", "-o", "json", "-", stdin=text).json == []


def test_lenient_reports_the_faults_of_admission_as_faults() -> None:
    flow = FLOW.replace("- name: b", "- name: b\n      frobnicate: 1")
    answer = jobflow("lint", "--lenient", "-", stdin=f"{flow}---\n{A.replace('busybox', '7')}")
    assert answer.code == 1
    assert answer.out.count(": error: ") == 2


def test_a_misspelled_field_does_not_hide_the_faults_below_it() -> None:
    text = FLOW.replace("flows:", "Flows:").replace("dependsOn", "dependson")
    assert lint(text.replace("[prep]", "[x]")) == [
        '6:3 spec.Flows: Forbidden: unknown field; did you mean "flows"?',
        '10:7 spec.flows[1].dependson: Forbidden: unknown field; did you mean "dependsOn"?',
        '11:19 spec.flows[1].dependsOn.targets[0]: Invalid value: "x": no such step',
    ]


def test_a_value_of_the_wrong_type_is_one_fault() -> None:
    text = FLOW.replace("name: prep\n", "name: 5\n").replace("[prep]", "[b, 7]")
    found = lint(text)
    assert [fault.split(": ")[0] for fault in found] == [
        "7:13 spec.flows[0].name",
        "11:19 spec.flows[1].dependsOn.targets[0]",
        "11:22 spec.flows[1].dependsOn.targets[1]",
    ]
    assert 'write "5", in quotes' in found[0]


@pytest.mark.parametrize("targets", ["[null]", "[7]", "[[]]", "7", "{}"])
def test_targets_of_the_wrong_type_do_not_hide_other_faults(targets: str) -> None:
    text = FLOW.replace("name: prep\n", "name: Prep\n").replace("[prep]", targets)
    assert any(fault.startswith("7:13 spec.flows[0].name: Invalid") for fault in lint(text))


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("Template A\n  namespace: My_Space", ["4:9 metadata.name", "5:14 metadata.namespace"]),
        ("a\n  creationTimestamp: yesterday", ["1:1 "]),
    ],
)
def test_invalid_metadata_is_a_fault(name: str, faults: list[str]) -> None:
    found = lint(A.replace("name: a", f"name: {name}", 1))
    assert [fault.split(": ")[0] for fault in found] == faults


def test_a_flow_uses_the_templates_of_its_own_file(tmp_path: Path) -> None:
    patch = "      patch: {jobSpec: {tasks: [{name: t, replicas: 2}]}}\n"
    flow = FLOW.replace("template: a\n", f"template: a\n{patch}")
    (tmp_path / "one.yaml").write_text(f"{flow}---\n{A}---\n{B}")
    (tmp_path / "two.yaml").write_text(A.replace("name: t\n", "name: other\n"))
    (fault,) = jobflow("lint", "-o", "json", tmp_path).json
    assert (fault["line"], fault["path"], fault["reason"]) == (
        4,
        "metadata.name",
        "FieldValueDuplicate",
    )
    assert fault["message"] == (
        f'Duplicate value: "a": this JobTemplate is already at {tmp_path}/one.yaml:17:9'
    )


def test_a_status_is_ignored() -> None:
    assert lint(A + "status:\n  jobDependsOnList: [x]\n") == []


@pytest.mark.parametrize("value", ["null", "5", "[]", "{}", "text", "[null]", "[[]]", "{a: null}"])
@pytest.mark.parametrize("field", ["metadata", "spec", "spec.flows", "spec.tasks", "status"])
@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_any_value_in_any_field_is_a_fault(kind: str, field: str, value: str) -> None:
    top, _, below = field.partition(".")
    inner = f"{top}: {{{below}: {value}}}" if below else f"{top}: {value}"
    text = f"apiVersion: flow.volcano.sh/v1alpha1\nkind: {kind}\n{inner}"
    assert jobflow("lint", "-", stdin=text).code == 1


KEYS = st.sampled_from(["name", "flows", "dependsOn", "targets", "patch", "spec", "tasks", "x.y"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(spec=JSON, metadata=JSON, kind=st.sampled_from(["JobFlow", "JobTemplate"]))
def test_no_object_raises_an_exception(spec: Any, metadata: Any, kind: str) -> None:
    api = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind}
    text = json.dumps(api | {"metadata": metadata, "spec": spec})
    assert jobflow("lint", "-", stdin=text).code in (0, 1)
