"""`flow.volcano.sh/v1alpha1` JobFlow: the steps of a workflow of Volcano jobs."""

from enum import StrEnum
from typing import Annotated

import msgspec

from jobflow.api.control import Case, ForEach, JobDefaults, Param, Patch, Repeat, Retry
from jobflow.api.flow_status import FINAL_PHASES, Decisions, JobFlowStatus
from jobflow.api.job import Int32
from jobflow.api.meta import Doc, ObjectMeta, Struct


class Strategy(StrEnum):
    """Number of targets that must reach the condition."""

    ALL = "all"
    ANY = "any"


class Condition(StrEnum):
    """The state that a target must reach."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    FINISHED = "Finished"
    RUNNING = "Running"


class RetainPolicy(StrEnum):
    """Fate of the vcjobs of a flow that has succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


class HTTPHeader(Struct, frozen=True, kw_only=True):
    """HTTP header of a probe."""

    name: Annotated[str | None, Doc("Name of the header.")] = None
    value: Annotated[str | None, Doc("Value of the header.")] = None


class HTTPGetProbe(Struct, frozen=True, kw_only=True):
    """HTTP request to each pod of a task."""

    task_name: Annotated[str | None, Doc("Name of the task whose pods are probed.")] = None
    path: Annotated[str | None, Doc("Path, which begins with a slash.")] = None
    port: Annotated[int | None, Doc("Port, 1 to 65535.")] = None
    http_header: Annotated[HTTPHeader | None, Doc("Header to send.")] = None

    @property
    def header(self) -> tuple[str, str] | None:
        """The header's name and value. None if both are empty, as Go clients write an unset one."""
        header = self.http_header
        if header is None or not (header.name or header.value):
            return None
        return header.name or "", header.value or ""


class TCPSocketProbe(Struct, frozen=True, kw_only=True):
    """TCP connection to each pod of a task."""

    task_name: Annotated[str | None, Doc("Name of the task whose pods are probed.")] = None
    port: Annotated[int | None, Doc("Port, 1 to 65535.")] = None


class TaskStatusProbe(Struct, frozen=True, kw_only=True):
    """Phase of a task's pods."""

    task_name: Annotated[str | None, Doc("Name of the task whose pods are counted.")] = None
    phase: Annotated[
        str | None,
        Doc(
            "Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase "
            "has reached Pending and Running too."
        ),
    ] = None
    count: Annotated[
        Int32 | None, Doc("Number of pods that must reach the phase. Default: all.")
    ] = None


class Probe(Struct, frozen=True, kw_only=True):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass for
    it; the condition is ignored."""

    http_get_list: Annotated[list[HTTPGetProbe] | None, Doc("HTTP requests that must succeed.")] = (
        None
    )
    tcp_socket_list: Annotated[
        list[TCPSocketProbe] | None, Doc("TCP connections that must succeed.")
    ] = None
    task_status_list: Annotated[
        list[TaskStatusProbe] | None, Doc("Pod phases that must be reached.")
    ] = None

    @property
    def empty(self) -> bool:
        """Whether the probe has no checks; then the condition decides."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class DependsOn(Struct, frozen=True, kw_only=True):
    """Steps that a step waits for, and when it starts."""

    targets: Annotated[list[str] | None, Doc("Names of the steps to wait for.")] = None
    strategy: Annotated[
        str | None,
        Doc(
            "all (default): start when every target has reached the condition. any: start when "
            "the first one has."
        ),
    ] = None
    condition: Annotated[
        str | None,
        Doc(
            "State that a target must reach: Completed (default), Failed (the step runs only if "
            "the target fails), Finished (either of them) or Running (the target has started)."
        ),
    ] = None
    probe: Annotated[
        Probe | None,
        Doc(
            "Checks of the tasks and pods of the targets' jobs, which decide instead of condition "
            "whether a target is met."
        ),
    ] = None


