"""Lifecycle of a flow as a whole: running, suspended, or ended by a cancel or its timeout.

It is read from the stored status and changed by Commands (`read_commands`) and time (`deadline`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jobflow.api.command import Action
from jobflow.api.duration import parse_duration
from jobflow.api.flow_status import CANCELLED, TIMEOUT
from jobflow.api.jobflow import JobFlow
from jobflow.core.text import shorten
from jobflow.core.timestamps import add

BY_SPEC = "spec.suspend"
"""`suspendedBy` of a flow that was created suspended."""
HALTS = frozenset({CANCELLED, TIMEOUT})
"""Reasons that end a flow before its steps do."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The state of a flow as a whole."""

    started: datetime
    """When it was started or last retried; whole seconds."""
    ending_reason: str = ""
    """Cancelled or Timeout if it is being ended for good, else ""."""
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
    def suspended(self) -> str:
        """The sentence that says that it is suspended, or ""."""
        if self.suspended_at is None:
            return ""
        created = self.suspended_by == BY_SPEC
        return "the flow was created suspended" if created else "the flow is suspended"

    @property
    def aborts_what_runs(self) -> bool:
        """Whether running vcjobs are aborted while it is suspended."""
        return self.suspended_at is not None and self.suspended_by == Action.ABORT_JOB

    def cancelled(self, now: datetime, message: str, *, finally_too: bool = False) -> Lifecycle:
        """Return it cancelled, and no longer suspended, so that `finally` runs; a reason that
        is set already stays."""
        if self.ending_reason:
            return replace(self, finally_too=self.finally_too or finally_too)
        return replace(
            self.resumed(now),
            ending_reason=CANCELLED,
            ending_message=shorten(f"the flow was cancelled{f': {message}' if message else ''}"),
            finally_too=finally_too,
        )

    def timed_out(self, timeout: str) -> Lifecycle:
        """Return it ended by its own timeout."""
        sentence = f"the flow took longer than its timeout of {timeout}"
        return replace(self, ending_reason=TIMEOUT, ending_message=sentence)

    def suspended_for(self, action: str, now: datetime) -> Lifecycle:
        """Return it suspended by a Command; AbortJob replaces other actions. `now`: seconds."""
        if self.suspended_at is None:
            return replace(self, suspended_at=now, suspended_by=action)
        return replace(self, suspended_by=action) if action == Action.ABORT_JOB else self

    def resumed(self, now: datetime) -> Lifecycle:
        """Return it not suspended. `now`: whole seconds."""
        if self.suspended_at is None:
            return self
        seconds = max(0, int((now - self.suspended_at).total_seconds()))
        seconds += self.suspended_seconds or 0
        return replace(self, suspended_at=None, suspended_by="", suspended_seconds=seconds or None)


def untouched(flow: JobFlow) -> bool:
    """Whether the flow has no status yet."""
    status = flow.status
    return not (status.state.phase or status.conditions or status.job_status_list)


def stored_lifecycle(flow: JobFlow, now: datetime) -> Lifecycle:
    """Return the lifecycle in the flow's status. `now`: whole seconds."""
    status = flow.status
    state = status.state
    ends = state.reason in HALTS
    by_spec = flow.spec.suspend and untouched(flow)
    return Lifecycle(
        started=_started(flow, now),
        ending_reason=state.reason if ends else "",
        ending_message=state.message if ends else "",
        finally_too=status.finally_cancelled,
        suspended_at=now if by_spec else status.suspended_at,
        suspended_by=BY_SPEC if by_spec else status.suspended_by,
        suspended_seconds=status.suspended_seconds,
    )


def _started(flow: JobFlow, now: datetime) -> datetime:
    # a flow that Volcano's controller started counts from its creation
    status = flow.status
    if status.start_time is not None:
        return status.start_time
    made = flow.metadata.creation_timestamp
    return made if status.state.phase and made is not None else now


def deadline(timeout: str | None, lifecycle: Lifecycle) -> datetime | None:
    """Return when the flow's timeout ends it; None without a timeout, or while it is suspended or
    ending. A timeout that cannot be read counts as not set."""
    if not timeout or lifecycle.ending_reason or lifecycle.suspended_at is not None:
        return None
    try:
        allowed = parse_duration(timeout)
    except ValueError:
        return None
    return add(lifecycle.started, allowed + (lifecycle.suspended_seconds or 0))
