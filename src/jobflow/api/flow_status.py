"""`status` of a JobFlow: where a flow, its steps, their runs and jobs stand.

Names and shapes are Volcano's, exactly; its dashboards read them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.job import Int32, Opaque, TaskState
from jobflow.api.meta import Doc, Struct

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
TIMEOUT = "Timeout"
"""`reason` of a flow that took longer than its timeout, and of steps that were ended by that, or by
their own."""


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


class RunCondition(Struct, frozen=True, kw_only=True):
    """Where one run of a step stands: its attempts are one vcjob after another."""

    index: Annotated[
        Int32 | None, Doc("Which item or repeat it is, from 0; not set on a step itself.")
    ] = None

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
    deadline: Annotated[
        datetime | None, Doc("When its job has to be over, by the step's timeout.")
    ] = None
    abort_time: Annotated[
        datetime | None,
        Doc("Since when its job is to be aborted; the reason says why. Gone once it has ended."),
    ] = None
    last_transition_time: Annotated[
        datetime | None, Doc("Since when it is in this phase for this reason.")
    ] = None
    failures: Annotated[Int32, Doc("Attempts that failed and count against retry.limit.")] = 0
    past_attempts: Annotated[
        Int32, Doc("How many of its attempts were made before the flow was last retried.")
    ] = 0
    avoid_nodes: Annotated[
        list[str] | None, Doc("Nodes where its pods failed, that the next attempt keeps off.")
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


class Decisions(Struct, frozen=True, kw_only=True):
    """What was decided once, when the step's dependencies were met, and holds for good."""

    when: Annotated[bool | None, Doc("Whether `when` held.")] = None
    case: Annotated[Int32 | None, Doc("The case of `switch` that was taken, from 0.")] = None
    items: Annotated[list[Any] | None, Doc("The items that forEach.from gave.")] = None


class StepCondition(RunCondition, frozen=True, kw_only=True):
    """Where one step stands; with forEach and repeat, what its runs come to together."""

    passed_targets: Annotated[
        list[str] | None,
        Doc("Targets whose probe has passed, for good; until the step has begun."),
    ] = None
    decisions: Annotated[Decisions | None, Doc("What when, switch and forEach.from came to.")] = (
        None
    )
    runs: Annotated[
        list[RunCondition] | None,
        Doc("With forEach and repeat: one entry a run that has begun, by index."),
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
    duration: Annotated[
        str,
        Doc(
            'From its start to its end, such as "1h2m3s"; while it is under way, to when this '
            "status was written."
        ),
    ] = ""
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
    suspended_seconds: Annotated[
        int | None, Doc("How long the flow was suspended, as far as that is over.", format="int64")
    ] = None
    suspended_at: Annotated[
        datetime | None, Doc("Since when it is suspended; not set while it is not.")
    ] = None
    suspended_by: Annotated[
        str,
        Doc("What suspended it: SuspendFlow, AbortJob (what runs is aborted) or spec.suspend."),
    ] = ""
    finally_cancelled: Annotated[
        bool, Doc("Whether its finally is cancelled too (TerminateNow, `jobflow cancel --now`).")
    ] = False
    handled_commands: Annotated[
        list[str] | None,
        Doc("UIDs of Commands that were carried out or refused and are not gone yet."),
    ] = None
