"""`flow.volcano.sh/v1alpha1` CronJobFlow: creates a JobFlow at each time of a schedule.

Fields, defaults and meanings are those of a `batch/v1` CronJob (k8s.io/api/batch/v1 types.go).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.traits import Apart, Required
from jobflow.api.meta import Doc, ObjectMeta, Struct
from jobflow.api.volcano.job import Int32


class ConcurrencyPolicy(StrEnum):
    """Behaviour at a scheduled time while an earlier flow of the schedule is unfinished."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


DEFAULT_SUCCESSFUL_HISTORY = 3
DEFAULT_FAILED_HISTORY = 1


class FlowTemplateMetadata(Struct, frozen=True, kw_only=True):
    """Labels and annotations of the flows."""

    labels: Annotated[dict[str, str] | None, Doc("Labels of the flows.")] = None
    annotations: Annotated[dict[str, str] | None, Doc("Annotations of the flows.")] = None


class JobFlowTemplate(Struct, frozen=True, kw_only=True):
    """The flows to create."""

    metadata: Annotated[
        FlowTemplateMetadata | None, Doc("Labels and annotations of the flows.")
    ] = None
    spec: Annotated[
        JobFlowSpec | None,
        Doc(
            "Specification of the flows. In it, flow.scheduledTime is the scheduled time as a "
            "text, such as 2026-01-01T02:00:00+01:00."
        ),
        Apart(),
        Required("write the spec of the flows to create"),
    ] = None


class CronJobFlowSpec(Struct, frozen=True, kw_only=True):
    """Specification of the schedule and its flows."""

    schedule: Annotated[
        str | None,
        Doc(
            "Times in cron format: minute, hour, day of month, month and day of week, such as "
            "30 2 * * 1-5; or @hourly, @daily, @weekly, @monthly or @yearly. Required."
        ),
        Required("write the times, such as 30 2 * * * for every day at 2:30"),
    ] = None
    time_zone: Annotated[
        str | None,
        Doc("Time zone of the schedule, such as Europe/Berlin. Default: UTC."),
    ] = None
    starting_deadline_seconds: Annotated[
        int | None,
        Doc(
            "Seconds after a scheduled time in which its flow may still start. Default: no limit.",
            format="int64",
        ),
    ] = None
    concurrency_policy: Annotated[
        str | None,
        Doc(
            "If an earlier flow of the schedule has not finished: Allow (default) starts the next "
            "one beside it, Forbid skips the next one, Replace cancels the earlier one and starts "
            "the next one when it has finished."
        ),
    ] = None
    suspend: Annotated[
        bool | None,
        Doc("Start no flow while this is true. Flows that have started continue."),
    ] = None
    job_flow_template: Annotated[
        JobFlowTemplate | None,
        Doc("The flow to create at each scheduled time. Required."),
        Required("write the spec of the flows to create"),
    ] = None
    successful_jobs_history_limit: Annotated[
        Int32 | None, Doc("Number of flows to keep that have succeeded. Default: 3.")
    ] = None
    failed_jobs_history_limit: Annotated[
        Int32 | None, Doc("Number of flows to keep that have failed. Default: 1.")
    ] = None


class FlowReference(Struct, frozen=True, kw_only=True):
    """A flow that has not finished."""

    api_version: Annotated[str, Doc("flow.volcano.sh/v1alpha1.")] = ""
    kind: Annotated[str, Doc("JobFlow.")] = ""
    namespace: Annotated[str, Doc("Namespace of the flow.")] = ""
    name: Annotated[str, Doc("Name of the flow.")] = ""
    uid: Annotated[str, Doc("UID of the flow.")] = ""


class CronJobFlowStatus(Struct, frozen=True, kw_only=True):
    """Status of the schedule."""

    active: Annotated[
        list[FlowReference] | None,
        Doc("Flows that have not finished, by time of creation, at most 100."),
    ] = None
    active_count: Annotated[Int32 | None, Doc("Number of flows that have not finished.")] = None
    last_schedule_time: Annotated[
        datetime | None, Doc("Last scheduled time at which a flow was started.")
    ] = None
    last_successful_time: Annotated[
        datetime | None, Doc("When a flow last finished with success.")
    ] = None
    replacing_for: Annotated[
        datetime | None,
        Doc(
            "With Replace: scheduled time of the flow that starts once the flows that are being "
            "cancelled for it have finished."
        ),
    ] = None


class CronJobFlow(Struct, frozen=True, kw_only=True):
    """Creates a JobFlow at each time of a schedule, as a CronJob creates Jobs."""

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "CronJobFlow"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CronJobFlowSpec = msgspec.field(default_factory=CronJobFlowSpec)
    status: CronJobFlowStatus = msgspec.field(default_factory=CronJobFlowStatus)

    @property
    def suspended(self) -> bool:
        """Whether no flow starts at present."""
        return bool(self.spec.suspend)

    @property
    def flow_spec(self) -> JobFlowSpec:
        """The specification of the flows; an empty one if it is missing."""
        template = self.spec.job_flow_template
        return (template.spec if template is not None else None) or JobFlowSpec()
