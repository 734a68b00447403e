"""`status` of a JobFlow, with the names and shapes that Volcano's dashboards read."""

from bisect import bisect_left
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.flow.by_hand import ByHand, HandedDown
from jobflow.api.resources import Schema, Struct
from jobflow.api.volcano.job import Int32, Opaque, TaskState

Atomic = Schema(**{"x-kubernetes-map-type": "atomic"})
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
HALTS = frozenset({CANCELLED, TIMEOUT})
"""Reasons that end a flow before its steps do."""


class FlowState(Struct):
    """State of the flow."""

    phase: Annotated[str, Schema(enum=[*FlowPhase])] = ""
    """Pending (no job has run yet), Running, Succeed, Failed, or Terminating (being deleted before
    it finished)."""
    reason: str = ""
    """Reason, in one word, such as WaitingForTemplate or StepFailed."""
    message: str = ""
    """Reason, in one sentence."""


class StepFailure(Struct):
    """The pod that made the job fail, as far as it could still be read."""

    step: str = ""
    """The step of a child flow that failed first."""
    task: str = ""
    """Task of the pod."""
    pod: str = ""
    """Name of the pod."""
    container: str = ""
    """Container that failed."""
    exit_code: Int32 | None = None
    """Exit code of the container."""
    signal: Int32 = 0
    """Signal that ended the container, if its exit code does not say it."""
    reason: str = ""
    """Reason, such as Error, OOMKilled, ImagePullBackOff or DeadlineExceeded; Evicted, Preempted or
    NodeLost after a disruption; Timeout or QueueTimeout if a limit of the step ended the job."""
    node: str = ""
    """Node of the pod."""
    message: str = ""
    """Termination message of the container, or the message of Kubernetes about the pod, at most 256
    bytes."""
    seconds: Int32 = 0
    """How long the container had run, in seconds."""
    disruption: bool = False
    """Whether the cluster ended the pod: it was evicted, preempted or lost with its node."""


class FailedAttempt(Struct):
    """An attempt that failed, after which the run was tried again."""

    attempt: Int32 = 0
    """Number of the attempt, from 1."""
    exit_code: Int32 | None = None
    """Exit code of the container that failed."""
    signal: Int32 = 0
    """Signal that ended the container, if its exit code does not say it."""
    reason: str = ""
    """Reason of the pod, such as Error or OOMKilled; without a pod, that of the attempt, such as
    Timeout."""
    node: str = ""
    """Node of the pod."""
    message: str = ""
    """Message of the failure of the pod, at most 256 bytes."""
    time: datetime | None = None
    """When the attempt ended."""


class RequestedHours(Struct):
    """Resources that the jobs requested, multiplied by their running time, over all attempts."""

    cpu: str = ""
    """CPU core hours, such as "1.25"."""
    memory: str = ""
    """GiB hours of memory."""
    gpu: str = ""
    """GPU hours, over all vendors."""


class ApprovalResult(Struct):
    """The answer to the approval of a step, and who gave it."""

    answer: str = ""
    """Approve or Reject."""
    by: str = ""
    """User who answered. Empty if the timeout did, or no webhook vouches for the name."""
    time: datetime | None = None
    """When the answer was given."""


