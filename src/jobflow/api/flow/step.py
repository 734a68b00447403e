"""A step of a flow: its work, the steps that it waits for, and when and how often it runs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from jobflow.api.flow import control
from jobflow.api.flow.control import Case
from jobflow.api.flow.status import Decisions
from jobflow.api.flow.traits import (
    EVERY_KIND,
    OF_JOBS,
    Evaluated,
    For,
    JobPart,
    NotWith,
    Plain,
    Referring,
    Required,
    Role,
    Runs,
    Stage,
    ValueKind,
    WorkKind,
)
from jobflow.api.resources import Struct
from jobflow.api.volcano.job import Int32, Opaque


class HTTPHeader(Struct):
    """HTTP header of a probe."""

    name: str | None = None
    """Name of the header."""
    value: str | None = None
    """Value of the header."""


class HTTPGetProbe(Struct):
    """HTTP request to each pod of a task."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are probed."""
    path: Annotated[str | None, Required('set the path to request, such as "/healthz"')] = None
    """Path, which begins with a slash."""
    port: Annotated[int | None, Required("set the port of the pods")] = None
    """Port, 1 to 65535."""
    http_header: HTTPHeader | None = None
    """Header to send."""

    @property
    def header(self) -> tuple[str, str] | None:
        """The header's name and value. None if both are empty, as Go clients write an unset one."""
        header = self.http_header
        if header is None or not (header.name or header.value):
            return None
        return header.name or "", header.value or ""


class TCPSocketProbe(Struct):
    """TCP connection to each pod of a task."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are probed."""
    port: Annotated[int | None, Required("set the port of the pods")] = None
    """Port, 1 to 65535."""


class TaskStatusProbe(Struct):
    """Phase of a task's pods."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are counted."""
    phase: Annotated[
        str | None,
        Required('set the phase to wait for: "Pending", "Running", "Succeeded", "Failed"'),
    ] = None
    """Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase has reached
    Pending and Running too."""
    count: Int32 | None = None
    """Number of pods that must reach the phase. Default: all."""


class Probe(Struct):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass for
    it; the condition is ignored."""

    http_get_list: list[HTTPGetProbe] | None = None
    """HTTP requests that must succeed."""
    tcp_socket_list: list[TCPSocketProbe] | None = None
    """TCP connections that must succeed."""
    task_status_list: list[TaskStatusProbe] | None = None
    """Pod phases that must be reached."""

    @property
    def empty(self) -> bool:
        """Whether the probe has no checks; then the condition decides."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


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
    NOT_FAILED = "NotFailed"
    ALWAYS = "Always"


class ItemDependency(StrEnum):
    """How the items of a step depend on the items of its targets."""

    MATCHING = "Matching"


class DependsOn(Struct):
    """Steps that a step waits for, and when it starts."""

    targets: Annotated[list[str] | None, Plain()] = None
    """Names of the steps to wait for."""
    strategy: str | None = None
    """all (default): start when every target has reached the condition. any: start when the first
    one has."""
    condition: str | None = None
    """State that a target must reach: Completed (default), Failed (the step runs only if the target
    fails), Finished (Completed, Failed, or skipped because of a failure before it), Running (the
    target has started), NotFailed (Completed, or skipped because it was not taken) or Always (it
    has ended in any way)."""
    conditions: dict[str, str] | None = None
    """Conditions of single targets, by the name of the step, where they differ from condition."""
    probe: Probe | None = None
    """Checks of the tasks and pods of the targets' jobs, which decide instead of condition whether
    a target is met."""

    items: str | None = None
    """Matching: item i of the step's forEach waits only for item i of each target with forEach.
    Without forEach, the step has the items of its targets. Default: the step waits for all items of
    its targets."""


