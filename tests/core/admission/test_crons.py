"""Rules of CronJobFlows, and those of flows for the flows that they create."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobTemplate
from jobflow.core.admission.analysis.flow_facts import Known
from jobflow.core.admission.validate import validate_cron, validate_cron_delete
from jobflow.core.planning.cron import plan_cron
from support.sandbox.running_controller import template

TEMPLATES = {"a": msgspec.convert(template("a"), JobTemplate)}
FLOW = "spec.jobFlowTemplate.spec"


def cron(flow: Any = None, metadata: Any = None, **spec: Any) -> CronJobFlow:
    """Return a CronJobFlow whose flows have this spec."""
    template = {"spec": {"flows": [{"name": "a"}]} if flow is None else flow}
    manifest = {
        "metadata": {"name": "c", "namespace": "n", **(metadata or {})},
        "spec": {"schedule": "0 2 * * *", "jobFlowTemplate": template, **spec},
    }
    return msgspec.convert(manifest, CronJobFlow)


def faults(subject: CronJobFlow) -> list[str]:
    verdict = validate_cron(subject, Known(templates=TEMPLATES))
    return [violation.path for violation in verdict.violations]


def test_a_cron_with_only_the_required_fields_has_no_faults() -> None:
    verdict = validate_cron(cron(), Known(templates=TEMPLATES))
    assert (verdict.violations, verdict.all_warnings) == ((), ())


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"schedule": None}, "spec.schedule"),
        ({"schedule": "0 0 31 11 *"}, "spec.schedule"),
        ({"timeZone": ""}, "spec.timeZone"),
        ({"timeZone": "Local"}, "spec.timeZone"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit"),
        ({"concurrencyPolicy": "allow"}, "spec.concurrencyPolicy"),
        ({"requirePreviousSuccess": True}, "spec.requirePreviousSuccess"),
        ({"jobFlowTemplate": None}, "spec.jobFlowTemplate"),
        ({"jobFlowTemplate": {}}, FLOW),
        ({"metadata": {"name": "Nightly"}}, "metadata.name"),
        ({"metadata": {"name": ""}}, "metadata.name"),
        ({"flow": {"flows": []}}, f"{FLOW}.flows"),
        ({"flow": {"flows": [{"name": "a", "when": "1"}]}}, f"{FLOW}.flows[0].when"),
    ],
)
def test_a_fault_is_at_its_place(spec: dict[str, Any], path: str) -> None:
    assert faults(cron(**spec)) == [path]


def test_all_faults_are_reported_at_once() -> None:
    subject = cron({"flows": [{"name": "A"}]}, schedule="x", concurrencyPolicy="y")
    assert faults(subject) == ["spec.schedule", "spec.concurrencyPolicy", f"{FLOW}.flows[0].name"]


def test_the_names_of_manual_flows_are_the_longest_and_have_to_fit() -> None:
    """63 characters of a pod: the cron, -manual-, 5 random ones, and -a-main-0."""
    fits = 63 - len("-manual-xxxxx") - len("-a-main-0")
    assert faults(cron(metadata={"name": "c" * fits})) == []
    assert faults(cron(metadata={"name": "c" * (fits + 1)})) == [f"{FLOW}.flows[0].name"]
    generated = {"name": "", "generateName": "c" * (fits - 4)}
    assert faults(cron(metadata=generated)) == [f"{FLOW}.flows[0].name"]


@pytest.mark.parametrize("name", ["scheduledTime", "name"])
def test_expressions_and_references_may_use_the_scheduled_time(name: str) -> None:
    containers = [{"name": "main", "env": [{"name": "T", "value": f"$(flow.{name})"}]}]
    tasks = [{"name": "main", "template": {"spec": {"containers": containers}}}]
    when = f'flow.{name} != ""'
    step = {"name": "a", "when": when, "patch": {"jobSpec": {"tasks": tasks}}}
    assert faults(cron({"flows": [step]})) == []


def test_a_short_deadline_and_a_missing_template_are_warnings() -> None:
    verdict = validate_cron(
        cron({"flows": [{"name": "b"}]}, startingDeadlineSeconds=5), Known(templates=TEMPLATES)
    )
    assert verdict.violations == ()
    assert [text.split(":")[0] for text in verdict.all_warnings] == [
        verdict.warnings[0].split(":")[0],
        "spec.startingDeadlineSeconds",
    ]
    assert '"b"' in verdict.warnings[0] or " b" in verdict.warnings[0]


ACTIVE = {"active": [{"name": "c-1"}, {"name": "c-2"}]}
FORCED = {"annotations": {"flow.volcano.sh/force-delete": "true"}}


@pytest.mark.parametrize(
    ("status", "metadata", "refused"),
    [
        ({}, {}, False),
        (ACTIVE, {}, True),
        (ACTIVE, FORCED, False),
        (ACTIVE, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_a_cron_with_active_flows_is_not_deleted_by_accident(
    status: Any, metadata: Any, refused: bool
) -> None:
    manifest = {"metadata": {"name": "c", **metadata}, "status": status}
    subject = msgspec.convert(manifest, CronJobFlow)
    verdict = validate_cron_delete(subject)
    assert bool(verdict.violations) == refused
    if refused:
        assert verdict.violations[0].detail == (
            "CronJobFlow c has 2 active flows (c-1 and c-2): suspend it "
            "(`jobflow suspend cjf/c`) and wait until they have finished, or cancel them "
            "(`jobflow cancel`); to delete it anyway, `kubectl annotate cjf c "
            "flow.volcano.sh/force-delete=true` and delete it again"
        )


WORDS = st.text(st.sampled_from("0159*/-,?@LW# \t\u0661éjanmoTZ="), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "schedule": st.one_of(WORDS, st.text(max_size=20), st.lists(WORDS).map(" ".join)),
            "timeZone": st.one_of(WORDS, st.text(max_size=20)),
            "concurrencyPolicy": WORDS,
            "startingDeadlineSeconds": NUMBERS,
            "successfulJobsHistoryLimit": st.integers(-(2**31), 2**31 - 1),
        },
    )
)
@example({"startingDeadlineSeconds": -251_622_028_800})
def test_no_text_or_number_makes_admission_or_the_plan_raise(spec: dict[str, Any]) -> None:
    """A cron that was stored without the webhook is planned too."""
    subject = cron(**spec)
    verdict = validate_cron(subject, Known(templates=TEMPLATES))
    plan = plan_cron(subject, [], datetime(2026, 6, 1, tzinfo=UTC))
    assert not plan.actions
    if {"spec.schedule", "spec.timeZone"} & {each.path for each in verdict.violations}:
        assert [notice.reason for notice in plan.notices] == ["ScheduleInvalid"]
