"""The examples: the results of those that run, and the faults of those that are refused."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow, CronJobFlowSpec
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.traits import Needs, NotWith, OneOf, Required, walk
from jobflow.client.manifests.check import to_typed
from jobflow.client.manifests.objects import load
from jobflow.core.admission.analysis.flow_facts import FlowFacts, Known
from jobflow.core.admission.crons import CRON_RULES, CronRule
from jobflow.core.admission.rule import FieldWarningRule, Rule
from jobflow.core.admission.rules.expressions import (
    expressions_are_few,
    references_are_small,
)
from jobflow.core.admission.rules.jobs.patches import layers_fit_their_jobs
from jobflow.core.admission.rules.params import param_values_are_small, params_are_few
from jobflow.core.admission.rules.size_limits import status_fits
from jobflow.core.admission.validate import CREATE_RULES, LIMITS
from jobflow.core.admission.volcano import job as job_rules
from jobflow.core.admission.volcano.job_view import job_view
from jobflow.core.admission.warnings import (
    FLOW_FIELD_WARNINGS,
    FLOW_WARNINGS,
    fields_of_layers_exist,
    patched_elements_exist,
)
from support.admission.reviewed import passed_by
from support.sandbox.command_line import jobflow
from support.sandbox.several_flows import run_flows
from support.selected_cases import selected_cases

EXAMPLES = Path("examples")
REFUSED = sorted((EXAMPLES / "refused").glob("*.yaml"))
EXAMPLES_BY_NAME = {path.stem: path for path in sorted(EXAMPLES.glob("*.yaml"))}
ENDS = dict.fromkeys(EXAMPLES_BY_NAME, "Succeed") | {
    **dict.fromkeys(
        (
            "conditions",
            "failure-policy",
            "finally",
            "finally-in-order",
            "go-on-after-a-fix",
            "on-failure",
            "steps-by-hand",
            "timeout",
            "report-failures",
        ),
        "Failed",
    ),
    "suspend": "Pending",
}
STEPS = {
    "continue-on-failure": {"warm-up": "Failed JobFailed", "serve": "Completed"},
    "params": {"train": "Completed", "announce": "Skipped NotTaken"},
    "suspend": {"compact": "Waiting Suspended", "vacuum": "Waiting"},
}
"""Phase and reason of the steps of examples whose table is on no page of the cookbook."""


@pytest.mark.parametrize("name", ENDS)
def test_an_example_has_no_faults_and_a_comment(name: str) -> None:
    answer = jobflow("lint", EXAMPLES / f"{name}.yaml")
    assert answer.code == 0
    assert "warning" not in answer.out
    assert (EXAMPLES / f"{name}.yaml").read_text().startswith("# ")


def test_the_examples_can_be_applied_together() -> None:
    """Names are unique over all files, and kubectl warns of no missing template."""
    answer = jobflow("lint", EXAMPLES)
    assert (answer.code, answer.err) == (0, "")
    for path in EXAMPLES_BY_NAME.values():
        kinds = [manifest.kind for manifest in load([str(path)], io.BytesIO()).objects]
        flows = [i for i, kind in enumerate(kinds) if kind in ("JobFlow", "CronJobFlow")]
        assert flows == [len(kinds) - 1]


@pytest.fixture(scope="module")
def finished(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """Return the status of the finished flow of each example of the selected tests."""
    wanted = sorted(set(selected_cases(request, "name")))
    flows = run_flows({name: EXAMPLES_BY_NAME[name] for name in wanted})
    return {name: flow["status"] for name, flow in flows.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "phase"), ENDS.items())
def test_the_phase_of_a_finished_example(
    name: str, phase: str, finished: dict[str, dict[str, Any]]
) -> None:
    assert finished[name]["state"]["phase"] == phase, finished[name]


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_of_a_finished_example(name: str, finished: dict[str, dict[str, Any]]) -> None:
    found = {
        step: f"{each['phase']} {each.get('reason', '')}".strip()
        for step, each in finished[name]["conditions"].items()
    }
    flow = next(iter(found)).removesuffix(next(iter(STEPS[name])))
    assert found == {f"{flow}{step}": state for step, state in STEPS[name].items()}


def test_a_suspended_flow_is_an_error() -> None:
    answer = jobflow("run", EXAMPLES / "suspend.yaml")
    assert answer.code == 2
    assert answer.err == (
        "jobflow: error: JobFlow overnight is suspended (spec.suspend): remove suspend to "
        "run it here, or resume it on a cluster with `jobflow resume overnight`\n"
    )


def test_the_on_failure_example_succeeds_without_its_failure() -> None:
    text = (EXAMPLES / "on-failure.yaml").read_text()
    manifest = "".join(
        line
        for line in text.splitlines(keepends=True)
        if "jobflow.volcano.sh/exit-code" not in line
    )
    answer = jobflow("run", "--speed", "50", "-o", "json", "-", stdin=manifest)
    (flow,) = answer.json["items"]
    conditions = flow["status"]["conditions"]
    assert answer.code == 0
    assert conditions["forecast-evaluate"]["phase"] == "Completed"
    assert conditions["forecast-alarm"]["reason"] == "NotTaken"


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_refused_example_has_the_faults_of_its_comment(path: Path) -> None:
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


def _flows() -> list[FlowFacts]:
    """Return the facts of every refused flow, with the templates of its file."""
    found = []
    for path in REFUSED:
        typed = [to_typed(manifest) for manifest in load([str(path)], io.BytesIO()).objects]
        objects = [each.object for each in typed if each is not None]
        templates = {t.metadata.name: t for t in objects if isinstance(t, JobTemplate)}
        found += [FlowFacts(f, Known(templates)) for f in objects if isinstance(f, JobFlow)]
    return found


@pytest.mark.parametrize("rule", CRON_RULES, ids=lambda rule: rule.__name__)
def test_every_rule_of_crons_has_a_refused_example(rule: CronRule) -> None:
    typed = [
        to_typed(manifest)
        for path in REFUSED
        for manifest in load([str(path)], io.BytesIO()).objects
    ]
    crons = [each.object for each in typed if each and isinstance(each.object, CronJobFlow)]
    assert any(list(rule(cron)) for cron in crons)


TOO_LONG = {
    layers_fit_their_jobs,
    status_fits,
    expressions_are_few,
    params_are_few,
    param_values_are_small,
    references_are_small,
}
"""Rules whose faults take thousands of lines; tests/core has such flows."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "rule",
    [rule for group in (*LIMITS, *CREATE_RULES) for rule in group.rules if rule not in TOO_LONG],
    ids=lambda rule: rule.__name__,
)
def test_every_rule_of_flows_has_a_refused_example(rule: Rule) -> None:
    assert any(list(rule(facts)) for facts in _flows())


