"""Child flows that follow a script: their parent sees no more of them than their status."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.status import StepFailure
from jobflow.api.volcano.job import Job, JobPhase, JobState, JobStatus
from jobflow.core.planning.observed.child_flow import ChildFlow
from model.acting import Script, Vcjob, with_phase

CANCELLED = "Cancelled"
STEP_OF_CHILD = "i"
"""The only step of a child flow."""
_ENDS = {"SkipStep": "Completed", "CancelStep": "Failed"}
"""The phase in which a child flow ends after its step was skipped or given up."""


@dataclass(frozen=True)
class Told:
    """A Command on a step of a child flow, as the child flow gets it."""

    action: str
    message: str
    """Its path from the child flow."""
    outputs: Mapping[str, Any] | None = None


@dataclass
class Child(Vcjob):
    """A child flow in the place of a vcjob: Running, then Completed (Succeed) or Failed."""

    cancelled: bool = False
    """Whether a cancel has ended it, after its `finally`."""
    counterpart: Vcjob | None = None
    """The child flow of which it has all its results if it completes."""
    is_gone: bool = False
    """Whether it has been deleted after its end."""
    told: list[Told] = field(default_factory=list)
    """The Commands on its step that it has taken over."""
    settled: Told | None = None
    """The one that ends its step."""
    settled_at: float = math.inf
    """When the job of its step obeys that."""

    @property
    def same_as(self) -> Vcjob:
        has_all = self.counterpart and self.phase == "Completed" and self.settled is None
        return self.counterpart if self.counterpart and has_all else self

    @property
    def has_flow_error(self) -> bool:
        by_itself = not self.cancelled and self.settled is None
        return self.script.flow_error and self.phase == "Failed" and by_itself

    @property
    def failure_reason(self) -> str:
        return "FlowFailed"

    @property
    def output(self) -> Any:
        same = self.same_as
        if same is not self:
            return same.output
        if self.settled is not None and self.ended:
            return self.settled.outputs
        return None if self.cancelled else super().output

    def next_move(self) -> tuple[float, str] | None:
        move = super().next_move()
        if move is None and not (self.alive and self.settled):
            return None
        at, phase = move or (math.inf, "")
        if self.settled is not None and self.settled_at <= at:
            return self.settled_at, _ENDS[self.settled.action]
        return at, CANCELLED if phase == "Aborted" else phase

    def move(self, phase: str, now: float) -> None:
        self.cancelled = phase == CANCELLED
        if self.cancelled or (phase == "Completed" and now < self.settled_at):
            self.settled = None  # its step has ended before
        elif self.settled is not None and phase == "Failed":
            phase = _ENDS[self.settled.action]
        if phase == "Completed" and self.ran is None:
            self.ran = now  # also one whose only job was skipped before it ran
        super().move("Failed" if self.cancelled else phase, now)

    def accepts(self, told: Told) -> bool:
        """Whether a Command on its step makes sense, so that the webhook lets a user send it."""
        if self.ended:
            return told.action == "RetrySteps" or self.phase == "Failed"
        return self.to_abort is None and told.action != "RetrySteps"

    def take_over(self, told: Told, now: float) -> None:
        """Carry out a Command on its step, while it runs. The step is ended first."""
        self.told.append(told)
        if told.action in _ENDS and self.settled is None:
            self.settled, self.settled_at = told, math.ceil(now) + min(self.script.obeys, 70)

    def gone_on(self, told: Told, script: Script, now: float) -> "Child":
        """Return it as it goes on after its end, because its step is skipped or runs again."""
        if told.action == "SkipStep":
            script = Script(lasts=1, output=told.outputs)
        return Child(self.name, self.uid, script, now, told=[*self.told, told])

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
    assert isinstance(job, ChildFlow)
    new = ChildFlow(metadata=job.metadata, retries=retries, taken_over=job.taken_over)
    return msgspec.structs.replace(new, status=JobStatus(state=JobState(phase=JobPhase.PENDING)))


def params_of(flow: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a child flow in the form of its parent's `flow.params`."""
    return {param["name"]: param["value"] for param in flow.get("params") or ()}
