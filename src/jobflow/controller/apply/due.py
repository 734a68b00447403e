"""Which requests of a plan are sent now: in a backoff, none of those that failed. Sends nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from jobflow.core.planning.actions import Action, Confirm, CreateJob, DeleteFlow, Plan, ReadPods

STATUS = "status"
"""The status write among the requests of a plan."""


def request_of(action: Action) -> str:
    """Return a name for the request of an action; equal requests of later plans have the same."""
    what = action.uid if isinstance(action, ReadPods | DeleteFlow) else action.name
    return f"{type(action).__name__} {what}"


@dataclass(frozen=True, slots=True)
class Due:
    """The part of a plan that is sent now."""

    plan: Plan
    status_wait: float | None
    """Seconds until the status may be written; None: it is not written."""
    held: bool = False
    """Whether a part of the plan waits for the end of the backoff."""

    @property
    def write(self) -> bool:
        """Whether the status is written now."""
        return self.status_wait == 0.0

    def questions(self, *, stale: bool) -> list[str]:
        """The requests whose answers are for another plan to follow; `stale`: so are those that
        were made for an older version of the flow."""
        kinds = (CreateJob, Confirm, ReadPods, *([DeleteFlow] if stale else []))
        asked = [request_of(action) for action in self.plan.actions if isinstance(action, kinds)]
        return [STATUS, *asked] if stale else asked


def due_of(plan: Plan, status_wait: float | None, failed: Collection[str]) -> Due:
    """The plan without the requests that failed in the backoff that still lasts."""
    if not failed:
        return Due(plan, status_wait)
    actions = tuple(each for each in plan.actions if request_of(each) not in failed)
    held = len(actions) < len(plan.actions)
    if STATUS in failed and status_wait is not None:
        status_wait, held = None, True
    return Due(replace(plan, actions=actions), status_wait, held)
