"""`jobflow migrate`: manifests from before JobFlow moved into Volcano."""

from typing import Any

import yaml

from support.paths import ROOT
from support.sandbox.command_line import Result, jobflow
from support.sandbox.manifests import jobflow as flow
from support.sandbox.manifests import template

OLD = "batch.volcano.sh/v1alpha1"


def old_objects() -> list[dict[str, Any]]:
    """Return templates A and B, and a flow of them, in their old form."""
    objects = [template("A"), template("B"), flow("Test", {"A": [], "B": ["A"]})]
    return [each | {"apiVersion": OLD} for each in objects]


def migrate(*objects: dict[str, Any]) -> Result:
    return jobflow("migrate", "-", stdin=yaml.safe_dump_all(objects, sort_keys=False))


def test_group_and_names_are_changed_and_lint_accepts_the_result() -> None:
    answer = migrate(*old_objects())
    assert answer.code == 0
    assert [*yaml.safe_load_all(answer.out)] == [
        template("a"),
        template("b"),
        flow("test", {"a": [], "b": ["a"]}),
    ]
    assert jobflow("lint", "-", stdin=answer.out).code == 0


def test_each_change_is_named_with_its_line() -> None:
    [*_, manifest] = old_objects()
    manifest["spec"]["JobRetainPolicy"] = "delete"
    answer = migrate(manifest | {"status": {"pendingJobs": []}})
    notes = [line for line in answer.err.splitlines() if line.startswith("jobflow: info: ")]
    assert [note.removeprefix("jobflow: info: <stdin>:") for note in notes] == [
        f'1:1: apiVersion "{OLD}" is now "flow.volcano.sh/v1alpha1"',
        "12:3: spec.JobRetainPolicy is now jobRetainPolicy",
        "13:1: status is dropped",
        '4:3: metadata.name "Test" is now "test"',
        '7:5: spec.flows[0].name "A" is now "a"',
        '8:5: spec.flows[1].name "B" is now "b"',
        '11:9: spec.flows[1].dependsOn.targets[0] "A" is now "a"',
    ]
    [made] = yaml.safe_load_all(answer.out)
    assert made == flow("test", {"a": [], "b": ["a"]}, jobRetainPolicy="delete")


def test_names_that_would_become_the_same_stay_and_are_faults() -> None:
    manifest = flow("test", {"A": [], "a": ["A"], "B": ["A"]}) | {"apiVersion": OLD}
    answer = migrate(manifest)
    assert answer.code == 1
    [made] = yaml.safe_load_all(answer.out)
    assert [step["name"] for step in made["spec"]["flows"]] == ["A", "a", "b"]
    assert "<stdin>:7:11: error: spec.flows[0].name: Invalid value: " in answer.err


def test_faults_that_are_left_have_the_lines_of_the_old_file() -> None:
    path = ROOT / "examples" / "refused" / "first-user.yaml"
    answer = jobflow("migrate", path)
    assert answer.code == 1
    faults = [line for line in answer.err.splitlines() if ": error: " in line]
    assert [fault.split(": ")[2] for fault in faults] == ["spec.policies[0].action", "spec.queue"]
    assert faults[0].startswith(f"{path}:29:15: ")


def test_what_is_not_old_is_printed_as_it_is() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {}}
    job = template("j") | {"apiVersion": OLD, "kind": "Job"}
    objects = [queue, job, template("a")]
    answer = migrate(*objects)
    assert (answer.code, [*yaml.safe_load_all(answer.out)]) == (0, objects)
    assert answer.err == (
        "jobflow: info: the files contain no workflow of Argo and no JobFlow of "
        f"{OLD}: nothing is changed\n"
    )


def test_a_missing_file_is_an_error() -> None:
    answer = jobflow("migrate", "missing.yaml")
    assert answer == Result(2, "", "missing.yaml: error: no such file\n")