class Step(Struct, frozen=True, kw_only=True):
    """A step: runs a JobTemplate as a Volcano job once its dependencies are met."""

    name: Annotated[
        str,
        Doc(
            "Name, unique in the flow. It is also the name of the JobTemplate to run, unless "
            "template is set. The job is named <flow>-<step>."
        ),
    ] = ""
    template: Annotated[
        str | None, Doc("JobTemplate to run. Default: the one named like the step.")
    ] = None
    depends_on: Annotated[
        DependsOn | None, Doc("Steps to wait for. Default: the step starts at once.")
    ] = None
    patch: Annotated[Patch | None, Doc("Changes to the template.")] = None
    when: Annotated[
        str | None,
        Doc(
            'CEL condition, such as steps["x"].outputs.n > 1. It can use params, flow and the '
            "steps that this one depends on, directly or not. Evaluated once; if false, the step "
            "is Skipped."
        ),
    ] = None
    switch: Annotated[
        list[Case] | None,
        Doc(
            "Cases, in order; the first one whose condition is true decides which template runs. "
            "If no condition is true, the step is Skipped. Excludes template."
        ),
    ] = None
    for_each: Annotated[
        ForEach | None, Doc("Run one job per item. Set exactly one of items, from or count.")
    ] = None
    repeat: Annotated[
        Repeat | None,
        Doc("Run again, one run after another, until a condition is true. Excludes forEach."),
    ] = None
    retry: Annotated[Retry | None, Doc("Run the step again if it fails.")] = None
    timeout: Annotated[
        str | None,
        Doc(
            "Maximum time of one attempt after its job is first Running, such as 2h. Then the job "
            "is aborted and the attempt has failed."
        ),
    ] = None
    daemon: Annotated[
        bool | None,
        Doc(
            "The step is a service. Dependants start once it runs, or once their probe passes. It "
            "is stopped when all other steps have finished."
        ),
    ] = None
    continue_on_failure: Annotated[
        bool | None,
        Doc(
            "If the step fails, the flow does not fail and dependants start. With forEach, every "
            "item runs even if others fail."
        ),
    ] = None

    @property
    def template_name(self) -> str:
        """The JobTemplate that the step runs unless a case of `switch` names another."""
        return self.template or self.name

    def template_for(self, case: Case | None) -> str:
        """Return the JobTemplate that the step runs in this case of `switch`."""
        return (case.template if case is not None else None) or self.template_name

    def case_of(self, decided: Decisions | None) -> Case | None:
        """Return the case of `switch` that was taken, or None."""
        taken = decided.case if decided is not None else None
        cases = self.switch or ()
        return cases[taken] if taken is not None and 0 <= taken < len(cases) else None

    @property
    def templates(self) -> list[str]:
        """All JobTemplates that the step may run, in the order of the cases of `switch`."""
        if not self.switch:
            return [self.template_name]
        return list(dict.fromkeys(self.template_for(case) for case in self.switch))

    @property
    def targets(self) -> list[str]:
        """The names of the steps that this one depends on."""
        return (self.depends_on.targets if self.depends_on else None) or []


class JobFlowSpec(Struct, frozen=True, kw_only=True):
    """Specification of the flow."""

    flows: Annotated[list[Step] | None, Doc("Steps, at least one.")] = None
    job_retain_policy: Annotated[
        str | None,
        Doc(
            "retain (default) keeps the flow's jobs; delete deletes them once the flow has "
            "succeeded.",
            enum=["retain", "delete"],
        ),
    ] = None
    params: Annotated[list[Param] | None, Doc("Parameters for patches and CEL expressions.")] = None
    job_defaults: Annotated[
        JobDefaults | None, Doc("Defaults for every job. Templates and patches override them.")
    ] = None
    parallelism: Annotated[
        Int32 | None, Doc("Maximum number of jobs at a time. Steps start in the order of flows.")
    ] = None
    timeout: Annotated[
        str | None,
        Doc("Maximum time of the whole flow, such as 12h, without the time it was suspended."),
    ] = None
    failure_policy: Annotated[
        str | None,
        Doc(
            "Effect of a failed step: Stop (default) starts no more jobs, Abort also aborts "
            "running jobs, Continue runs all steps that do not depend on the failed one, and all "
            "items of a forEach."
        ),
    ] = None
    finally_: Annotated[
        list[Step] | None,
        Doc(
            "Steps that run in parallel after all others have finished, whether the flow "
            "succeeded or not. They cannot have dependsOn or daemon. Their CEL expressions can "
            "use every step and flow.phase."
        ),
    ] = msgspec.field(name="finally", default=None)
    ttl_seconds_after_finished: Annotated[
        Int32 | None, Doc("Seconds after which the finished flow is deleted. Default: never.")
    ] = None
    suspend: Annotated[
        bool | None, Doc("Create the flow suspended: no job starts until it is resumed.")
    ] = None


class JobFlow(Struct, frozen=True, kw_only=True):
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
        return [*self.steps, *(self.spec.finally_ or ())]

    @property
    def templates(self) -> list[str]:
        """All JobTemplates that a step may run, with the cases of `switch` and `finally`."""
        return list(dict.fromkeys(name for step in self.all_steps for name in step.templates))

    @property
    def final(self) -> bool:
        """Whether the flow has finished: Succeed or Failed."""
        return self.status.state.phase in FINAL_PHASES