class RunCondition(Struct):
    """State of one run of a step. Each attempt of a run is a Volcano job, a child flow, or
    other work, which only the status shows."""

    index: Int32 | None = None
    """Index of the item or repeat, from 0. Not set for the step itself."""

    phase: str = ""
    """Waiting, the phase of the running job, or Completed, Failed or Skipped."""
    reason: str = ""
    """Reason, in one word."""
    message: str = ""
    """Reason, in one sentence: what it waits for or what failed."""
    create_time: datetime | None = None
    """When the current job was created, or the current attempt of work without an object began."""
    running_duration: str = ""
    """How long the job has run, as Volcano reports it, such as "3s"."""
    task_status_count: dict[str, TaskState] | None = None
    """Number of pods by task and phase. Kept after Volcano removes it from the job."""
    job: str = ""
    """Name of the current or last Volcano job."""
    flow: str = ""
    """Name of the current or last child flow, if the step runs a flow."""
    uid: str = ""
    """Until its end: UID of the job or child flow, as 22 characters of base64url. An object of its
    name with another UID is not the one that the step has created."""
    fingerprint: str = ""
    """Of a completed run: SHA-256, as 22 characters of base64url, of what its job does and of the
    jobs that made what it depends on. A flow that names this one in spec.reuse compares it."""
    origin: str = ""
    """Of a result that another flow has made: the identity of the job that made it, as 22
    characters of base64url. Not set if it is `job` in the flow of status.reuse."""
    attempts: Int32 = 0
    """Number of attempts: of jobs or child flows that were created, or of times that work without
    an object, such as an approval, began. 1 if the result was reused."""
    next_attempt_time: datetime | None = None
    """Between two attempts: when the next one may start."""
    deadline: datetime | None = None
    """When the timeout of the step ends the attempt, or answers the approval."""
    queue_deadline: datetime | None = None
    """Until its job is first Running: when queueTimeout ends the attempt."""
    timeout: str = ""
    """The timeout of the current attempt, if vars have computed it."""
    abort_time: datetime | None = None
    """Since when the job is being aborted, until it has ended."""
    last_transition_time: datetime | None = None
    """Since when phase and reason are the present ones."""
    failures: Int32 = 0
    """Number of failed attempts that count towards retry.limit."""
    disruptions: Int32 = 0
    """Number of disrupted attempts that do not count towards retry.limit."""
    past_attempts: Int32 = 0
    """Number of attempts before the flow was last retried."""
    retried_by_hand: bool = False
    """Whether an item has yet to run again because a user wants it to, although others have
    failed."""
    avoid_nodes: list[str] | None = None
    """Nodes on which pods failed, which the next attempt avoids."""
    failure: StepFailure | None = None
    """Pod that made the job fail."""
    failed_attempts: list[FailedAttempt] | None = None
    """Attempts that failed before the present one, the last 3, and the last 50 of the flow."""
    flow_error: bool = False
    """Whether a step of the child flow failed by an error of the flow itself, such as
    ExpressionError, or the child flow did. continueOnFailure does not tolerate it."""
    outputs: Annotated[dict[str, Any] | None, Opaque] = None
    """Termination message of the first container of the job's first pod, at most 4 KiB: a JSON
    object, or any other message as the key text. Of other work: what it has given."""
    requested_hours: RequestedHours | None = None
    """Resources that the finished jobs requested."""
    approval: ApprovalResult | None = None
    """Answer to the step's approval, once there is one."""

    @property
    def is_left_over(self) -> bool:
        """Whether nothing is known of it but attempts before the flow was last retried."""
        rests = self.phase in (StepPhase.WAITING, StepPhase.SKIPPED)
        return rests and 0 < self.attempts == self.past_attempts

    @property
    def has_attempt(self) -> bool:
        """Whether what is known of it is the result of an attempt, or an attempt that runs."""
        return self.attempts > 0 and not self.is_left_over and self.phase != StepPhase.SKIPPED

    @property
    def is_alive(self) -> bool:
        """Whether it has an object that has not ended."""
        return self.phase not in ("", StepPhase.WAITING, *ENDED_STEP_PHASES)


class Decisions(Struct):
    """Decisions that were made when the step's dependencies were met. They never change."""

    when: bool | None = None
    """Value of the step's condition, when."""
    case: Int32 | None = None
    """Index of the case of switch that was taken, from 0."""
    items: list[Any] | None = None
    """Value of forEach.from."""
    compared: str = ""
    """With spec.reuse: the items that have no result to take, as a hexadecimal number with a bit
    for each; 1 for a step without items."""
    taken: str = ""
    """The items for which forEach.when is true, as a hexadecimal number with a bit for each."""


class StepCondition(RunCondition):
    """State of a step; with forEach or repeat, the summary of its runs."""

    passed_targets: list[str] | None = None
    """Until the step starts: targets whose probe has passed once."""
    decisions: Decisions | None = None
    """Values of when, switch and forEach.from."""
    runs: list[RunCondition] | None = None
    """With forEach and repeat: one entry per started run, by index."""

    @property
    def last_run(self) -> RunCondition | None:
        """The last entry of `runs` that has begun since the flow was last retried, or that stayed
        in the retry; None without one."""
        begun = (run for run in reversed(self.runs or ()) if not run.is_left_over)
        return next(begun, None)

    def run_at(self, index: int | None) -> RunCondition | None:
        """Return the entry of `runs` of an item or repeat, or None if it has not begun."""
        runs = self.runs or ()
        at = bisect_left(runs, index or 0, key=lambda run: run.index or 0)
        return next((run for run in runs[at : at + 1] if run.index == index), None)


class ReusedFlow(Struct):
    """The flow whose results are reused, as it was found at the start."""

    flow: str = ""
    """Name of the flow."""
    uid: str = ""
    """UID of the flow."""
    moving_claims: bool = False
    """Whether its volume claims are being moved to this flow, before anything starts."""


class StepPlace(Struct):
    """What an attempt of a step holds in its concurrency group, or waits for."""

    group: str = ""
    """Name of the group."""
    step: str = ""
    """Name of the step."""
    job: str = ""
    """Name of the job or child flow that holds the places; not set while the step waits."""
    slots: Int32 = 0
    """Number of places that it holds or needs."""
    limit: Int32 = 0
    """While the step waits: the most places of the group that may be taken once it starts."""


