"""`flow.volcano.sh/v1alpha1` JobFlow: which templates to run, in what order, on what conditions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from jobflow.api.control import Case, ForEach, JobDefaults, Param, Patch, Repeat, Retry
from jobflow.api.flow_status import FINAL_PHASES, Decisions, JobFlowStatus
from jobflow.api.job import Int32
from jobflow.api.meta import Doc, ListMeta, ObjectMeta, Struct


class Strategy(StrEnum):
    """How many targets have to reach the condition."""

    ALL = "all"
    ANY = "any"


class Condition(StrEnum):
    """What a target has to reach."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    FINISHED = "Finished"
    RUNNING = "Running"


class RetainPolicy(StrEnum):
    """What becomes of the vcjobs of a flow that succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


class HTTPHeader(Struct, frozen=True, kw_only=True):
    """A header of an HTTP probe."""

    name: Annotated[str | None, Doc("Its name.")] = None
    value: Annotated[str | None, Doc("Its value.")] = None


class HTTPGetProbe(Struct, frozen=True, kw_only=True):
    """An HTTP request to the pods of a task."""

    task_name: Annotated[str | None, Doc("The task whose pods are asked.")] = None
    path: Annotated[str | None, Doc("The path, from the slash on.")] = None
    port: Annotated[int | None, Doc("The port, 1 to 65535.")] = None
    http_header: Annotated[HTTPHeader | None, Doc("A header to send.")] = None

    @property
    def header(self) -> tuple[str, str] | None:
        """The header's name and value; None for an empty one, which Go clients send for none."""
        header = self.http_header
        if header is None or not (header.name or header.value):
            return None
        return header.name or "", header.value or ""


class TCPSocketProbe(Struct, frozen=True, kw_only=True):
    """A connection to the pods of a task."""

    task_name: Annotated[str | None, Doc("The task whose pods are asked.")] = None
    port: Annotated[int | None, Doc("The port, 1 to 65535.")] = None


class TaskStatusProbe(Struct, frozen=True, kw_only=True):
    """The phase of a task's pods."""

    task_name: Annotated[str | None, Doc("The task whose pods are looked at.")] = None
    phase: Annotated[
        str | None,
        Doc(
            "The pod phase to reach: Pending, Running, Succeeded or Failed. A pod that has passed "
            "Pending or Running has reached it."
        ),
    ] = None
    count: Annotated[
        Int32 | None, Doc("How many of the task's pods have to; all of them where not set.")
    ] = None


