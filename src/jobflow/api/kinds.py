"""The kinds that JobFlow defines, one row each.

CRDs, the check of installed CRDs, review paths, the printed configuration of the webhook and the
sandbox read the table. CONTRIBUTING.md lists what else a new kind needs.
"""

from dataclasses import dataclass

from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.job import JobSpec
from jobflow.api.jobflow import JobFlow, JobFlowSpec
from jobflow.api.jobtemplate import JobTemplate, JobTemplateStatus
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, Resource

Column = tuple[str, str, str, int]
"""Name, type, JSON path and priority (0: always shown, 1: with -o wide) of a printer column."""
FlowObject = JobFlow | JobTemplate
"""An object of a kind in the table below."""


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A kind of the group `flow.volcano.sh`."""

    resource: Resource
    object_type: type[FlowObject]
    """The type that an object is decoded to."""
    spec_type: type
    status_type: type
    short_name: str
    columns: tuple[Column, ...]
    job_specs: tuple[str, ...]
    """Paths of vcjob specs and patches of them. A CRD sets no defaults below these paths, because
    Volcano sets them when the vcjob is created."""

    @property
    def name(self) -> str:
        """The `kind` of an object."""
        return self.resource.kind

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.resource.plural}.{self.resource.group}"

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
        ),
        job_specs=(
            "spec.flows[].patch",
            "spec.flows[].switch[].patch",
            "spec.finally[].patch",
            "spec.finally[].switch[].patch",
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
        job_specs=("spec",),
    ),
)

KINDS = {row.name: row for row in _ROWS}
"""The rows by kind."""