@pytest.mark.parametrize(
    "rule",
    [fields_of_layers_exist, patched_elements_exist],
    ids=lambda rule: rule.__name__,
)
def test_every_field_warning_that_lint_refuses_has_a_refused_example(
    rule: FieldWarningRule,
) -> None:
    assert any(warning.reason for facts in _flows() for warning in rule(facts))


def _faults_of_fields() -> set[str]:
    """Return the message of each trait of a field that is a rule, after the field."""
    found = set()
    for _, field in walk(CronJobFlowSpec):
        for trait in field.traits:
            match trait:
                case Required(detail):
                    found.add(f".{field.json}: Required value: {detail}")
                case NotWith(others):
                    texts = (detail.format(other) for other, detail in others.items())
                    found |= {f".{field.json}: Forbidden: {text}" for text in texts}
                case Needs(_, detail):
                    found.add(f".{field.json}: Forbidden: {detail}")
                case OneOf(names):
                    found.add(f"which is set too; keep one of {names}")
    return found


@pytest.mark.parametrize("message", sorted(_faults_of_fields()))
def test_every_trait_that_is_a_rule_has_a_refused_example(message: str) -> None:
    assert any(message in path.read_text() for path in REFUSED)


def test_skipped_rules_find_nothing_in_the_refused_examples() -> None:
    groups = (*LIMITS, *CREATE_RULES, *FLOW_WARNINGS, *FLOW_FIELD_WARNINGS)
    assert [each for facts in _flows() for each in passed_by(groups, facts)] == []


@pytest.mark.parametrize("rule", job_rules._RULES, ids=lambda rule: rule.__name__)
def test_every_rule_of_templates_has_a_refused_example(rule: Callable[..., Any]) -> None:
    specs = [
        manifest.data["spec"]
        for path in REFUSED
        for manifest in load([str(path)], io.BytesIO()).objects
        if manifest.kind == "JobTemplate"
    ]
    assert any(list(rule(job_view(spec, "spec"))) for spec in specs)
