"""`flow.volcano.sh/v1alpha1` CronJobFlow: creates a JobFlow at each time of a schedule.

Fields, defaults and meanings are those of a `batch/v1` CronJob (k8s.io/api/batch/v1 types.go). Wait
and what belongs to it are not in it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.traits import Apart, Required
from jobflow.api.resources import ObjectMeta, Schema, Struct
from jobflow.api.volcano.job import Int32


class ConcurrencyPolicy(StrEnum):
    """Behaviour at a scheduled time while an earlier flow of the schedule is unfinished."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"
    WAIT = "Wait"


DEFAULT_SUCCESSFUL_HISTORY = 3
DEFAULT_FAILED_HISTORY = 1


class FlowTemplateMetadata(Struct):
    """Labels and annotations of the flows."""

    labels: dict[str, str] | None = None
    """Labels of the flows."""
    annotations: dict[str, str] | None = None
    """Annotations of the flows."""


class JobFlowTemplate(Struct):
    """The flows to create."""

    metadata: FlowTemplateMetadata | None = None
    """Labels and annotations of the flows."""
    spec: Annotated[
        JobFlowSpec | None, Apart(), Required("write the spec of the flows to create")
    ] = None
    """Specification of the flows. In it, flow.scheduledTime is the scheduled time as a text, such
    as 2026-01-01T02:00:00+01:00."""


class CronJobFlowSpec(Struct):
    """Specification of the schedule and its flows."""

    schedule: Annotated[
        str | None, Required("write the times, such as 30 2 * * * for every day at 2:30")
    ] = None
    """Times in cron format: minute, hour, day of month, month and day of week, such as 30 2 * *
    1-5; or @hourly, @daily, @weekly, @monthly or @yearly. Required."""
    time_zone: str | None = None
    """Time zone of the schedule, such as Europe/Berlin. Default: UTC."""
    starting_deadline_seconds: Annotated[int | None, Schema(format="int64")] = None
    """Seconds after a scheduled time in which its flow may still start. Default: no limit."""
    concurrency_policy: str | None = None
    """If an earlier flow of the schedule has not finished: Allow (default) starts the next one
    beside it, Forbid skips the next one, Replace cancels the earlier one and starts the next one
    when it has finished. Wait gives every scheduled time its flow, also the missed ones, one after
    the other."""
    require_previous_success: bool | None = None
    """With Wait: start the next flow only when the one before has succeeded, was deleted and made
    again with success, or was settled by jobflow skip cjf/NAME."""
    suspend: bool | None = None
    """Start no flow while this is true. Flows that have started continue."""
    job_flow_template: Annotated[
        JobFlowTemplate | None, Required("write the spec of the flows to create")
    ] = None
    """The flow to create at each scheduled time. Required."""
    successful_jobs_history_limit: Int32 | None = None
    """Number of flows to keep that have succeeded. Default: 3."""
    failed_jobs_history_limit: Int32 | None = None
    """Number of flows to keep that have failed. Default: 1."""


class FlowReference(Struct):
    """A flow that has not finished."""

    api_version: str = ""
    """flow.volcano.sh/v1alpha1."""
    kind: str = ""
    """JobFlow."""
    namespace: str = ""
    """Namespace of the flow."""
    name: str = ""
    """Name of the flow."""
    uid: str = ""
    """UID of the flow."""


class CronJobFlowStatus(Struct):
    """Status of the schedule."""

    active: list[FlowReference] | None = None
    """Flows that have not finished, by time of creation, at most 100."""
    active_count: Int32 | None = None
    """Number of flows that have not finished."""
    last_schedule_time: datetime | None = None
    """Last scheduled time at which a flow was started."""
    last_successful_time: datetime | None = None
    """When a flow last finished with success."""
    replacing_for: datetime | None = None
    """With Replace: scheduled time of the flow that starts once the flows that are being cancelled
    for it have finished."""
    waits_for: str | None = None
    """With Wait: name of the flow that starts or runs now, or with requirePreviousSuccess has not
    succeeded. The next one starts after it; until then neither its ttl nor a history limit deletes
    it."""


class CronJobFlow(Struct):
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