class JobRunningHistory(Struct):
    """A phase that a job was in."""

    state: str = ""
    """Phase of the job."""
    start_timestamp: datetime | None = None
    """When the phase began."""
    end_timestamp: datetime | None = None
    """When the phase ended."""


class JobRecord(Struct):
    """Record of a Volcano job, kept after the job is deleted."""

    name: str = ""
    """Name of the job."""
    state: str = ""
    """Last phase of the job."""
    start_timestamp: datetime | None = None
    """When the job was created."""
    end_timestamp: datetime | None = None
    """When the job ended."""
    restart_count: Int32 = 0
    """Number of times that Volcano restarted the job."""
    running_histories: list[JobRunningHistory] | None = None
    """Last ten phases of the job."""


class JobFlowStatus(Struct):
    """Status of the flow."""

    state: FlowState = msgspec.field(default_factory=FlowState)
    """State of the flow."""
    progress: str = ""
    """Finished and total steps, such as "3/5". Skipped steps are finished."""
    queued_time: datetime | None = None
    """When a flow with concurrency, its own or of its steps, was last retried, from which on it
    waits for its place."""
    start_time: datetime | None = None
    """When the flow started."""
    completion_time: datetime | None = None
    """When the flow finished."""
    duration: str = ""
    """Time from the start to the end of the flow, such as "1h2m3s", or to the last write of this
    status."""
    observed_generation: Annotated[int | None, Schema(format="int64")] = None
    """Generation of the spec that this status is for."""
    conditions: Annotated[dict[str, StepCondition] | None, Atomic] = None
    """State of each step, by <flow>-<step>."""
    outputs: Annotated[dict[str, Any] | None, Opaque] = None
    """Values of spec.outputs, at most 4 KiB, once the flow has finished."""
    job_status_list: list[JobRecord] | None = None
    """Records of the flow's Volcano jobs, including deleted ones."""
    pending_jobs: list[str] | None = None
    """Pending jobs."""
    running_jobs: list[str] | None = None
    """Running and restarting jobs."""
    failed_jobs: list[str] | None = None
    """Failed jobs."""
    completed_jobs: list[str] | None = None
    """Completed and completing jobs."""
    terminated_jobs: list[str] | None = None
    """Terminated, terminating, aborted and aborting jobs."""
    # so it is spelled in Volcano's API, which its dashboards read
    un_know_jobs: list[str] | None = None
    """Jobs in a phase that JobFlow does not know."""
    next_jobs: list[str] | None = None
    """Jobs that will be created once the present ones complete, at most 100."""
    pod_failure_ratio: str = ""
    """Ratio of failed pods to all pods of the flow, such as "0.25"."""
    places: list[StepPlace] | None = None
    """Places of its steps in concurrency groups: those that are taken, and in each group the first
    step that waits."""
    suspended_seconds: Annotated[int | None, Schema(format="int64")] = None
    """Total length of earlier suspensions, in seconds."""
    suspended_at: datetime | None = None
    """Since when the flow is suspended."""
    suspended_by: str = ""
    """Origin of the suspension: SuspendFlow, AbortJob (aborts running jobs) or spec.suspend."""
    retries: Int32 = 0
    """Number of times that a flow with child flows was retried; in a child flow, that of its parent
    when both were last retried."""
    tolerated_retried: bool = False
    """Whether the last retry ran tolerated failures again too (RetryTolerated, `jobflow retry
    --tolerated`)."""
    tolerated_in_children: bool = False
    """Whether continueOnFailure tolerates a failure in a child flow, at any level."""
    finally_cancelled: bool = False
    """Whether finally is cancelled too (TerminateNow, `jobflow cancel --now`)."""
    reuse: ReusedFlow | None = None
    """The flow whose results are reused; not set if it was gone when a child flow started."""
    volume_claims: list[str] | None = None
    """PersistentVolumeClaims of the flow that were created, or moved to it, by name."""
    reused_claims: dict[str, str] | None = None
    """Name of each PersistentVolumeClaim whose name is not <flow>-<name>, by its name in
    spec.volumeClaims: it has moved to this flow, or one that has moved away has its name."""
    by_hand: list[ByHand] | None = None
    """What users have done to single steps by hand, until these run again."""
    handed_down: list[HandedDown] | None = None
    """Commands on steps of child flows, until these have taken them over."""
    handed_down_count: Int32 = 0
    """Number of the last entry that handedDown has had."""
    taken_over: Int32 = 0
    """In a child flow: number of the last entry of its parent's handedDown that it has taken
    over."""
    handled_commands: list[str] | None = None
    """UIDs of Commands that were executed or refused and still exist."""
