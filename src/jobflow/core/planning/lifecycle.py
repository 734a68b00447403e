"""What holds for a flow as a whole: whether it is being brought to its end, or is suspended.

A value, read from the stored status and changed by Commands (`orders`) and by time
(`flow_timeout`). It says nothing about any step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jobflow.api.command import Action
from jobflow.api.duration import parse_duration
from jobflow.api.flow_status import CANCELLED, TIMEOUT
from jobflow.api.jobflow import JobFlow
from jobflow.core.text import short
from jobflow.core.timestamps import add

BY_SPEC = "spec.suspend"
"""What has suspended a flow that was created so."""
HALTS = frozenset({CANCELLED, TIMEOUT})
"""Reasons for which a flow is brought to its end."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Where a flow is going."""

    started: datetime
    """When it was taken up, or last retried; whole seconds."""
    ending_reason: str = ""
    """Why it is being brought to its end, for good: Cancelled or Timeout; empty: it is not."""
    ending_message: str = ""
    """The same in a sentence."""
    finally_too: bool = False
    """Whether `finally` is brought to its end with the rest."""
    suspended_at: datetime | None = None
    """Since when nothing starts; None: it is not suspended."""
    suspended_by: str = ""
    """The Command's action, or BY_SPEC."""
    suspended_seconds: int | None = None
    """How long it was suspended, as far as that is over."""

    @property
    def suspended(self) -> str:
        """That it is suspended, in a sentence; empty: it is not."""
        if self.suspended_at is None:
            return ""
        created = self.suspended_by == BY_SPEC
        return "the flow was created suspended" if created else "the flow is suspended"

    @property
    def aborts_what_runs(self) -> bool:
        """Whether what runs is not even to run out while it is suspended."""
        return self.suspended_at is not None and self.suspended_by == Action.ABORT_JOB

    def cancelled(self, now: datetime, said: str = "") -> Lifecycle:
        """Brought to its end, and no longer suspended, so that `finally` runs."""
        if self.ending_reason:
            return self
        said = f": {said}" if said else ""
        sentence = short(f"the flow was cancelled{said}")
        return replace(self.resumed(now), ending_reason=CANCELLED, ending_message=sentence)

    def cancelled_now(self, now: datetime, said: str = "") -> Lifecycle:
        """Cancelled, and `finally` too; a flow that is ended already keeps the reason for it."""
        return replace(self.cancelled(now, said), finally_too=True)

    def timed_out(self, timeout: str) -> Lifecycle:
        """Brought to its end by its own timeout."""
        sentence = f"the flow took longer than its timeout of {timeout}"
        return replace(self, ending_reason=TIMEOUT, ending_message=sentence)

    def suspended_for(self, action: str, now: datetime) -> Lifecycle:
        """Suspended by a Command; `now`: whole seconds. AbortJob goes further than the others."""
        if self.suspended_at is None:
            return replace(self, suspended_at=now, suspended_by=action)
        return replace(self, suspended_by=action) if action == Action.ABORT_JOB else self

    def resumed(self, now: datetime) -> Lifecycle:
        """No longer suspended; `now`: whole seconds."""
        if self.suspended_at is None:
            return self
        seconds = (self.suspended_seconds or 0) + max(
            0, int((now - self.suspended_at).total_seconds())
        )
        return replace(self, suspended_at=None, suspended_by="", suspended_seconds=seconds or None)


def untouched(flow: JobFlow) -> bool:
    """Whether nobody has ever written a status of the flow."""
    status = flow.status
    return not (status.state.phase or status.conditions or status.job_status_list)


def stored_lifecycle(flow: JobFlow, now: datetime) -> Lifecycle:
    """As the flow's status has it; `now`: whole seconds."""
    status = flow.status
    state = status.state
    halted = state.reason in HALTS
    if flow.spec.suspend and untouched(flow):
        suspended: tuple[datetime | None, str] = (now, BY_SPEC)
    else:
        suspended = (status.suspended_at, status.suspended_by)
    return Lifecycle(
        started=_started(flow, now),
        ending_reason=state.reason if halted else "",
        ending_message=state.message if halted else "",
        finally_too=status.finally_cancelled,
        suspended_at=suspended[0],
        suspended_by=suspended[1],
        suspended_seconds=status.suspended_seconds,
    )


def _started(flow: JobFlow, now: datetime) -> datetime:
    """When the flow was taken up: now, or, where Volcano's controller did, when it was made."""
    status = flow.status
    if status.start_time is not None:
        return status.start_time
    made = flow.metadata.creation_timestamp
    return made if status.state.phase and made is not None else now


def deadline(timeout: str | None, course: Lifecycle) -> datetime | None:
    """When the flow's time is over; None: it is not limited, or does not run now.

    A timeout that is none came past admission, which names it where the flow has not begun.
    """
    if not timeout or course.ending_reason or course.suspended_at is not None:
        return None
    try:
        allowed = parse_duration(timeout)
    except ValueError:
        return None
    return add(course.started, allowed + (course.suspended_seconds or 0))
