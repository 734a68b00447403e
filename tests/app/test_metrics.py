"""Metrics and their labels."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from jobflow.api.flow.status import JobFlowStatus, RequestedHours, RunCondition, StepCondition
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.api.volcano.job import Job, JobCondition, JobState, JobStatus
from jobflow.app.metrics import MAX_FIELDS, Metrics
from jobflow.controller.hooks import ReconcileResult
from jobflow.core.violations import Reason, Violation
from jobflow.kube.write_order import Urgency, WriteOrder
from jobflow.webhook.review.envelope import Answer, ReviewOutcome


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"jobflow_{name}", labels)


def refusal(*paths: str) -> Answer:
    violations = tuple(Violation(path, Reason.INVALID, "x", "") for path in paths)
    return Answer(b"", ReviewOutcome.REFUSED, operation="CREATE", violations=violations)


def test_violations_are_counted_by_field_without_indices_and_keys(metrics: Metrics) -> None:
    metrics.reviewed("JobFlow", refusal("spec.flows[2].name", "spec.flows[41].name"), 0.001)
    metrics.reviewed("JobFlow", refusal("metadata.annotations[example.com/a]"), 0.001)
    labels = {"kind": "JobFlow", "reason": "FieldValueInvalid"}
    assert value(metrics, "admission_violations_total", field="spec.flows[].name", **labels) == 2
    field = "metadata.annotations[]"
    assert value(metrics, "admission_violations_total", field=field, **labels) == 1


def test_the_number_of_unknown_fields_is_limited(metrics: Metrics) -> None:
    for i in range(MAX_FIELDS + 50):
        metrics.reviewed("JobTemplate", refusal(f"spec.plugins.p{i}"), 0.001)
    metrics.reviewed("JobTemplate", refusal("spec.plugins.p0"), 0.001)
    labels = {"kind": "JobTemplate", "reason": "FieldValueInvalid"}
    assert value(metrics, "admission_violations_total", field="other", **labels) == 50
    assert value(metrics, "admission_violations_total", field="spec.plugins.p0", **labels) == 2


def test_api_requests_are_counted_by_verb_resource_and_code(metrics: Metrics) -> None:
    for code in (201, 201, 409):
        metrics.requested("POST", "jobs", code, 0.002)
    labels = {"verb": "POST", "resource": "jobs"}
    assert value(metrics, "api_request_seconds_count", **labels, code="201") == 2
    assert value(metrics, "api_request_seconds_count", **labels, code="409") == 1


def test_the_work_of_the_controller_is_counted(metrics: Metrics) -> None:
    hooks = metrics.controller
    hooks.depth(3)
    hooks.waited(0.004)
    hooks.retried()
    hooks.reconciled(0.02, ReconcileResult.RETRIED)
    hooks.event_dropped()
    hooks.status_overwritten("kubectl-edit")
    hooks.probes(3)
    for passed in (False, True, False):
        hooks.probed(passed)
    assert value(metrics, "leader") == 0
    metrics.leads(True)
    assert value(metrics, "leader") == 1
    assert value(metrics, "probes_waiting") == 3
    assert value(metrics, "probe_attempts_total", outcome="failed") == 2
    assert value(metrics, "probe_attempts_total", outcome="passed") == 1
    assert value(metrics, "workqueue_depth") == 3
    assert value(metrics, "workqueue_wait_seconds_bucket", le="0.005") == 1
    assert value(metrics, "workqueue_retries_total") == 1
    assert value(metrics, "reconcile_seconds_count", result="retried") == 1
    assert value(metrics, "events_dropped_total") == 1
    assert value(metrics, "statuses_overwritten_total", writer="kubectl-edit") == 1


async def test_writes_that_wait_are_shown_by_urgency_and_age(metrics: Metrics) -> None:
    assert value(metrics, "write_places") is None
    now = 10.0
    order = WriteOrder(clock=lambda: now)
    order.window.limit = 1
    metrics.controller.ordered_by(order)
    async with asyncio.TaskGroup() as group, order.turn(Urgency.NEEDED, "kind"):
        waiting = group.create_task(write(order, Urgency.EVENT))
        await asyncio.sleep(0)
        now = 12.5
        assert value(metrics, "write_places") == 1
        assert value(metrics, "writes_waiting", urgency="event") == 1
        assert value(metrics, "writes_oldest_wait_seconds", urgency="event") == 2.5
        assert value(metrics, "writes_oldest_wait_seconds", urgency="needed") == 0
        assert not waiting.done()
    assert value(metrics, "writes_waiting", urgency="event") == 0
    metrics.leads(False)
    assert value(metrics, "write_places") is None


async def write(order: WriteOrder, urgency: Urgency) -> None:
    async with order.turn(urgency, "kind"):
        pass


def test_phases_are_computed_when_scraped(metrics: Metrics) -> None:
    phases = ["Running", "Running", "Failed"]
    metrics.watch_phases("flows", lambda: phases)
    assert value(metrics, "flows", phase="Running") == 2
    phases.remove("Running")
    assert value(metrics, "flows", phase="Running") == 1
    assert b'jobflow_flows{phase="Failed"} 1.0' in metrics.text()


def test_values_by_label_are_computed_when_scraped(metrics: Metrics) -> None:
    failing = {"queues": False, "pods": False}
    metrics.on_scrape("watch_failing", "Help.", lambda: failing, label="resource")
    failing["queues"] = True
    assert value(metrics, "watch_failing", resource="queues") == 1
    assert value(metrics, "watch_failing", resource="pods") == 0


def test_two_replicas_in_one_process_do_not_share_counts() -> None:
    one, other = Metrics(), Metrics()
    one.requested("GET", "jobs", 200, 0.001)
    labels = {"verb": "GET", "resource": "jobs", "code": "200"}
    assert value(other, "api_request_seconds_count", **labels) is None


def status(**cpu: str) -> JobFlowStatus:
    """The status of a flow with these core hours for each step, and half as many GiB hours."""
    return JobFlowStatus(
        conditions={
            step: StepCondition(
                requested_hours=RequestedHours(cpu=hours, memory=str(float(hours) / 2))
                if hours
                else None
            )
            for step, hours in cpu.items()
        }
    )


def test_requested_hours_are_counted_once_when_they_are_recorded(metrics: Metrics) -> None:
    recorded = metrics.controller.recorded
    recorded(JobFlowStatus(), status(a=""))
    assert value(metrics, "requested_hours_total", resource="cpu") is None
    first = status(a="1.5", b="")
    recorded(status(a=""), first)
    recorded(first, status(a="1.5", b="0.25"))
    recorded(status(a="1.5", b="0.25"), status(a="2.5", b="0.25"))
    assert value(metrics, "requested_hours_total", resource="cpu") == 2.75
    assert value(metrics, "requested_hours_total", resource="memory") == 1.375
    assert value(metrics, "requested_hours_total", resource="gpu") is None


def test_retries_and_aborts_of_each_run_are_counted_once(metrics: Metrics) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    runs = [
        RunCondition(index=0, failures=1),
        RunCondition(index=1, failures=1, abort_time=since, reason="Timeout"),
    ]
    first = JobFlowStatus(
        conditions={
            "f-a": StepCondition(runs=runs[:1], failures=0),
            "f-b": StepCondition(failures=2),
            "f-c": StepCondition(abort_time=since, reason="Cancelled"),
        }
    )
    second = JobFlowStatus(
        conditions={
            "f-a": StepCondition(runs=runs),
            "f-b": StepCondition(failures=2),
            "f-c": StepCondition(phase="Failed", reason="Cancelled"),
        }
    )
    metrics.controller.recorded(JobFlowStatus(), first)
    metrics.controller.recorded(first, second)
    metrics.controller.recorded(second, second)
    assert value(metrics, "jobs_retried_total") == 4
    assert value(metrics, "jobs_aborted_total", reason="Timeout") == 1
    assert value(metrics, "jobs_aborted_total", reason="Cancelled") == 1


def test_a_failure_without_a_retry_counts_no_retry(metrics: Metrics) -> None:
    waiting = JobFlowStatus(conditions={"f-a": StepCondition(phase="Waiting", failures=1)})
    failed = JobFlowStatus(conditions={"f-a": StepCondition(phase="Failed", failures=2)})
    metrics.controller.recorded(JobFlowStatus(), waiting)
    metrics.controller.recorded(waiting, failed)
    assert value(metrics, "jobs_retried_total") == 1


def test_invalid_hours_in_a_status_are_ignored(metrics: Metrics) -> None:
    invalid = StepCondition(requested_hours=RequestedHours(cpu="-1", memory="much", gpu="1e9"))
    metrics.controller.recorded(JobFlowStatus(), JobFlowStatus(conditions={"a": invalid}))
    for resource in ("cpu", "memory", "gpu"):
        assert value(metrics, "requested_hours_total", resource=resource) is None


def vcjob(phase: str, **seconds: int) -> Job:
    owner = OwnerReference(kind="JobFlow", name="f", uid="uid-f", controller=True)
    return Job(
        metadata=ObjectMeta(name="f-a", creation_timestamp=at(0), owner_references=[owner]),
        status=JobStatus(
            state=JobState(phase=phase),
            conditions=[
                JobCondition(status=name, last_transition_time=at(second))
                for name, second in seconds.items()
            ],
        ),
    )


def at(second: int) -> datetime:
    return datetime(2026, 8, 1, 12, tzinfo=UTC) + timedelta(seconds=second)


def test_the_waiting_and_running_time_of_a_step_is_recorded(metrics: Metrics) -> None:
    pending, running = vcjob("Pending"), vcjob("Running", Running=4)
    ended = vcjob("Completed", Running=4, Completing=9, Completed=10)
    metrics.steps.job_changed(None, pending)
    metrics.steps.job_changed(pending, running)
    metrics.steps.job_changed(running, running)
    metrics.steps.job_changed(running, ended)
    metrics.steps.job_changed(ended, ended)
    metrics.steps.job_changed(ended, None)
    assert value(metrics, "step_wait_seconds_count") == 1
    assert value(metrics, "step_wait_seconds_sum") == 4
    assert value(metrics, "step_run_seconds_count", phase="Completed") == 1
    assert value(metrics, "step_run_seconds_sum", phase="Completed") == 6


def test_the_times_of_a_step_are_recorded_if_its_phases_come_at_once(metrics: Metrics) -> None:
    metrics.steps.job_changed(vcjob("Pending"), vcjob("Failed", Running=2, Failed=2))
    assert value(metrics, "step_wait_seconds_sum") == 2
    assert value(metrics, "step_run_seconds_sum", phase="Failed") == 0


def test_steps_that_ended_earlier_or_never_ran_are_not_timed(
    metrics: Metrics,
) -> None:
    metrics.steps.job_changed(None, vcjob("Completed", Running=1, Completed=2))
    metrics.steps.job_changed(vcjob("Pending"), vcjob("Aborted", Aborted=9))
    assert value(metrics, "step_wait_seconds_count") == 0
    assert value(metrics, "step_run_seconds_count", phase="Aborted") is None


def test_the_certificate_in_use_is_reported(metrics: Metrics) -> None:
    class Certificate:
        swaps, refused, expires = 2, 1, None

    certificate = Certificate()
    metrics.watch_certificate(certificate)
    assert value(metrics, "certificate_expiry_timestamp_seconds") is None
    certificate.expires = at(0)  # type: ignore[assignment]
    assert value(metrics, "certificate_expiry_timestamp_seconds") == at(0).timestamp()
    assert value(metrics, "certificate_swaps_total") == 2
    assert value(metrics, "certificate_refusals_total") == 1
    assert b"# TYPE jobflow_certificate_swaps_total counter" in metrics.text()