class Probe(Struct, frozen=True, kw_only=True):
    """Looks inside the targets' jobs: a target is met once all that is listed here holds for it.

    With a probe, `condition` is not looked at.
    """

    http_get_list: Annotated[list[HTTPGetProbe] | None, Doc("HTTP requests to pods.")] = None
    tcp_socket_list: Annotated[list[TCPSocketProbe] | None, Doc("Connections to pods.")] = None
    task_status_list: Annotated[list[TaskStatusProbe] | None, Doc("Phases of tasks.")] = None

    @property
    def empty(self) -> bool:
        """Whether nothing is listed: such a probe is none, and the condition decides."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class DependsOn(Struct, frozen=True, kw_only=True):
    """What a step waits for."""

    targets: Annotated[list[str] | None, Doc("Names of the steps this one waits for.")] = None
    strategy: Annotated[
        str | None,
        Doc(
            "all (default): every target has to reach the condition. "
            "any: the first that does starts the step."
        ),
    ] = None
    condition: Annotated[
        str | None,
        Doc(
            "What a target has to reach. Completed (default). Failed: runs only if it fails. "
            "Finished: either. Running: it has started to run."
        ),
    ] = None
    probe: Annotated[
        Probe | None,
        Doc(
            "Looks inside the targets' jobs, at their tasks and pods; decides instead of "
            "condition whether a target is met."
        ),
    ] = None


class Step(Struct, frozen=True, kw_only=True):
    """One step: a template, run as one Volcano job when its dependencies are met."""

    name: Annotated[
        str,
        Doc(
            "The step, unique in the flow, and the JobTemplate it runs unless `template` says "
            "otherwise. Its job is named <flow>-<step>."
        ),
    ] = ""
    template: Annotated[
        str | None, Doc("The JobTemplate to run, where it is not named like the step.")
    ] = None
    depends_on: Annotated[
        DependsOn | None, Doc("What the step waits for; it starts at once where not set.")
    ] = None
    patch: Annotated[Patch | None, Doc("What this step changes of its template.")] = None
    when: Annotated[
        str | None,
        Doc(
            'CEL over params, flow and the steps behind which this one stands, such as steps["x"]'
            ".outputs.n > 1; evaluated once. Where it does not hold, the step is Skipped."
        ),
    ] = None
    switch: Annotated[
        list[Case] | None,
        Doc(
            "Ordered cases; the first that holds decides what is run. None: Skipped. Not together "
            "with template."
        ),
    ] = None
    for_each: Annotated[
        ForEach | None, Doc("One job an item, instead of one: of items, from or count.")
    ] = None
    repeat: Annotated[
        Repeat | None,
        Doc("Runs again, one after another, until an expression holds. Not with forEach."),
    ] = None
    retry: Annotated[Retry | None, Doc("Runs the step again when it fails.")] = None
    timeout: Annotated[
        str | None,
        Doc(
            "Of one attempt, from its job's first Running, such as 2h; then it is aborted and has "
            "failed."
        ),
    ] = None
    daemon: Annotated[
        bool | None,
        Doc(
            "A service: dependants start once it runs, or by their probe; it is ended when all "
            "other steps are over."
        ),
    ] = None
    continue_on_failure: Annotated[
        bool | None,
        Doc(
            "Its failure neither fails the flow nor holds up dependants; with forEach every item "
            "runs, however the others end."
        ),
    ] = None

    @property
    def template_name(self) -> str:
        """The JobTemplate this step runs, where no case of `switch` names another."""
        return self.template or self.name

    def template_for(self, case: Case | None) -> str:
        """The JobTemplate this step runs once this case of `switch` is taken."""
        return (case.template if case is not None else None) or self.template_name

    def case_of(self, decided: Decisions | None) -> Case | None:
        """The case of its switch that was taken; None where none is yet, or there is no switch."""
        taken = decided.case if decided is not None else None
        cases = self.switch or ()
        return cases[taken] if taken is not None and 0 <= taken < len(cases) else None

    @property
    def templates(self) -> list[str]:
        """Every JobTemplate that it may run: with `switch` one a case, in their order."""
        if not self.switch:
            return [self.template_name]
        return list(dict.fromkeys(self.template_for(case) for case in self.switch))

    @property
    def targets(self) -> list[str]:
        """The steps this one depends on."""
        return (self.depends_on.targets if self.depends_on else None) or []


class JobFlowSpec(Struct, frozen=True, kw_only=True):
    """Which steps a flow has and what becomes of its jobs."""

    flows: Annotated[list[Step] | None, Doc("The steps, at least one.")] = None
    job_retain_policy: Annotated[
        str | None,
        Doc(
            "retain (default) keeps the flow's jobs. delete removes them once the flow has "
            "succeeded.",
            enum=["retain", "delete"],
        ),
    ] = None
    params: Annotated[list[Param] | None, Doc("Parameters that patches and CEL refer to.")] = None
    job_defaults: Annotated[
        JobDefaults | None,
        Doc("For every job, where its template and patches do not say otherwise."),
    ] = None
    parallelism: Annotated[
        Int32 | None, Doc("The most jobs of this flow at once, taken in the order of flows.")
    ] = None
    timeout: Annotated[
        str | None,
        Doc("Of the whole flow, from its start, such as 12h; suspended time does not count."),
    ] = None
    failure_policy: Annotated[
        str | None,
        Doc(
            "Once a step has failed: Stop (default) starts nothing new, Abort also aborts what "
            "runs, Continue goes on with what does not depend on it, and with every item of a "
            "forEach."
        ),
    ] = None
    finally_: Annotated[
        list[Step] | None,
        Doc(
            "Steps that run, in parallel, when the rest is over, whatever came of it: without "
            "dependsOn and daemon. Their CEL sees every step, and flow.phase."
        ),
    ] = msgspec.field(name="finally", default=None)
    ttl_seconds_after_finished: Annotated[
        Int32 | None, Doc("How long the finished flow is kept; for ever where not set.")
    ] = None
    suspend: Annotated[
        bool | None, Doc("Created suspended: nothing starts until it is resumed.")
    ] = None


class JobFlow(Struct, frozen=True, kw_only=True):
    """Runs Volcano jobs in an order: each step makes a job from a JobTemplate once what it depends
    on has been reached."""

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobFlow"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: JobFlowStatus = msgspec.field(default_factory=JobFlowStatus)

    @property
    def steps(self) -> list[Step]:
        """`spec.flows`; empty where it is missing."""
        return self.spec.flows or []

    @property
    def all_steps(self) -> list[Step]:
        """`spec.flows` and `spec.finally` behind them."""
        return [*self.steps, *(self.spec.finally_ or ())]

    @property
    def templates(self) -> list[str]:
        """Every JobTemplate that one of its steps may run, cases and `finally` included."""
        return list(dict.fromkeys(name for step in self.all_steps for name in step.templates))

    @property
    def final(self) -> bool:
        """Whether the flow has ended: Succeed or Failed."""
        return self.status.state.phase in FINAL_PHASES


class JobFlowList(Struct, frozen=True, kw_only=True):
    """A page of flows."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[JobFlow] = []
