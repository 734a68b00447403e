"""A plan, and properties of it that tests compare; steps have their own names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobflow.api.flow.status import JobFlowStatus, StepCondition
from jobflow.core.planning.actions import (
    AbortJob,
    CancelFlow,
    CreateClaim,
    CreateJob,
    DeleteCommand,
    DeleteJob,
    JobProbe,
    Plan,
    ReadJob,
    ReadPods,
)

if TYPE_CHECKING:
    from support.plan.plan_world import World


@dataclass(frozen=True)
class Planned:
    """A plan and the world for which it was made."""

    plan: Plan
    world: World

    @property
    def status(self) -> JobFlowStatus:
        return self.plan.status

    @property
    def creates(self) -> list[str]:
        return [a.name for a in self.plan.actions if isinstance(a, CreateJob)]

    @property
    def claims(self) -> list[str]:
        """Names of the PersistentVolumeClaims to create."""
        return [a.name for a in self.plan.actions if isinstance(a, CreateClaim)]

    @property
    def deletes(self) -> list[str]:
        return [a.name for a in self.plan.actions if isinstance(a, DeleteJob)]

    @property
    def must_not_exist(self) -> list[str]:
        """Names of the vcjobs that must not exist when further attempts are created."""
        creates = [a for a in self.plan.actions if isinstance(a, CreateJob)]
        return [create.guard.gone for create in creates if create.guard is not None]

    @property
    def job_reads(self) -> list[str]:
        return [a.name for a in self.plan.actions if isinstance(a, ReadJob)]

    @property
    def aborts(self) -> list[str]:
        return [a.name for a in self.plan.actions if isinstance(a, AbortJob)]

    @property
    def cancels(self) -> list[str]:
        """Names of the other flows to cancel."""
        return [a.name for a in self.plan.actions if isinstance(a, CancelFlow)]

    @property
    def reads(self) -> list[str]:
        return [a.job for a in self.plan.actions if isinstance(a, ReadPods)]

    @property
    def probes(self) -> list[tuple[str, str]]:
        """(step, target's vcjob) of each planned probe."""
        return [(w.step, w.job) for w in self.plan.wants if isinstance(w, JobProbe)]

    @property
    def command_deletes(self) -> list[str]:
        return [a.name for a in self.plan.actions if isinstance(a, DeleteCommand)]

    @property
    def conditions(self) -> dict[str, StepCondition]:
        prefix = f"{self.world.flow.metadata.name}-"
        found = self.status.conditions or {}
        return {key.removeprefix(prefix): condition for key, condition in found.items()}

    @property
    def phases(self) -> dict[str, str]:
        return {step: condition.phase for step, condition in self.conditions.items()}

    @property
    def waiting(self) -> dict[str, str]:
        """The message of each step that waits for others."""
        return self._waiting_messages("")

    @property
    def waiting_for_probe(self) -> dict[str, str]:
        return self._waiting_messages("WaitingForProbe")

    def _waiting_messages(self, reason: str) -> dict[str, str]:
        waiting = ("Waiting", reason)
        return {s: c.message for s, c in self.conditions.items() if (c.phase, c.reason) == waiting}

    @property
    def skipped(self) -> dict[str, str]:
        return self._reasons("Skipped")

    @property
    def failed(self) -> dict[str, str]:
        return self._reasons("Failed")

    @property
    def held_up(self) -> dict[str, str]:
        """The reason of each step that waits for something other than steps."""
        return {step: reason for step, reason in self._reasons("Waiting").items() if reason}

    def _reasons(self, phase: str) -> dict[str, str]:
        return {s: c.reason for s, c in self.conditions.items() if c.phase == phase}

    @property
    def phase(self) -> str:
        return self.status.state.phase

    @property
    def reason(self) -> str:
        return self.status.state.reason

    @property
    def message(self) -> str:
        return self.status.state.message

    @property
    def events(self) -> list[str]:
        return [event.reason for event in self.plan.events]

    @property
    def refused_commands(self) -> list[str]:
        warnings = [event for event in self.plan.events if event.reason == "CommandRefused"]
        assert all(event.type == "Warning" for event in warnings)
        return [event.message.partition(" was refused: ")[2] for event in warnings]

    @property
    def asks_at_once(self) -> bool:
        """Whether the next plan is due now or earlier, and so would be the same plan."""
        after = self.plan.requeue_after
        return after is not None and after <= timedelta(0)

    @property
    def wakes_for_nothing(self) -> bool:
        """Whether there is nothing to do in this plan nor in the next one that it asks for. An
        attempt of which the status gives the time is a reason to look, though room may lack."""
        after = self.plan.requeue_after
        if after is None or not self.nothing:
            return False
        later = self.world.later(after.total_seconds())
        return later.now not in attempt_times(self.status) and later.plan().nothing

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do, to write or to report."""
        return (
            not self.plan.actions
            and not self.plan.events
            and self.plan.status == self.world.flow.status
        )


def attempt_times(status: JobFlowStatus) -> set[datetime | None]:
    """Return the times of the next attempts of all steps and runs."""
    conditions = (status.conditions or {}).values()
    runs = (run for condition in conditions for run in (condition, *(condition.runs or ())))
    return {run.next_attempt_time for run in runs}
