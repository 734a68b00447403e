"""`status` of a JobFlow, with the names and shapes that Volcano's dashboards read."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.meta import Doc, Struct
from jobflow.api.volcano.job import Int32, Opaque, TaskState

Atomic = {"x-kubernetes-map-type": "atomic"}
"""One owner of the whole map in managedFields. With one for each key of each entry, 5,000 steps
would take a megabyte."""


class FlowPhase(StrEnum):
    """`status.state.phase` of a flow."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TERMINATING = "Terminating"


FINAL_PHASES = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})


class StepPhase(StrEnum):
    """`status.conditions[…].phase` of a step. A running step has the phase of its vcjob instead."""

    WAITING = "Waiting"
    COMPLETED = "Completed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


ENDED_STEP_PHASES = frozenset({StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED})


CANCELLED = "Cancelled"
"""`reason` of a cancelled flow, and of the steps that it ended."""
TIMEOUT = "Timeout"
"""`reason` of a flow that exceeded its timeout, and of the steps that this or their own ended."""


class FlowState(Struct, frozen=True, kw_only=True):
    """State of the flow."""

    phase: Annotated[
        str,
        Doc(
            "Pending (no job has run yet), Running, Succeed, Failed, or Terminating (being "
            "deleted before it finished).",
            enum=[*FlowPhase],
        ),
    ] = ""
    reason: Annotated[
        str, Doc("Reason, in one word, such as WaitingForTemplate or StepFailed.")
    ] = ""
    message: Annotated[str, Doc("Reason, in one sentence.")] = ""


class StepFailure(Struct, frozen=True, kw_only=True):
    """The pod that made the job fail, as far as it could still be read."""

    step: Annotated[str, Doc("Of a child flow: its step that failed first.")] = ""
    task: Annotated[str, Doc("Task of the pod.")] = ""
    pod: Annotated[str, Doc("Name of the pod.")] = ""
    container: Annotated[str, Doc("Container that failed.")] = ""
    exit_code: Annotated[Int32 | None, Doc("Exit code of the container.")] = None
    signal: Annotated[
        Int32, Doc("Signal that ended the container, if its exit code does not say it.")
    ] = 0
    reason: Annotated[
        str,
        Doc(
            "Reason, such as Error, OOMKilled, ImagePullBackOff or DeadlineExceeded; Evicted, "
            "Preempted or NodeLost after a disruption."
        ),
    ] = ""
    node: Annotated[str, Doc("Node of the pod.")] = ""
    message: Annotated[
        str,
        Doc(
            "Termination message of the container, or the message of Kubernetes about the pod, at "
            "most 256 bytes."
        ),
    ] = ""
    seconds: Annotated[Int32, Doc("How long the container had run, in seconds.")] = 0
    disruption: Annotated[
        bool,
        Doc("Whether the cluster ended the pod: it was evicted, preempted or lost with its node."),
    ] = False


class RequestedHours(Struct, frozen=True, kw_only=True):
    """Resources that the jobs requested, multiplied by their running time, over all attempts."""

    cpu: Annotated[str, Doc('CPU core hours, such as "1.25".')] = ""
    memory: Annotated[str, Doc("GiB hours of memory.")] = ""
    gpu: Annotated[str, Doc("GPU hours, over all vendors.")] = ""


class ApprovalResult(Struct, frozen=True, kw_only=True):
    """The answer to the approval of a step, and who gave it."""

    answer: Annotated[str, Doc("Approve or Reject.")] = ""
    by: Annotated[
        str, Doc("User who answered. Empty if the timeout did, or no webhook vouches for the name.")
    ] = ""
    time: Annotated[datetime | None, Doc("When the answer was given.")] = None


