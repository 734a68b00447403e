"""Child flows that follow a script: their parent sees no more of them than their status."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.status import StepFailure
from jobflow.api.volcano.job import Job, JobPhase, JobState, JobStatus
from jobflow.core.planning.observed.child_flow import ChildFlow
from model.acting import Vcjob, with_phase

CANCELLED = "Cancelled"
STEP_OF_CHILD = "i"
"""The only step of a child flow."""


@dataclass
class Child(Vcjob):
    """A child flow in the place of a vcjob: Running, then Completed (Succeed) or Failed."""

    cancelled: bool = False
    """Whether a cancel has ended it, after its `finally`."""
    counterpart: Vcjob | None = None
    """The child flow of which it has all its results if it completes."""

    @property
    def same_as(self) -> Vcjob:
        return self.counterpart if self.counterpart and self.phase == "Completed" else self

    @property
    def has_flow_error(self) -> bool:
        return self.script.flow_error and self.phase == "Failed" and not self.cancelled

    @property
    def failure_reason(self) -> str:
        return "FlowFailed"

    @property
    def output(self) -> Any:
        same = self.same_as
        if same is not self:
            return same.output
        return None if self.cancelled else super().output

    def next_move(self) -> tuple[float, str] | None:
        move = super().next_move()
        return move if move is None or move[1] != "Aborted" else (move[0], CANCELLED)

    def move(self, phase: str, now: float) -> None:
        self.cancelled = phase == CANCELLED
        super().move("Failed" if self.cancelled else phase, now)

    def cancel(self, now: float) -> None:
        """End it, when its `finally` has ended; it is never deleted for that."""
        if self.to_abort is None:
            self.to_abort = math.ceil(now) + min(self.script.obeys, 70)


def observed(job: Job, child: Child, at: datetime) -> Job:
    """Return a child flow as its parent sees it in this phase."""
    assert isinstance(job, ChildFlow)
    shown = with_phase(job, child.phase, at)
    status = msgspec.structs.replace(shown.status, task_status_count=None)
    if child.cancelled:
        state = msgspec.structs.replace(status.state, reason=CANCELLED)
        status = msgspec.structs.replace(status, state=state)
    failed = child.phase == "Failed" and not child.cancelled
    failure = StepFailure(step=STEP_OF_CHILD, exit_code=1, reason="Error", node=child.script.node)
    return msgspec.structs.replace(
        shown,
        status=status,
        ending=CANCELLED if child.to_abort is not None else "",
        outputs=None if child.output is None else dict(child.output),
        failure=failure if failed else None,
        flow_error=child.has_flow_error,
        counterpart="" if child.same_as is child else child.same_as.name,
    )


def retried(job: Job, retries: int) -> Job:
    """Return a child flow as its parent sees it after a retry."""
    new = ChildFlow(metadata=job.metadata, retries=retries)
    return msgspec.structs.replace(new, status=JobStatus(state=JobState(phase=JobPhase.PENDING)))


def params_of(flow: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a child flow in the form of its parent's `flow.params`."""
    return {param["name"]: param["value"] for param in flow.get("params") or ()}
