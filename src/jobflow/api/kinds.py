"""The kinds that JobFlow defines, one row each (CONTRIBUTING.md, Add a kind)."""

from dataclasses import dataclass

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow, CronJobFlowSpec, CronJobFlowStatus
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate, JobTemplateStatus
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.flow.traits import walk
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, JOBTEMPLATES, Resource
from jobflow.api.volcano.job import JobSpec

Column = tuple[str, str, str, int]
"""Name, type, JSON path and priority (0: always shown, 1: with -o wide) of a printer column."""
FlowObject = JobFlow | JobTemplate | CronJobFlow


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A kind of the group `flow.volcano.sh`."""

    resource: Resource
    object_type: type[FlowObject]
    spec_type: type[msgspec.Struct]
    status_type: type
    short_name: str
    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        return self.resource.kind

    @property
    def job_specs(self) -> tuple[str, ...]:
        """Paths of vcjob specs and of parts of them."""
        # a CRD sets no defaults below them, because Volcano does when the vcjob is created
        if self.spec_type is JobSpec:
            return ("spec",)
        places = walk(self.spec_type, "spec.")
        return tuple(path for path, field in places if field.is_of_job)

    @property
    def review_path(self) -> str:
        """The URL path at which the webhook answers reviews of this kind."""
        return f"/{self.resource.plural}/validate"


_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)

_ROWS = (
    FlowKind(
        resource=JOBFLOWS,
        object_type=JobFlow,
        spec_type=JobFlowSpec,
        status_type=JobFlowStatus,
        short_name="jf",
        columns=(
            ("Status", "string", ".status.state.phase", 0),
            ("Reason", "string", ".status.state.reason", 0),
            ("Progress", "string", ".status.progress", 0),
            ("Duration", "string", ".status.duration", 0),
            _AGE,
            ("Message", "string", ".status.state.message", 1),
            ("Started", "date", ".status.startTime", 1),
            ("Parent", "string", r".metadata.labels.flow\.volcano\.sh/parent", 1),
        ),
    ),
    FlowKind(
        resource=JOBTEMPLATES,
        object_type=JobTemplate,
        spec_type=JobSpec,
        status_type=JobTemplateStatus,
        short_name="jt",
        columns=(
            ("Queue", "string", ".spec.queue", 0),
            ("Tasks", "string", ".spec.tasks[*].name", 0),
            _AGE,
        ),
    ),
    FlowKind(
        resource=CRONJOBFLOWS,
        object_type=CronJobFlow,
        spec_type=CronJobFlowSpec,
        status_type=CronJobFlowStatus,
        short_name="cjf",
        columns=(
            ("Schedule", "string", ".spec.schedule", 0),
            ("Time Zone", "string", ".spec.timeZone", 1),
            ("Suspend", "boolean", ".spec.suspend", 0),
            ("Active", "integer", ".status.activeCount", 0),
            ("Last Schedule", "date", ".status.lastScheduleTime", 0),
            _AGE,
            ("Last Success", "date", ".status.lastSuccessfulTime", 1),
        ),
    ),
)

KINDS = {row.name: row for row in _ROWS}