class RunCondition(Struct, frozen=True, kw_only=True):
    """State of one run of a step. Each attempt of a run is a Volcano job."""

    index: Annotated[
        Int32 | None, Doc("Index of the item or repeat, from 0. Not set for the step itself.")
    ] = None

    phase: Annotated[
        str, Doc("Waiting, the phase of the running job, or Completed, Failed or Skipped.")
    ] = ""
    reason: Annotated[str, Doc("Reason, in one word.")] = ""
    message: Annotated[str, Doc("Reason, in one sentence: what it waits for or what failed.")] = ""
    create_time: Annotated[datetime | None, Doc("When the current job was created.")] = None
    running_duration: Annotated[
        str, Doc('How long the job has run, as Volcano reports it, such as "3s".')
    ] = ""
    task_status_count: Annotated[
        dict[str, TaskState] | None,
        Doc("Number of pods by task and phase. Kept after Volcano removes it from the job."),
    ] = None
    job: Annotated[str, Doc("Name of the current or last Volcano job.")] = ""
    flow: Annotated[
        str, Doc("Name of the current or last child flow, if the step runs a flow.")
    ] = ""
    uid: Annotated[
        str,
        Doc(
            "Until its end: UID of the job or child flow, as 22 characters of base64url. An object "
            "of its name with another UID is not the one that the step has created."
        ),
    ] = ""
    attempts: Annotated[
        Int32,
        Doc(
            "Number of jobs or child flows that were created, or of times that approval was asked "
            "for."
        ),
    ] = 0
    next_attempt_time: Annotated[
        datetime | None, Doc("Between two attempts: when the next one may start.")
    ] = None
    deadline: Annotated[
        datetime | None, Doc("When the step's timeout ends the job, or answers the approval.")
    ] = None
    abort_time: Annotated[
        datetime | None, Doc("Since when the job is being aborted, until it has ended.")
    ] = None
    last_transition_time: Annotated[
        datetime | None, Doc("Since when phase and reason are the present ones.")
    ] = None
    failures: Annotated[Int32, Doc("Number of failed attempts that count towards retry.limit.")] = 0
    disruptions: Annotated[
        Int32, Doc("Number of disrupted attempts that do not count towards retry.limit.")
    ] = 0
    past_attempts: Annotated[Int32, Doc("Number of attempts before the flow was last retried.")] = 0
    avoid_nodes: Annotated[
        list[str] | None, Doc("Nodes on which pods failed, which the next attempt avoids.")
    ] = None
    failure: Annotated[StepFailure | None, Doc("Pod that made the job fail.")] = None
    flow_error: Annotated[
        bool,
        Doc(
            "Whether a step of the child flow failed by an error of the flow itself, such as "
            "ExpressionError, or the child flow did. continueOnFailure does not tolerate it."
        ),
    ] = False
    outputs: Annotated[
        dict[str, Any] | None,
        Doc(
            "Termination message of the first container of the job's first pod, at most 4 KiB: a "
            "JSON object, or any other message as the key text.",
            **Opaque,
        ),
    ] = None
    requested_hours: Annotated[
        RequestedHours | None, Doc("Resources that the finished jobs requested.")
    ] = None
    approval: Annotated[
        ApprovalResult | None, Doc("Answer to the step's approval, once there is one.")
    ] = None

    @property
    def is_left_over(self) -> bool:
        """Whether nothing is known of it but attempts before the flow was last retried."""
        rests = self.phase in (StepPhase.WAITING, StepPhase.SKIPPED)
        return rests and 0 < self.attempts == self.past_attempts


class Decisions(Struct, frozen=True, kw_only=True):
    """Decisions that were made when the step's dependencies were met. They never change."""

    when: Annotated[bool | None, Doc("Value of the step's condition, when.")] = None
    case: Annotated[Int32 | None, Doc("Index of the case of switch that was taken, from 0.")] = None
    items: Annotated[list[Any] | None, Doc("Value of forEach.from.")] = None


class StepCondition(RunCondition, frozen=True, kw_only=True):
    """State of a step; with forEach or repeat, the summary of its runs."""

    passed_targets: Annotated[
        list[str] | None, Doc("Until the step starts: targets whose probe has passed once.")
    ] = None
    decisions: Annotated[Decisions | None, Doc("Values of when, switch and forEach.from.")] = None
    runs: Annotated[
        list[RunCondition] | None,
        Doc("With forEach and repeat: one entry per started run, by index."),
    ] = None

    @property
    def last_run(self) -> RunCondition | None:
        """The last entry of `runs` that has begun since the flow was last retried, or that stayed
        in the retry; None without one."""
        begun = (run for run in reversed(self.runs or ()) if not run.is_left_over)
        return next(begun, None)


class JobRunningHistory(Struct, frozen=True, kw_only=True):
    """A phase that a job was in."""

    state: Annotated[str, Doc("Phase of the job.")] = ""
    start_timestamp: Annotated[datetime | None, Doc("When the phase began.")] = None
    end_timestamp: Annotated[datetime | None, Doc("When the phase ended.")] = None