class Step(Struct):
    """A step: runs a Volcano job once its dependencies are met. Set at most one of template,
    jobSpec and container."""

    name: Annotated[str, Plain(), EVERY_KIND] = ""
    """Name, unique in the flow. It is also the name of the JobTemplate to run, unless template,
    jobSpec or container is set. The job is named <flow>-<step>."""
    template: Annotated[str | None, Plain(), Runs(WorkKind.JOB)] = None
    """JobTemplate to run. Default: the one named like the step."""
    flow: Annotated[
        dict[str, Any] | None, Opaque, Runs(WorkKind.FLOW), Referring(Stage.JOB, below="params")
    ] = None
    """Flow to run as a child, instead of a template: flows, finally, outputs, params,
    failurePolicy, parallelism and timeout as in the spec of a JobFlow, except that params is a map
    of values, which may hold references such as $(item). Its steps see nothing else of this
    flow."""
    job_spec: control.JobSpecField = None
    container: control.ContainerField = None
    volumes: control.VolumesField = None
    env: Annotated[dict[str, Any] | None, Opaque, JobPart(Role.ENV), OF_JOBS] = None
    """Environment variables of every container and init container: name to text, number, boolean or
    {valueFrom: ...}. A variable replaces the one with its name, and null removes it. Strings may
    contain references."""
    image: Annotated[str | None, JobPart(Role.ARGUMENT), OF_JOBS] = None
    """Image of the first container of the first task. May be a reference."""
    command: Annotated[Any, JobPart(Role.ARGUMENT), OF_JOBS] = None
    """Command of the first container of the first task: a list, which may have references."""
    args: Annotated[Any, JobPart(Role.ARGUMENT), OF_JOBS] = None
    """Arguments of the first container of the first task: a list of texts, numbers and booleans,
    which may have references."""
    resources: Annotated[Any, JobPart(Role.ARGUMENT), OF_JOBS] = None
    """Resources of the first container of the first task, merged into its own, such as {limits:
    {nvidia.com/gpu: 1}}. Strings may contain references."""
    approval: Annotated[
        control.Approval | None, Runs(WorkKind.APPROVAL), For((WorkKind.APPROVAL,))
    ] = None
    """Run no job, but wait until a user approves or rejects. Excludes template, jobSpec and
    container."""
    compute: control.ComputeField = None
    fail: control.FailField = None
    depends_on: Annotated[DependsOn | None, Plain(), EVERY_KIND] = None
    """Steps to wait for. Default: the step starts at once."""
    vars: Annotated[dict[str, str] | None, Evaluated(Stage.VARS, ValueKind.ANY)] = None
    """Values for the job, computed for each attempt when it is created: name to CEL expression,
    such as params.batch / steps["x"].outputs.gpus. Env, patches and so on refer to one as
    $(vars.NAME). They see only phase and job of a step that may still run."""
    patch: Annotated[
        control.Patch | None,
        For((WorkKind.JOB,), {WorkKind.FLOW: "write the patches into the steps of the flow"}),
    ] = None
    """Changes to the job."""
    when: Annotated[str | None, Evaluated(Stage.DECISION), EVERY_KIND] = None
    """CEL condition, such as steps["x"].outputs.n > 1. It can use params, flow and the steps that
    this one depends on, directly or not. Evaluated once; if false, the step is Skipped."""
    switch: Annotated[list[Case] | None, Runs()] = None
    """Cases, in order; the first one whose condition is true decides what runs. If no condition is
    true, the step is Skipped. Excludes template, jobSpec and container."""
    for_each: Annotated[control.ForEach | None, EVERY_KIND] = None
    """Run one job per item. Set exactly one of items, from or count."""
    repeat: Annotated[
        control.Repeat | None,
        NotWith(
            {
                "forEach": "excludes forEach: a step runs once per item, or again until an "
                "expression holds; for both, repeat a step that depends on this one"
            }
        ),
    ] = None
    """Run again, one run after another, until a condition is true. Excludes forEach."""
    retry: control.Retry | None = None
    """Run the step again if it fails."""
    concurrency: Annotated[
        control.StepConcurrency | None,
        NotWith(
            {
                "daemon": "excludes daemon: a daemon runs until no step needs it, and those steps "
                "may wait for its place; take the place in a step that depends on it"
            }
        ),
    ] = None
    """Places that the step, or each of its items, needs to run, shared by all flows of the
    namespace, such as licences. Default: it needs none."""
    timeout: Annotated[
        control.DurationOrValue | None,
        For((WorkKind.JOB, WorkKind.FLOW), {WorkKind.APPROVAL: "set approval.timeout"}),
    ] = None
    """Maximum time of one attempt after its job is first Running, such as 2h. Then the job is
    aborted and the attempt has failed. It may be a reference to a param, such as
    $(params.limit), or to vars, such as $(vars.limit): a duration or a number of seconds, computed
    for each attempt."""
    queue_timeout: Annotated[
        control.DurationOrParam | None,
        For((WorkKind.JOB,), {WorkKind.FLOW: "set it in the steps of the flow"}),
    ] = None
    """Maximum time from the creation of a job until it is first Running, such as 30m, without the
    time the flow was suspended. Then the job is aborted and the attempt has failed (reason
    QueueTimeout). It may be a reference to a param, such as $(params.limit)."""
    daemon: Annotated[
        bool | None,
        For((WorkKind.JOB,), {WorkKind.FLOW: "a child flow ends by itself"}),
        NotWith(
            dict.fromkeys(
                ("forEach", "repeat"),
                "excludes {}: a daemon is one job, which runs until the flow ends",
            )
        ),
    ] = None
    """The step is a service. Dependants start once it runs, or once their probe passes. It is
    stopped when no step needs it to run any more."""
    reuse_policy: Annotated[
        str | None,
        For(
            (WorkKind.JOB, WorkKind.FLOW),
            {WorkKind.APPROVAL: "an approval is always asked again, so remove it"},
        ),
    ] = None
    """With spec.reuse: IfUnchanged (default) takes the result of the step in the named flow if
    nothing has changed, Never runs the step again. On a daemon, IfUnchanged says that steps which
    depend on it may be reused although it starts again. Not in finally, which always runs."""
    continue_on_failure: Annotated[bool | None, Plain(), EVERY_KIND] = None
    """If the step fails, the flow does not fail and dependants start, except after an error of the
    flow itself, such as ExpressionError. With forEach, every item runs even if others fail."""

    def template_for(self, case: Case | None) -> str | None:
        """Return the JobTemplate that the step runs in this case of `switch`, or None."""
        if self.kind_of(case) is not WorkKind.JOB:
            return None
        # a case without a work of its own runs that of the step
        for work in (case, self):
            if work is not None:
                if work.job_spec is not None or work.container is not None:
                    return None
                if work.template:
                    return work.template
        return self.name

    def work_name(self, case: Case | None) -> str:
        """Return the name under which times and outputs of earlier jobs are known: that of the
        template, or of the step."""
        return self.template_for(case) or self.name

    def case_of(self, decided: Decisions | None) -> Case | None:
        """Return the case of `switch` that was taken, or None."""
        taken = decided.case if decided is not None else None
        cases = self.switch or ()
        return cases[taken] if taken is not None and 0 <= taken < len(cases) else None

    def flow_for(self, case: Case | None) -> dict[str, Any] | None:
        """Return the child flow that the step runs in this case of `switch`, or None."""
        return self.flow if case is None else case.flow

    @property
    def child_flows(self) -> list[dict[str, Any]]:
        """The child flows of the step and of the cases of its `switch`."""
        found = [self.flow, *(case.flow for case in self.switch or ())]
        return [raw for raw in found if raw is not None]

    def kind_of(self, case: Case | None) -> WorkKind:
        """Return the kind of work that the step runs in this case of `switch`."""
        if self.approval is not None:
            return WorkKind.APPROVAL
        work = self if case is None else case
        if work.compute is not None:
            return WorkKind.COMPUTE
        if work.fail:
            return WorkKind.FAIL
        return WorkKind.JOB if work.flow is None else WorkKind.FLOW

    @property
    def declared_outputs(self) -> Mapping[str, Any] | None:
        """The outputs of its flow, or its values; None if its outputs are known when it ends."""
        return self.compute if self.flow is None else self.flow.get("outputs") or {}

    @property
    def attempt_timeout(self) -> str | None:
        """The timeout of one attempt: that of the kind of work if it has its own."""
        return self.timeout or (self.approval.timeout if self.approval is not None else None)

    @property
    def kinds(self) -> frozenset[WorkKind]:
        """The kinds of work that the step may run."""
        return frozenset(map(self.kind_of, self.switch or (None,)))

    @property
    def matches_items(self) -> bool:
        """Whether each item depends on the same item of its targets."""
        return self.depends_on is not None and self.depends_on.items == ItemDependency.MATCHING

    @property
    def fan_out(self) -> control.ForEach | None:
        """`forEach`; an empty one if the step has the items of its targets."""
        return control.ForEach() if self.for_each is None and self.matches_items else self.for_each

    @property
    def tolerates_items(self) -> bool:
        """Whether it may complete although items have failed (`maxFailed` and the like)."""
        each = self.for_each
        return each is not None and (
            each.max_failed is not None or each.min_success is not None or each.until is not None
        )

    @property
    def has_runs(self) -> bool:
        """Whether it may run several times, by `forEach` or `repeat`."""
        return self.fan_out is not None or self.repeat is not None

    @property
    def targets(self) -> list[str]:
        """The names of the steps that this one depends on."""
        return (self.depends_on.targets if self.depends_on else None) or []
