"""`flow.volcano.sh/v1alpha1` JobFlow, the steps of a workflow, and JobTemplate, their jobs."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.flow.control import (
    Concurrency,
    DurationOrParam,
    IntOrParam,
    JobDefaults,
    Param,
    Reuse,
)
from jobflow.api.flow.status import FINAL_PHASES, JobFlowStatus
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import (
    Apart,
    Evaluated,
    InChild,
    Plain,
    Referring,
    Stage,
    ValueKind,
    fields_of,
)
from jobflow.api.resources import ObjectMeta, Schema, Struct
from jobflow.api.volcano.job import Int32, Opaque


class RetainPolicy(StrEnum):
    """Fate of the vcjobs of a flow that has succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


class JobFlowSpec(Struct):
    """Specification of the flow."""

    flows: Annotated[list[Step] | None, Plain(), Apart(), InChild()] = None
    """Steps, at least one."""
    targets: list[str] | None = None
    """Names of the steps to run, with all steps that they depend on; the other steps of flows are
    Skipped. Steps of finally run in any case. Default: all steps."""
    job_retain_policy: Annotated[
        str | None, Schema(enum=["retain", "delete"]), Plain(), InChild(inherited=True)
    ] = None
    """retain (default) keeps the flow's jobs; delete deletes them once the flow has succeeded."""
    params: Annotated[list[Param] | None, InChild()] = None
    """Parameters for patches and CEL expressions."""
    job_defaults: Annotated[JobDefaults | None, InChild(inherited=True)] = None
    """Defaults for every job. Templates and patches override them."""
    volume_claims: Annotated[dict[str, Any] | None, Opaque, Referring(Stage.FLOW_START)] = None
    """PersistentVolumeClaims of the flow: name to spec, see `kubectl explain pvc.spec`. The claim
    <flow>-<name> is created before the first job that mounts it, and deleted with the flow. A pod
    whose containers mount a volume of that name gets it. Strings may contain references such as
    $(params.size)."""
    parallelism: Annotated[IntOrParam | None, InChild()] = None
    """Maximum number of jobs at a time. Steps start in the order of flows. It may be a reference to
    a param, such as $(params.n)."""
    reuse: Reuse | None = None
    """Ended flow whose results are reused: what completed there and is unchanged does not run
    again. Default: every step runs."""
    concurrency: Concurrency | None = None
    """Group of flows of which only some run at once. Default: every flow starts at once."""
    timeout: Annotated[DurationOrParam | None, InChild()] = None
    """Maximum time of the whole flow, such as 12h, without the time it was suspended. It may be a
    reference to a param, such as $(params.limit)."""
    failure_policy: Annotated[str | None, InChild()] = None
    """Effect of a failed step: Stop (default) starts no more jobs, Abort also aborts running jobs,
    Continue runs all steps that do not depend on the failed one, and all items of a forEach."""
    finally_: Annotated[list[Step] | None, Apart(), InChild()] = msgspec.field(
        name="finally", default=None
    )
    """Steps that run after all others have finished, whether the flow succeeded or not. They run in
    parallel, unless they depend on each other; they cannot depend on steps of flows, and cannot be
    daemons. Their CEL expressions can use every step of flows, the steps of finally that they
    depend on, flow.phase and flow.failures."""
    outputs: Annotated[
        dict[str, str] | None, Evaluated(Stage.FLOW_END, ValueKind.ANY), InChild()
    ] = None
    """Outputs of the flow, by name: CEL expressions such as steps["train"].outputs.accuracy. They
    are evaluated after finally, can use every step, and are stored in status.outputs."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after which the finished flow is deleted. Default: never."""
    ttl_seconds_after_succeeded: Int32 | None = None
    """Seconds after which a flow that has succeeded is deleted. Default:
    ttlSecondsAfterFinished."""
    ttl_seconds_after_failed: Int32 | None = None
    """Seconds after which a failed flow is deleted. Default: ttlSecondsAfterFinished."""
    suspend: Annotated[bool | None, Plain()] = None
    """Create the flow suspended: no job starts until it is resumed."""

    @property
    def all_steps(self) -> list[Step]:
        """`flows`, then `finally`."""
        return [*(self.flows or ()), *(self.finally_ or ())]


STEP_LISTS = {field.name: field.json for field in fields_of(JobFlowSpec) if field.struct is Step}
"""Fields of a flow that hold its steps: Python names -> JSON names."""


def templates_of(step: Step) -> list[str]:
    """Return all JobTemplates that a step and its child flows may run, in the order of `switch`."""
    found: dict[str, None] = {}
    for case in step.switch or (None,):
        if (raw := step.flow_for(case)) is not None:
            steps = child_spec(raw).all_steps
            found |= dict.fromkeys(name for each in steps for name in templates_of(each))
        elif name := step.template_for(case):
            found[name] = None
    return list(found)


def child_spec(raw: dict[str, Any]) -> JobFlowSpec:
    """Return the spec of a child flow without its params; an empty one if it cannot be decoded."""
    # its params are a map, and those of a flow a list
    try:
        return msgspec.convert({k: v for k, v in raw.items() if k != "params"}, JobFlowSpec)
    except (msgspec.ValidationError, RecursionError):
        return JobFlowSpec()


class JobFlow(Struct):
    """A workflow of Volcano jobs. Each step creates a job from a JobTemplate once its dependencies
    are met."""

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobFlow"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: JobFlowStatus = msgspec.field(default_factory=JobFlowStatus)

    @property
    def steps(self) -> list[Step]:
        """`spec.flows`, or an empty list."""
        return self.spec.flows or []

    @property
    def all_steps(self) -> list[Step]:
        """`spec.flows`, then `spec.finally`."""
        return self.spec.all_steps

    @property
    def templates(self) -> list[str]:
        """All JobTemplates that a step may run, with the cases of `switch` and `finally`."""
        return list(dict.fromkeys(name for step in self.all_steps for name in templates_of(step)))

    @property
    def is_child(self) -> bool:
        """Whether another flow controls this one."""
        owner = self.metadata.controller
        return owner is not None and owner.kind == "JobFlow"

    @property
    def final(self) -> bool:
        """Whether the flow has finished: Succeed or Failed."""
        return self.status.state.phase in FINAL_PHASES


class JobTemplateStatus(Struct):
    """Status of the template."""

    job_depends_on_list: list[str] | None = None
    """Names of existing Volcano jobs of this template, newest first, at most 100. Updated at most
    every 30 s."""


class JobTemplate(Struct):
    """A Volcano job specification from which steps of JobFlows create jobs.

    `spec` stays as it was written, so that fields which this version does not know reach the job.
    """

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobTemplate"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: dict[str, Any] = {}
    status: JobTemplateStatus = JobTemplateStatus()
