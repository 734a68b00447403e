"""Rules of CronJobFlows: the schedule, its policies, and the metadata of its flows.

Source: the validation of `batch/v1` CronJobs (k8s.io/kubernetes, pkg/apis/batch/validation). The
flows are judged by the rules of flows (`validate_cron`).
"""

from collections.abc import Callable, Iterator

from jobflow.api.flow.cronjobflow import ConcurrencyPolicy, CronJobFlow
from jobflow.api.flow.traits import Required, find_unset
from jobflow.core.admission.object_names import metadata_violations, word_violations
from jobflow.core.admission.rules.fields import missing_field
from jobflow.core.cron import ScheduleFault, parse_schedule, parse_zone
from jobflow.core.violations import FieldWarning, Reason, Violation

TEMPLATE = "spec.jobFlowTemplate"
SHORT_DEADLINE = 10
"""Seconds of a deadline that a restart of the controller may exceed."""

CronRule = Callable[[CronJobFlow], Iterator[Violation]]


def required_fields_are_set(cron: CronJobFlow) -> Iterator[Violation]:
    return map(missing_field, find_unset(cron.spec, Required, "spec."))


def schedule_has_times(cron: CronJobFlow) -> Iterator[Violation]:
    text = cron.spec.schedule
    try:
        if text:
            parse_schedule(text, None)
    except ScheduleFault as fault:
        yield Violation("spec.schedule", Reason.INVALID, text, str(fault))


def time_zone_exists(cron: CronJobFlow) -> Iterator[Violation]:
    try:
        parse_zone(cron.spec.time_zone)
    except ScheduleFault as fault:
        yield Violation("spec.timeZone", Reason.INVALID, cron.spec.time_zone, str(fault))


def numbers_are_not_negative(cron: CronJobFlow) -> Iterator[Violation]:
    spec = cron.spec
    fields = {
        "startingDeadlineSeconds": spec.starting_deadline_seconds,
        "successfulJobsHistoryLimit": spec.successful_jobs_history_limit,
        "failedJobsHistoryLimit": spec.failed_jobs_history_limit,
    }
    for field, value in fields.items():
        if value is not None and value < 0:
            yield Violation(f"spec.{field}", Reason.INVALID, value, "must not be negative")


def concurrency_policy_exists(cron: CronJobFlow) -> Iterator[Violation]:
    policy = cron.spec.concurrency_policy
    yield from word_violations("spec.concurrencyPolicy", policy, ConcurrencyPolicy)


def previous_success_needs_wait(cron: CronJobFlow) -> Iterator[Violation]:
    spec = cron.spec
    if spec.require_previous_success and spec.concurrency_policy != ConcurrencyPolicy.WAIT:
        detail = (
            "flows start one after the other only with concurrencyPolicy: Wait; set that, or "
            "remove this field"
        )
        yield Violation("spec.requirePreviousSuccess", Reason.FORBIDDEN, None, detail)


def template_metadata_is_valid(cron: CronJobFlow) -> Iterator[Violation]:
    # a label or an annotation with a fault would make the API server refuse every flow
    template = cron.spec.job_flow_template
    if template is not None and (own := template.metadata) is not None:
        path = f"{TEMPLATE}.metadata"
        yield from metadata_violations(path, own.labels, own.annotations, "a flow")


def flows_reuse_nothing(cron: CronJobFlow) -> Iterator[Violation]:
    template = cron.spec.job_flow_template
    if template is not None and template.spec is not None and template.spec.reuse is not None:
        detail = (
            "every flow of the schedule would reuse the same flow; remove it, and use "
            "`jobflow resubmit FLOW --reuse` for one that failed"
        )
        yield Violation(f"{TEMPLATE}.spec.reuse", Reason.FORBIDDEN, None, detail)


CRON_RULES: tuple[CronRule, ...] = (
    required_fields_are_set,
    schedule_has_times,
    time_zone_exists,
    numbers_are_not_negative,
    concurrency_policy_exists,
    previous_success_needs_wait,
    template_metadata_is_valid,
    flows_reuse_nothing,
)


def deadline_is_long_enough(cron: CronJobFlow) -> Iterator[FieldWarning]:
    deadline = cron.spec.starting_deadline_seconds
    # the controller itself takes some seconds to restart
    if deadline is not None and 0 <= deadline < SHORT_DEADLINE:
        detail = (
            f"{deadline} s is short: no flow starts for a scheduled time at which the controller "
            f"restarts; use at least {SHORT_DEADLINE}"
        )
        yield FieldWarning("spec.startingDeadlineSeconds", detail)
