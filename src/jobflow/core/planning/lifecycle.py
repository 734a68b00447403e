"""Lifecycle of a flow as a whole: waiting for its place, running, suspended, or ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import CANCELLED, HALTS, TIMEOUT
from jobflow.api.volcano.command import Action
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.concurrency import get_group, get_limit, get_policy, needs_place
from jobflow.core.text import format_count, shorten
from jobflow.core.timestamps import add
from jobflow.core.violations import quote

BY_SPEC = "spec.suspend"
"""`suspendedBy` of a flow that was created suspended."""
BY_PARENT = "parent/SuspendFlow"
"""`suspendedBy` of a child flow whose parent is suspended."""
BY_PARENT_ABORT = "parent/AbortJob"
"""As BY_PARENT, if running vcjobs are aborted."""
BY_PARENTS = frozenset({BY_PARENT, BY_PARENT_ABORT})
"""`suspendedBy` of child flows that only a resume of a flow above them resumes."""
_ABORTS = frozenset({Action.ABORT_JOB, BY_PARENT_ABORT})
IN_FINALLY = "; in finally: "
"""In the message of a flow that was cancelled or timed out, before what its `finally` waits for."""


class Pause(NamedTuple):
    """Why no step of a flow starts at present."""

    reason: StepReason | Literal[""]
    message: str


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The state of a flow as a whole."""

    started: datetime
    """When it was started or last retried; whole seconds. Now, if it has not started yet."""
    waits: str = ""
    """The sentence that says that it waits for a place in its concurrency group, or ""."""
    starting: bool = False
    """Whether it has got its place in this plan; steps start once the status says so."""
    ending_reason: str = ""
    """Cancelled or Timeout if it is being ended for good, Concurrency if it ends because there is
    no place for it, else ""."""
    ending_message: str = ""
    """The sentence for `ending_reason`."""
    finally_too: bool = False
    """Whether the steps of `finally` are ended too."""
    suspended_at: datetime | None = None
    """Since when no step starts; None if it is not suspended."""
    suspended_by: str = ""
    """The Command's action, or BY_SPEC."""
    suspended_seconds: int | None = None
    """How long it was suspended before."""

    @property
    def pause(self) -> Pause | None:
        """Why no step starts at present, or None."""
        if self.suspended_at is not None:
            created = self.suspended_by == BY_SPEC
            why = "the flow was created suspended" if created else "the flow is suspended"
            why = "its parent is suspended" if self.is_suspended_by_parent else why
            return Pause(StepReason.SUSPENDED, why)
        if self.waits:
            return Pause(StepReason.CONCURRENCY, self.waits)
        if self.starting:
            return Pause(StepReason.STARTING, "the start of the flow is being stored")
        return None

    @property
    def is_suspended_by_parent(self) -> bool:
        """Whether it is suspended because its parent is."""
        return self.suspended_by in BY_PARENTS

    @property
    def aborts_what_runs(self) -> bool:
        """Whether running vcjobs are aborted while it is suspended."""
        return self.suspended_at is not None and self.suspended_by in _ABORTS

    def cancelled(self, now: datetime, message: str, *, finally_too: bool = False) -> Lifecycle:
        """Return it cancelled, and no longer suspended, so that `finally` runs, unless the flow has
        not started; a reason that is set already stays."""
        if self.ending_reason:
            return replace(self, finally_too=self.finally_too or finally_too)
        return replace(
            self.resumed(now),
            ending_reason=CANCELLED,
            ending_message=shorten(f"the flow was cancelled{f': {message}' if message else ''}"),
            finally_too=finally_too or bool(self.waits),
        )

    def forbidden(self, message: str) -> Lifecycle:
        """Return it ended without anything having run, because there is no place for it."""
        reason, message = FlowReason.CONCURRENCY, shorten(message)
        return replace(self, ending_reason=reason, ending_message=message, finally_too=True)

    def placed(self) -> Lifecycle:
        """Return it with a place, which it takes now."""
        return replace(self, waits="", starting=True)

    def timed_out(self, timeout: str) -> Lifecycle:
        """Return it ended by its own timeout."""
        sentence = f"the flow took longer than its timeout of {timeout}"
        return replace(self, ending_reason=TIMEOUT, ending_message=sentence)

    def suspended_for(self, action: str, now: datetime) -> Lifecycle:
        """Return it suspended by a Command; AbortJob replaces other actions. `now`: seconds."""
        if self.suspended_at is None:
            return replace(self, suspended_at=now, suspended_by=action)
        # a milder action does not undo an abort
        own = action == Action.ABORT_JOB or self.is_suspended_by_parent
        return replace(self, suspended_by=action) if own else self

    def with_parent(self, parent: JobFlow | None, now: datetime) -> Lifecycle:
        """Return it suspended or resumed with its parent, by the status of that. A flow that a user
        has suspended stays so. `now`: whole seconds."""
        status = None if parent is None or parent.final else parent.status
        is_by_parent = self.suspended_by in BY_PARENTS
        if status is None or status.suspended_at is None:
            return self.resumed(now) if is_by_parent else self
        if self.ending_reason or not (self.suspended_at is None or is_by_parent):
            return self
        # the Command is on the outermost flow, and is passed on from flow to flow by their statuses
        by = BY_PARENT_ABORT if status.suspended_by in _ABORTS else BY_PARENT
        return replace(self, suspended_at=self.suspended_at or now, suspended_by=by)

    def resumed(self, now: datetime) -> Lifecycle:
        """Return it not suspended. `now`: whole seconds."""
        if self.suspended_at is None:
            return self
        if self.waits:  # the time before the start does not count
            return replace(self, suspended_at=None, suspended_by="")
        seconds = max(0, int((now - self.suspended_at).total_seconds()))
        seconds += self.suspended_seconds or 0
        return replace(self, suspended_at=None, suspended_by="", suspended_seconds=seconds or None)


