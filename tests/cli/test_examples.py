"""The examples: those that run end as they say, those that are refused are refused as they say."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import jobflow
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.cli.manifests import load
from jobflow.cli.shape import shaped
from jobflow.core import job_rules
from jobflow.core.expression_rules import expressions_are_few
from jobflow.core.flow_rules import Rule
from jobflow.core.job_view import job_view
from jobflow.core.outline import Known, Outline
from jobflow.core.param_rules import param_values_are_small, params_are_few
from jobflow.core.status_rules import status_fits
from jobflow.core.validate import CREATE_RULES

EXAMPLES = Path("examples")
REFUSED = sorted((EXAMPLES / "refused").glob("*.yaml"))
ENDS = {
    "diamond.yaml": 0,
    "entries-and-exits.yaml": 0,
    "on-failure.yaml": 1,
    "parameter-server.yaml": 0,
    "patch.yaml": 0,
    "probed-service.yaml": 0,
    "training-pipeline.yaml": 0,
}


def test_every_example_has_an_end() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.yaml")) == sorted(ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_an_example_has_no_faults_and_teaches(name: str) -> None:
    answer = jobflow("lint", EXAMPLES / name)
    assert answer.code == 0
    assert "warning" not in answer.out
    assert (EXAMPLES / name).read_text().startswith("# ")


@pytest.mark.parametrize(("name", "code"), ENDS.items())
def test_an_example_ends_as_it_says(name: str, code: int) -> None:
    assert jobflow("run", "--speed", "50", EXAMPLES / name).code == code


def test_the_on_failure_example_takes_the_branches_it_says() -> None:
    answer = jobflow("run", "--speed", "50", "-o", "json", EXAMPLES / "on-failure.yaml")
    (flow,) = answer.json["items"]
    conditions = flow["status"]["conditions"]
    assert {name: (each["phase"], each.get("reason", "")) for name, each in conditions.items()} == {
        "training-prepare": ("Completed", ""),
        "training-train": ("Failed", "JobFailed"),
        "training-evaluate": ("Skipped", "UpstreamFailed"),
        "training-alarm": ("Completed", ""),
        "training-cleanup": ("Completed", ""),
    }


def test_without_the_failure_it_takes_the_others() -> None:
    text = (EXAMPLES / "on-failure.yaml").read_text()
    kept = "".join(
        line
        for line in text.splitlines(keepends=True)
        if "jobflow.volcano.sh/exit-code" not in line
    )
    answer = jobflow("run", "--speed", "50", "-o", "json", "-", stdin=kept)
    (flow,) = answer.json["items"]
    conditions = flow["status"]["conditions"]
    assert answer.code == 0
    assert conditions["training-evaluate"]["phase"] == "Completed"
    assert conditions["training-alarm"]["reason"] == "NotTaken"


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_refused_example_is_refused_as_its_head_says(path: Path) -> None:
    expected = [
        line.removeprefix("# refused: ")
        for line in path.read_text().splitlines()
        if line.startswith("# refused: ")
    ]
    answer = jobflow("lint", "-o", "json", path)
    assert answer.code == 1
    assert (
        expected and [f"{fault['path']}: {fault['message']}" for fault in answer.json] == expected
    )


def _flows() -> list[Outline]:
    """Every refused flow as the rules see it, with the templates of its file."""
    outlines = []
    for path in REFUSED:
        read = [shaped(manifest) for manifest in load([str(path)], io.BytesIO()).objects]
        objects = [each.object for each in read if each is not None]
        templates = {t.metadata.name: t for t in objects if isinstance(t, JobTemplate)}
        outlines += [Outline(f, Known(templates)) for f in objects if isinstance(f, JobFlow)]
    return outlines


TOO_LONG_TO_READ = {status_fits, expressions_are_few, params_are_few, param_values_are_small}
"""It takes some thousand steps, or as much of something else; tests/core has such flows."""


@pytest.mark.parametrize(
    "rule",
    [rule for rule in CREATE_RULES if rule not in TOO_LONG_TO_READ],
    ids=lambda rule: rule.__name__,
)
def test_every_rule_of_flows_has_a_refused_example(rule: Rule) -> None:
    assert any(list(rule(outline)) for outline in _flows())


@pytest.mark.parametrize("rule", job_rules._RULES, ids=lambda rule: rule.__name__)
def test_every_rule_of_templates_has_a_refused_example(rule: Callable[..., Any]) -> None:
    specs = [
        manifest.data["spec"]
        for path in REFUSED
        for manifest in load([str(path)], io.BytesIO()).objects
        if manifest.kind == "JobTemplate"
    ]
    assert any(list(rule(job_view(spec, "spec", None))) for spec in specs)
