"""All reasons in a status. docs/reference.md says what each means and what to do."""

from enum import StrEnum

from jobflow.api.flow.status import CANCELLED as _CANCELLED
from jobflow.api.flow.status import TIMEOUT as _TIMEOUT


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
    FAILURE_POLICY = "FailurePolicy"
    # while its job is being aborted, and Completed
    DAEMON_ENDED = "DaemonEnded"
    # Completed
    OUTPUTS_MISSING = "OutputsMissing"
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
    ITEMS_MISMATCH = "ItemsMismatch"
    REJECTED = "Rejected"
    # Skipped
    NOT_TAKEN = "NotTaken"
    NOT_TARGETED = "NotTargeted"
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
    """Pending: it waits for a place in its group. Succeed: there was none, and all its steps were
    skipped."""
    INVALID = "Invalid"
    EXPRESSION_ERROR = "ExpressionError"
    """An output of the flow has no value."""
    OUTPUTS_TOO_LARGE = "OutputsTooLarge"


WITH_THE_FLOW = frozenset({StepReason.CANCELLED, StepReason.FAILURE_POLICY})
"""Reasons of a run that failed with the flow, not by itself."""

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