def untouched(flow: JobFlow) -> bool:
    """Whether the flow has no status yet."""
    status = flow.status
    return not (status.state.phase or status.conditions or status.job_status_list)


def stored_lifecycle(flow: JobFlow, now: datetime) -> Lifecycle:
    """Return the lifecycle in the flow's status. `now`: whole seconds."""
    status, state = flow.status, flow.status.state
    ends = state.reason in HALTS
    # once there is a status, only Commands suspend and resume
    by_spec = flow.spec.suspend and untouched(flow)
    started, waits = status.start_time, ""
    if started is None and state.phase:  # Volcano's controller has started it
        started = flow.metadata.creation_timestamp
    if needs_place(flow):
        # it names no other flows: every waiting flow would write its status when one of them starts
        group = f"the concurrency group {quote(get_group(flow, flow.spec.concurrency))}"
        waits = f"replaces the other flows of {group}"
        if get_policy(flow) is not ConcurrencyPolicy.REPLACE:
            most = format_count(get_limit(flow.spec.concurrency), "flow")
            waits = f"waits for a place in {group}: at most {most} at once"
    return Lifecycle(
        started=now if waits or started is None else started,
        waits=shorten(waits),
        ending_reason=state.reason if ends else "",
        ending_message=state.message.partition(IN_FINALLY)[0] if ends else "",
        finally_too=status.finally_cancelled,
        suspended_at=now if by_spec else status.suspended_at,
        suspended_by=BY_SPEC if by_spec else status.suspended_by,
        suspended_seconds=status.suspended_seconds,
    )


def deadline(timeout: str | None, lifecycle: Lifecycle) -> datetime | None:
    """Return when the flow's timeout ends it; None without a timeout, or before it starts, or while
    it is suspended or ending."""
    if not timeout or lifecycle.ending_reason or lifecycle.pause is not None:
        return None
    try:
        allowed = parse_duration(timeout)
    except ValueError:  # admission refuses it
        return None
    # the time of the start is cut to a whole second, so that second is added
    return add(lifecycle.started, 1 + allowed + (lifecycle.suspended_seconds or 0))
