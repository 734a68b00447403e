"""All reasons in a status. docs/reference.md says what each means and what to do."""

from collections.abc import Mapping
from enum import StrEnum

from jobflow.api.flow.by_hand import ByHand
from jobflow.api.flow.status import CANCELLED as _CANCELLED
from jobflow.api.flow.status import TIMEOUT as _TIMEOUT
from jobflow.api.volcano.command import Action


class StepReason(StrEnum):
    """`conditions[…].reason` of a step. It is empty while a step waits for others or runs, and
    if it completed normally."""

    # Waiting
    WAITING_FOR_TEMPLATE = "WaitingForTemplate"
    WAITING_FOR_PROBE = "WaitingForProbe"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    STARTING = "Starting"
    CREATE_REFUSED = "CreateRefused"
    NAME_IN_USE = "NameInUse"
    JOB_LOST = "JobLost"
    """Also of a Completed step whose job was deleted, if a dependant is known to have started."""
    RETRYING = "Retrying"
    CONCURRENCY = "Concurrency"
    REPEATING = "Repeating"
    SUSPENDED = "Suspended"
    """Also of a step whose job is aborted because of it."""
    TERMINATING = "Terminating"
    BLOCKED = "Blocked"
    PARALLELISM = "Parallelism"
    # after the end of its job
    PODS_UNREAD = "PodsUnread"
    # while its job is being aborted, and Failed
    CANCELLED = _CANCELLED
    TIMEOUT = _TIMEOUT
    QUEUE_TIMEOUT = "QueueTimeout"
    FAILURE_POLICY = "FailurePolicy"
    CANCELLED_BY_USER = "CancelledByUser"
    # while its job is being aborted, and Skipped
    SKIPPED_BY_USER = "SkippedByUser"
    # while its job is being aborted, and Completed
    DAEMON_ENDED = "DaemonEnded"
    # Completed
    OUTPUTS_MISSING = "OutputsMissing"
    REUSED = "Reused"
    # Failed
    JOB_FAILED = "JobFailed"
    FLOW_FAILED = "FlowFailed"
    """Only for a step that runs a child flow."""
    JOB_TERMINATED = "JobTerminated"
    JOB_ABORTED = "JobAborted"
    REFUSED = "Refused"
    NAME_CONFLICT = "NameConflict"
    PROBE_UNSATISFIABLE = "ProbeUnsatisfiable"
    OUTPUTS_TOO_LARGE = "OutputsTooLarge"
    EXPRESSION_ERROR = "ExpressionError"
    UNTIL_NOT_REACHED = "UntilNotReached"
    TOO_MANY_FAILED = "TooManyFailed"
    """Also of a step with forEach whose last items are still running."""
    ITEMS_MISMATCH = "ItemsMismatch"
    REJECTED = "Rejected"
    FAIL_STEP = "FailStep"
    """Only for a step, or a case of its switch, with `fail`."""
    # Skipped
    NOT_TAKEN = "NotTaken"
    NOT_TARGETED = "NotTargeted"
    NOT_NEEDED = "NotNeeded"
    """Of an item; also while its job is being aborted, and of its step until the last has ended."""
    UPSTREAM_FAILED = "UpstreamFailed"
    """Also of a Failed step of whose items some were skipped for it."""
    STOPPED = "Stopped"
    """Also of a Waiting step that will be skipped once its targets have ended."""


class FlowReason(StrEnum):
    """`state.reason` of a flow, which may also be one of HELD_UP."""

    STEP_FAILED = "StepFailed"
    NAME_CONFLICT = "NameConflict"
    CANCELLED = _CANCELLED
    TIMEOUT = _TIMEOUT
    SUSPENDED = "Suspended"
    CONCURRENCY = "Concurrency"
    """Pending: it waits for a place in its group. Succeed: there was none, so nothing ran."""
    INVALID = "Invalid"
    EXPRESSION_ERROR = "ExpressionError"
    """An output of the flow has no value."""
    OUTPUTS_TOO_LARGE = "OutputsTooLarge"
    REUSE_NOT_FOUND = "ReuseNotFound"
    """The flow in spec.reuse was gone, had not ended or was another one when this flow started."""


BY_HAND: Mapping[str, StepReason] = {
    Action.CANCEL_STEP: StepReason.CANCELLED_BY_USER,
    Action.SKIP_STEP: StepReason.SKIPPED_BY_USER,
    Action.RETRY_STEPS: StepReason.RETRYING,
}
"""The reason of a step for which a user has sent a Command of this action."""

_VERBS: Mapping[str, str] = {
    Action.CANCEL_STEP: "cancelled",
    Action.SKIP_STEP: "skipped",
    Action.RETRY_STEPS: "retried",
}


def ordered(order: ByHand) -> str:
    """Return what a user has done to a step: `cancelled by alice: it hangs`."""
    by = f" by {order.by}" if order.by else ""
    return f"{_VERBS[order.action]}{by}" + (f": {order.comment}" if order.comment else "")


OF_ATTEMPTS = (
    StepReason.JOB_FAILED,
    StepReason.JOB_TERMINATED,
    StepReason.JOB_ABORTED,
    StepReason.FLOW_FAILED,
    StepReason.TIMEOUT,
    StepReason.QUEUE_TIMEOUT,
    StepReason.OUTPUTS_TOO_LARGE,
)
"""Reasons of a failed attempt, which `retry` may follow and `retry.when` may compare. Kinds of work
may have others (`Work.fails`)."""

WITH_THE_FLOW = frozenset({StepReason.CANCELLED, StepReason.FAILURE_POLICY})
"""Reasons of a run that failed with the flow, not by itself."""

DECIDES_ITEMS = frozenset(
    {StepReason.NOT_NEEDED, StepReason.TOO_MANY_FAILED, StepReason.EXPRESSION_ERROR}
)
"""Reasons of a step with forEach that has not ended, but of which no further item starts."""

HELD_UP = frozenset(
    {
        StepReason.WAITING_FOR_TEMPLATE,
        StepReason.WAITING_FOR_APPROVAL,
        StepReason.CREATE_REFUSED,
        StepReason.NAME_IN_USE,
        StepReason.JOB_LOST,
        StepReason.BLOCKED,
    }
)
"""Reasons of a waiting step that needs something from outside the flow; that of the first one is
also the flow's."""
