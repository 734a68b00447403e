"""`jobflow convert`: vcjobs as JobTemplates and back, which lint accepts."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.client.manifests.yaml_errors import NotYAMLError
from jobflow.client.manifests.yaml_nodes import data_of, documents
from support.paths import ROOT
from support.sandbox.command_line import Result, jobflow
from support.sandbox.manifests import template

EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").glob("*.yaml"))
    if "kind: JobTemplate\n" in path.read_text()
]
POD_LABELS = {"flow.volcano.sh/step": "a", "volcano.sh/createdByJobFlow": "default.f", "app": "x"}


def vcjob(**metadata: Any) -> dict[str, Any]:
    """Return a vcjob."""
    job = template("train") | {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return job | {"metadata": {"name": "train", **metadata}}


def convert(*objects: dict[str, Any]) -> Result:
    return jobflow("convert", "-", stdin=yaml.safe_dump_all(objects))


def test_a_vcjob_becomes_a_template_that_lint_accepts() -> None:
    answer = convert(vcjob())
    assert (answer.code, answer.err) == (0, "")
    [made] = yaml.safe_load_all(answer.out)
    assert made == template("train") | {"metadata": {"name": "train"}}
    assert jobflow("lint", "-", stdin=answer.out).code == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_templates_become_vcjobs_and_the_same_templates_again(path: Path) -> None:
    objects = yaml.safe_load_all(path.read_text())
    templates = [each for each in objects if each["kind"] == "JobTemplate"]
    jobs = convert(*templates)
    assert (jobs.code, jobs.err) == (0, "")
    assert {each["kind"] for each in yaml.safe_load_all(jobs.out)} == {"Job"}
    again = jobflow("convert", "-", stdin=jobs.out)
    assert [*yaml.safe_load_all(again.out)] == templates


def test_bookkeeping_and_status_are_dropped() -> None:
    job = vcjob(
        namespace="team",
        uid="1",
        resourceVersion="7",
        ownerReferences=[{"kind": "JobFlow", "name": "f", "uid": "2"}],
        labels={"volcano.sh/createdByJobFlow": "default.f", "team": "vision"},
        annotations={
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "flow.volcano.sh/ttl-seconds-after-finished": "60",
        },
    )
    job["spec"]["tasks"][0]["template"]["metadata"] = {"labels": POD_LABELS}
    answer = convert(job | {"status": {"state": {"phase": "Completed"}}})
    [made] = yaml.safe_load_all(answer.out)
    assert made["metadata"] == {
        "name": "train",
        "namespace": "team",
        "labels": {"team": "vision"},
    }
    assert "status" not in made
    assert made["spec"]["ttlSecondsAfterFinished"] == 60
    assert made["spec"]["tasks"][0]["template"]["metadata"] == {"labels": {"app": "x"}}


def test_other_kinds_are_named_and_nothing_is_printed() -> None:
    queue = {"apiVersion": "v1", "kind": "Queue", "metadata": {"name": "q"}}
    answer = convert(vcjob(), queue, {"apiVersion": "batch/v1", "kind": "Job"})
    assert (answer.code, answer.out) == (1, "")
    assert [line.split(": ")[3] for line in answer.err.splitlines() if "error" in line] == [
        "cannot convert a Queue of v1",
        "cannot convert a Job of batch/v1",
    ]


def test_a_vcjob_with_faults_is_not_converted() -> None:
    job = vcjob()
    job["spec"]["tasks"][0]["replicas"] = "many"
    answer = convert(job)
    assert (answer.code, answer.out) == (1, "")
    assert ": error: spec.tasks[0].replicas: " in answer.err


def test_a_missing_file_is_an_error() -> None:
    answer = jobflow("convert", "missing.yaml")
    assert answer == Result(2, "", "missing.yaml: error: no such file\n")


TEXTS = (
    *("yes", "y", "off", "1e3", "0o7", "0777", "12:30", "1_000", ".5", "~", "null", ""),
    *(" a ", "a: b", "2026-01-01", "- a", "#a", "a\nb\n", "a\n\n  b", "\ta\n", "x" * 500),
    *("ä😀", "\x1b[2J", "=", "<<", ".inf"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_yaml_is_read_as_it_was_written(text: str) -> None:
    value = {"text": text, text or "key": [1, None, True, 0.1]}
    stream = StringIO()
    write_yaml([value], stream)
    [node] = documents(stream.getvalue())
    assert not isinstance(node, NotYAMLError)
    assert data_of(node) == value
