"""`flow.volcano.sh/v1alpha1` JobFlow: which templates to run, in what order, on what conditions.

Names and shapes of the status are Volcano's, exactly; its dashboards read them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.job import Int32, Opaque, TaskState
from jobflow.api.meta import Doc, ListMeta, ObjectMeta, Struct

Atomic = {"x-kubernetes-map-type": "atomic"}
"""The API server then keeps one owner for the whole map, not one for every key of every entry:
with 5,000 steps that would be a megabyte of managedFields."""


class FlowPhase(StrEnum):
    """`status.state.phase` of a flow: these five and no others."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TERMINATING = "Terminating"


FINAL_PHASES = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})


class StepPhase(StrEnum):
    """`status.conditions[…].phase` besides a vcjob's own phases, which a running step shows."""

    WAITING = "Waiting"
    COMPLETED = "Completed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


ENDED_STEP_PHASES = frozenset({StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED})


CANCELLED = "Cancelled"
"""`reason` of a flow that was cancelled, for good, and of its steps that ended by that."""


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


class Patch(Struct, frozen=True, kw_only=True):
    """What this step changes of its template. Set one of the two."""

    job_spec: Annotated[
        dict[str, Any] | None,
        Doc(
            "Merged onto the template's spec as Kubernetes merges: tasks, containers, volumes and "
            "env by name, volumeMounts by mountPath, ports by containerPort and protocol, "
            "tolerations by key, maps by key; other lists are replaced; null removes.",
            **Opaque,
        ),
    ] = None
    spec: Annotated[
        dict[str, Any] | None, Doc("The same by its other name; not both.", **Opaque)
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

    @property
    def template_name(self) -> str:
        """The JobTemplate this step runs."""
        return self.template or self.name

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


class FlowState(Struct, frozen=True, kw_only=True):
    """Where a flow stands, in one word, one reason and one sentence."""

    phase: Annotated[
        str,
        Doc(
            "Pending (until a job runs), Running (until the end), Succeed, Failed, or Terminating "
            "(being deleted while not final).",
            enum=[*FlowPhase],
        ),
    ] = ""
    reason: Annotated[str, Doc("Why, in one word: WaitingForTemplate, StepFailed …")] = ""
    message: Annotated[str, Doc("Why, in one sentence.")] = ""


class StepFailure(Struct, frozen=True, kw_only=True):
    """The pod that a step's job failed by, as far as it was still there to be asked."""

    task: Annotated[str, Doc("Its task.")] = ""
    pod: Annotated[str, Doc("Its name.")] = ""
    container: Annotated[str, Doc("The container that failed.")] = ""
    exit_code: Annotated[Int32 | None, Doc("The container's exit code.")] = None
    reason: Annotated[str, Doc("Error, OOMKilled, Evicted, ImagePullBackOff …")] = ""
    node: Annotated[str, Doc("The node it ran on.")] = ""


class RequestedHours(Struct, frozen=True, kw_only=True):
    """What the jobs of a step held of the cluster: requests times running time, all attempts."""

    cpu: Annotated[str, Doc('Core hours, such as "1.25".')] = ""
    memory: Annotated[str, Doc("GiB hours.")] = ""
    gpu: Annotated[str, Doc("Hours of GPUs, whoever made them.")] = ""


class StepCondition(Struct, frozen=True, kw_only=True):
    """Where one step stands."""

    phase: Annotated[
        str,
        Doc("Waiting; its job's phase while it runs; at the end Completed, Failed or Skipped."),
    ] = ""
    reason: Annotated[str, Doc("Why, in one word.")] = ""
    message: Annotated[str, Doc("Why, in one sentence: what it waits for or what failed.")] = ""
    create_time: Annotated[datetime | None, Doc("When its current job was made.")] = None
    running_duration: Annotated[
        str, Doc('How long its job ran or runs, as Volcano says it, such as "3s".')
    ] = ""
    task_status_count: Annotated[
        dict[str, TaskState] | None,
        Doc("Pods by task and phase; kept after the end, when Volcano drops it from the job."),
    ] = None
    job: Annotated[str, Doc("Its current or last Volcano job.")] = ""
    attempts: Annotated[Int32, Doc("How many jobs were made for it.")] = 0
    next_attempt_time: Annotated[
        datetime | None, Doc("When the next attempt may start, between two attempts.")
    ] = None
    abort_time: Annotated[
        datetime | None,
        Doc("Since when its job is to be aborted; the reason says why. Gone once it has ended."),
    ] = None
    last_transition_time: Annotated[
        datetime | None, Doc("Since when it is in this phase for this reason.")
    ] = None
    passed_targets: Annotated[
        list[str] | None,
        Doc("Targets whose probe has passed, for good; until the step has begun."),
    ] = None
    failure: Annotated[StepFailure | None, Doc("The pod that its job failed by.")] = None
    outputs: Annotated[
        dict[str, Any] | None,
        Doc(
            "The termination message of the first container of the job's first pod: a JSON "
            "object, or any other text under `text`. At most 4 KiB.",
            **Opaque,
        ),
    ] = None
    requested_hours: Annotated[
        RequestedHours | None, Doc("What its ended jobs held of the cluster.")
    ] = None


class JobRunningHistory(Struct, frozen=True, kw_only=True):
    """One state that a job was in."""

    state: Annotated[str, Doc("The job's phase.")] = ""
    start_timestamp: Annotated[datetime | None, Doc("When it went into it.")] = None
    end_timestamp: Annotated[datetime | None, Doc("When it left it.")] = None


class JobRecord(Struct, frozen=True, kw_only=True):
    """What is remembered of one Volcano job, also when the job is gone."""

    name: Annotated[str, Doc("The job.")] = ""
    state: Annotated[str, Doc("Its last phase.")] = ""
    start_timestamp: Annotated[datetime | None, Doc("When it was made.")] = None
    end_timestamp: Annotated[datetime | None, Doc("When it ended.")] = None
    restart_count: Annotated[Int32, Doc("How often Volcano restarted it.")] = 0
    running_histories: Annotated[
        list[JobRunningHistory] | None, Doc("The states it was in, the last ten.")
    ] = None


class JobFlowStatus(Struct, frozen=True, kw_only=True):
    """How far a flow has come."""

    state: Annotated[FlowState, Doc("Where the flow stands.")] = msgspec.field(
        default_factory=FlowState
    )
    progress: Annotated[str, Doc('Ended steps of all, such as "3/5"; skipped ones count.')] = ""
    start_time: Annotated[datetime | None, Doc("When the flow was taken up.")] = None
    completion_time: Annotated[datetime | None, Doc("When the flow ended.")] = None
    observed_generation: Annotated[
        int | None, Doc("The generation of the spec this status is about.", format="int64")
    ] = None
    conditions: Annotated[
        dict[str, StepCondition] | None,
        Doc("One entry a step, by <flow>-<step>.", **Atomic),
    ] = None
    job_status_list: Annotated[
        list[JobRecord] | None, Doc("One entry a Volcano job, also of those that are gone.")
    ] = None
    pending_jobs: Annotated[list[str] | None, Doc("Jobs that are pending.")] = None
    running_jobs: Annotated[list[str] | None, Doc("Jobs that run or restart.")] = None
    failed_jobs: Annotated[list[str] | None, Doc("Jobs that failed.")] = None
    completed_jobs: Annotated[list[str] | None, Doc("Jobs that completed or are about to.")] = None
    terminated_jobs: Annotated[
        list[str] | None, Doc("Jobs that were terminated or aborted, or are about to be.")
    ] = None
    un_know_jobs: Annotated[list[str] | None, Doc("Jobs in a phase JobFlow does not know.")] = None
    next_jobs: Annotated[
        list[str] | None,
        Doc("Jobs that will be made once those that are there now complete; at most 100."),
    ] = None
    pod_failure_ratio: Annotated[
        str, Doc('Failed pods of all pods that were seen of its jobs, such as "0.25".')
    ] = ""
    handled_commands: Annotated[
        list[str] | None,
        Doc("UIDs of Commands that were carried out or refused and are not gone yet."),
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
    def final(self) -> bool:
        """Whether the flow has ended: Succeed or Failed."""
        return self.status.state.phase in FINAL_PHASES


class JobFlowList(Struct, frozen=True, kw_only=True):
    """A page of flows."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[JobFlow] = []
