"""The result of applying a plan, the limit of concurrent requests, and the part that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from jobflow.api.jobflow import JobFlow
from jobflow.core.planning.actions import Action, Confirm, CreateJob, DeleteFlow, Plan, ReadPods
from jobflow.core.reasons import StepReason

REQUESTS_AT_ONCE = 16
"""Maximum concurrent requests of one plan."""


@dataclass(slots=True)
class Applied:
    """The result of applying a plan."""

    again: bool = False
    """There is an answer that no watch event brings, so plan again at once."""
    errors: list[str] = field(default_factory=list)
    """Errors after which a later try may succeed."""
    failed: set[str] = field(default_factory=set)
    """The requests with these errors, by `request_of`; the status write is STATUS."""
    retry_after: float = 0.0
    """Longest time that the server asked to wait, in seconds."""
    status_written: bool = False
    held_back: bool = False
    """A quota or missing rights refused a create; the creates that were not sent yet are left to
    the next plan."""
    answered: bool = field(default=False, compare=False)
    """A create succeeded."""
    stale: bool = False
    """The flow has changed since the plan was made, and was read again."""


class Slots(asyncio.Semaphore):
    """Limits the concurrent requests of a plan. If there are many creates, or the stored status
    says that creates are refused, the limit is one until the first create is answered, so that one
    try shows that the namespace takes no more jobs."""

    def __init__(self, flow: JobFlow, plan: Plan) -> None:
        creates = sum(isinstance(action, CreateJob) for action in plan.actions)
        refused = flow.status.state.reason == StepReason.CREATE_REFUSED
        careful = creates > REQUESTS_AT_ONCE or (refused and creates > 0)
        self._spared = REQUESTS_AT_ONCE - 1 if careful else 0
        super().__init__(REQUESTS_AT_ONCE - self._spared)

    def widen(self) -> None:
        """Allow REQUESTS_AT_ONCE again."""
        while self._spared:
            self._spared -= 1
            self.release()


STATUS = "status"
"""The name of the status write, as by `request_of`."""


def request_of(action: Action) -> str:
    """Return a name for the request of an action, which is the same in later plans."""
    target = action.uid if isinstance(action, ReadPods | DeleteFlow) else action.name
    return f"{type(action).__name__} {target}"


@dataclass(frozen=True, slots=True)
class Due:
    """The part of a plan that is sent now."""

    plan: Plan
    status_wait: float | None
    """Seconds until the status may be written; None if it is not to be written."""
    held: bool = False
    """Whether a part of the plan waits for the backoff."""

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
    """Return the plan without the requests that are in backoff."""
    if not failed:
        return Due(plan, status_wait)
    actions = tuple(each for each in plan.actions if request_of(each) not in failed)
    held = len(actions) < len(plan.actions)
    if STATUS in failed and status_wait is not None:
        status_wait, held = None, True
    return Due(replace(plan, actions=actions), status_wait, held)
