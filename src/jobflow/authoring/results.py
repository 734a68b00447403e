"""How a flow ended, or is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FailedAttempt, FlowPhase, StepFailure
from jobflow.authoring.objects.faults import RunError
from jobflow.client.step_rows import StepRow, records_of, run_indices, run_rows, step_rows
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.display.tree import table

# A table in a notebook or a log has no terminal.
_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunResult:
    phase: str
    """Completed, Failed or Skipped at the end; before it, Waiting or the phase of its job."""
    reason: str
    message: str
    outputs: Mapping[str, Any]
    attempts: int
    job: str
    start: datetime | None
    end: datetime | None
    failure: StepFailure | None = None
    """The pod that made it fail."""
    failed_attempts: Sequence[FailedAttempt] = ()
    """The last attempts that failed before the present one, at most 3."""

    @property
    def result(self) -> Any:
        """The value that a function returned, if it is no dict; else None."""
        return self.outputs.get("result")

    @property
    def duration(self) -> timedelta | None:
        """Time from its start to its end; None before the end."""
        return self.end - self.start if self.start and self.end else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON; times are texts."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult(_RunResult):
    """The state of an item of a step with for_each, or of a run of a repeat."""

    index: int
    value: Any
    """The item; its index if there is only their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult(_RunResult):
    """The state of a step."""

    name: str
    items: Sequence[ItemResult] = ()
    """Also those that have not started, once their number is known."""


@dataclass(frozen=True, slots=True)
class Result:
    """The state of a flow. `print(result)` shows a table of its steps."""

    flow: JobFlow = field(repr=False)
    """The object as the API server has it."""
    logs: Path | None = None
    """The folder with the logs of processes."""

    @property
    def name(self) -> str:
        return self.flow.metadata.name

    @property
    def namespace(self) -> str:
        return self.flow.metadata.namespace

    @property
    def phase(self) -> str:
        """Pending, Running, Succeed, Failed or Terminating."""
        return self.flow.status.state.phase or FlowPhase.PENDING.value

    @property
    def reason(self) -> str:
        """The reason of the phase in one word."""
        return self.flow.status.state.reason

    @property
    def message(self) -> str:
        """The reason of the phase in a sentence."""
        return self.flow.status.state.message

    @property
    def succeeded(self) -> bool:
        """Whether the flow has ended with success."""
        return self.phase == FlowPhase.SUCCEED

    @property
    def ended(self) -> bool:
        """Whether the flow has ended."""
        return self.flow.final

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the flow, once it has ended."""
        return self.flow.status.outputs or {}

    @property
    def start(self) -> datetime | None:
        """When it started, or was last retried."""
        return self.flow.status.start_time

    @property
    def end(self) -> datetime | None:
        return self.flow.status.completion_time if self.ended else None

    @property
    def steps(self) -> Mapping[str, StepResult]:
        """The steps by name, those of finally last."""
        records = records_of(self.flow)
        return {
            row.step: StepResult(
                name=row.step,
                items=[
                    ItemResult(index=each.index or 0, value=each.value, **_facts(each))
                    for each in run_rows(row, run_indices(row), records)
                ],
                **_facts(row),
            )
            for row in step_rows(self.flow)
        }

    def __getitem__(self, step: str) -> StepResult:
        found = self.steps
        if step not in found:
            guess = did_you_mean(Suggester([*found]).nearest(step))
            raise KeyError(f'flow {self.name} has no step "{step}"{guess}')
        return found[step]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, with all steps and items; times are texts."""
        facts = ("namespace", "name", "phase", "reason", "message", "outputs", "start", "end")
        found = {name: getattr(self, name) for name in (*facts, "steps")}
        return msgspec.to_builtins(found)  # type: ignore[no-any-return]

    def check(self) -> Result:
        """Return the result itself if the flow succeeded. Raises RunError otherwise."""
        if not self.succeeded:
            failed = [each for each in self.steps.values() if each.phase == "Failed"]
            why = "; ".join(f"{each.name}: {each.message or each.reason}" for each in failed)
            raise RunError(f"flow {self.name} is {self.phase}: {why or self.message}")
        return self

    def __str__(self) -> str:
        state = f"{self.name}  {self.phase}" + (f"  {self.reason}" if self.reason else "")
        rows = table(self.flow, datetime.now(UTC), _WIDTH)
        return "\n".join([state, "", *(line.plain.rstrip() for line in rows)])

    def _repr_html_(self) -> str:
        from jobflow.display.notebook import table_html  # a notebook alone asks for it

        return table_html(self.flow)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # in notebooks


def _facts(row: StepRow) -> dict[str, Any]:
    names = ("reason", "message", "attempts", "job", "failure")
    return {
        **{name: getattr(row.condition, name) for name in names},
        "phase": row.phase,
        "failed_attempts": row.condition.failed_attempts or [],
        "outputs": row.values,
        "start": row.times.start,
        "end": row.times.until,
    }