class JobRecord(Struct, frozen=True, kw_only=True):
    """Record of a Volcano job, kept after the job is deleted."""

    name: Annotated[str, Doc("Name of the job.")] = ""
    state: Annotated[str, Doc("Last phase of the job.")] = ""
    start_timestamp: Annotated[datetime | None, Doc("When the job was created.")] = None
    end_timestamp: Annotated[datetime | None, Doc("When the job ended.")] = None
    restart_count: Annotated[Int32, Doc("Number of times that Volcano restarted the job.")] = 0
    running_histories: Annotated[
        list[JobRunningHistory] | None, Doc("Last ten phases of the job.")
    ] = None


class JobFlowStatus(Struct, frozen=True, kw_only=True):
    """Status of the flow."""

    state: Annotated[FlowState, Doc("State of the flow.")] = msgspec.field(
        default_factory=FlowState
    )
    progress: Annotated[
        str, Doc('Finished and total steps, such as "3/5". Skipped steps are finished.')
    ] = ""
    queued_time: Annotated[
        datetime | None,
        Doc("When a flow with concurrency was last retried, from which on it waits for its place."),
    ] = None
    start_time: Annotated[datetime | None, Doc("When the flow started.")] = None
    completion_time: Annotated[datetime | None, Doc("When the flow finished.")] = None
    duration: Annotated[
        str,
        Doc(
            'Time from the start to the end of the flow, such as "1h2m3s", or to the last write '
            "of this status."
        ),
    ] = ""
    observed_generation: Annotated[
        int | None, Doc("Generation of the spec that this status is for.", format="int64")
    ] = None
    conditions: Annotated[
        dict[str, StepCondition] | None, Doc("State of each step, by <flow>-<step>.", **Atomic)
    ] = None
    outputs: Annotated[
        dict[str, Any] | None,
        Doc("Values of spec.outputs, at most 4 KiB, once the flow has finished.", **Opaque),
    ] = None
    job_status_list: Annotated[
        list[JobRecord] | None, Doc("Records of the flow's Volcano jobs, including deleted ones.")
    ] = None
    pending_jobs: Annotated[list[str] | None, Doc("Pending jobs.")] = None
    running_jobs: Annotated[list[str] | None, Doc("Running and restarting jobs.")] = None
    failed_jobs: Annotated[list[str] | None, Doc("Failed jobs.")] = None
    completed_jobs: Annotated[list[str] | None, Doc("Completed and completing jobs.")] = None
    terminated_jobs: Annotated[
        list[str] | None, Doc("Terminated, terminating, aborted and aborting jobs.")
    ] = None
    un_know_jobs: Annotated[
        list[str] | None, Doc("Jobs in a phase that JobFlow does not know.")
    ] = None
    next_jobs: Annotated[
        list[str] | None,
        Doc("Jobs that will be created once the present ones complete, at most 100."),
    ] = None
    pod_failure_ratio: Annotated[
        str, Doc('Ratio of failed pods to all pods of the flow, such as "0.25".')
    ] = ""
    suspended_seconds: Annotated[
        int | None, Doc("Total length of earlier suspensions, in seconds.", format="int64")
    ] = None
    suspended_at: Annotated[datetime | None, Doc("Since when the flow is suspended.")] = None
    suspended_by: Annotated[
        str,
        Doc(
            "Origin of the suspension: SuspendFlow, AbortJob (aborts running jobs) or spec.suspend."
        ),
    ] = ""
    retries: Annotated[
        Int32,
        Doc(
            "Number of times that a flow with child flows was retried; in a child flow, that of "
            "its parent when both were last retried."
        ),
    ] = 0
    tolerated_retried: Annotated[
        bool,
        Doc(
            "Whether the last retry ran tolerated failures again too (RetryTolerated, `jobflow "
            "retry --tolerated`)."
        ),
    ] = False
    tolerated_in_children: Annotated[
        bool,
        Doc("Whether continueOnFailure tolerates a failure in a child flow, at any level."),
    ] = False
    finally_cancelled: Annotated[
        bool, Doc("Whether finally is cancelled too (TerminateNow, `jobflow cancel --now`).")
    ] = False
    volume_claims: Annotated[
        list[str] | None, Doc("PersistentVolumeClaims of the flow that were created, by name.")
    ] = None
    handled_commands: Annotated[
        list[str] | None, Doc("UIDs of Commands that were executed or refused and still exist.")
    ] = None
