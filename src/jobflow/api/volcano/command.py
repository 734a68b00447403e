"""`bus.volcano.sh/v1alpha1` Command: a request to act on a vcjob or a flow.

The controller that executes a Command deletes it: Volcano for vcjobs, JobFlow for flows.
"""

from enum import StrEnum

import msgspec

from jobflow.api.resources import COMMANDS, ObjectMeta, OwnerReference, Struct


class Action(StrEnum):
    """The values of `action` that JobFlow sends or executes."""

    ABORT_JOB = "AbortJob"
    """Abort a vcjob; suspend a flow and abort its running jobs."""
    SUSPEND_FLOW = "SuspendFlow"
    """Suspend a flow; running jobs continue. An extension of Volcano's actions."""
    RESUME_JOB = "ResumeJob"
    """Resume a suspended flow."""
    TERMINATE_JOB = "TerminateJob"
    """Cancel a flow."""
    TERMINATE_NOW = "TerminateNow"
    """Cancel a flow and its `finally`, even if it is ending. An extension of Volcano's actions."""
    RESTART_JOB = "RestartJob"
    """Retry a failed flow: whatever failed, and all that depends on it, runs again."""
    RETRY_TOLERATED = "RetryTolerated"
    """Retry a flow that has ended, with the failures that continueOnFailure tolerates, also in its
    child flows. An extension of Volcano's actions."""
    APPROVE_STEP = "ApproveStep"
    """Approve a step that waits for it. `message` is the step or `step/index`, then a space and a
    comment; the annotation `labels.OUTPUTS` has the step's outputs. An extension."""
    REJECT_STEP = "RejectStep"
    """Reject a step that waits for approval, with the same `message`. An extension."""
    CANCEL_STEP = "CancelStep"
    """Give up steps or items that have not ended. `message`: their paths from the outermost flow,
    joined by commas, then a space and a comment. An extension."""
    SKIP_STEP = "SkipStep"
    """Settle steps or items that have not completed, with the same `message`; the annotation
    `labels.OUTPUTS` has the outputs. An extension."""
    RETRY_STEPS = "RetrySteps"
    """Run steps or items again that have ended, and all that was made of them, with the same
    `message`. An extension."""

    SCALE_FLOW = "ScaleFlow"
    """Set how many jobs of a flow, or items of a step, are under way at once. `message`: N or
    PATH=N, then a space and a comment. An extension."""


RETRIES = frozenset({Action.RESTART_JOB, Action.RETRY_TOLERATED})
"""The actions on a flow that has ended."""
BY_HAND = frozenset({Action.CANCEL_STEP, Action.SKIP_STEP, Action.RETRY_STEPS, Action.SCALE_FLOW})
"""The actions on steps that `message` names by their paths from the outermost flow."""
ENDS_STEPS = frozenset({Action.CANCEL_STEP, Action.SKIP_STEP})
"""Those of BY_HAND that end steps, and so child flows with approvals that nobody has given."""


class Command(Struct):
    """A Command, which has neither spec nor status."""

    api_version: str = COMMANDS.api_version
    kind: str = COMMANDS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


def targets(command: Command, api_version: str, kind: str) -> bool:
    target = command.target
    return target is not None and (target.api_version, target.kind) == (api_version, kind)


def encoded(command: Command) -> bytes:
    """Return the body of a POST."""
    # the default encoding omits apiVersion and kind
    return msgspec.json.encode(COMMANDS.type_meta | msgspec.to_builtins(command))
