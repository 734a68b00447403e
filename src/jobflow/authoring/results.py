"""How a flow ended, or is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, RunCondition, StepCondition, StepFailure
from jobflow.authoring.objects.faults import RunError
from jobflow.core.names import stored_condition
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.display.tree import table

# A table in a notebook or a log has no terminal.
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One run of a step with for_each or repeat."""

    index: int
    phase: str
    reason: str
    message: str
    outputs: Mapping[str, Any]
    attempts: int
    job: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The state of a step."""

    name: str
    phase: str
    """Completed, Failed or Skipped at the end; before it, Waiting or the phase of its job."""
    reason: str
    message: str
    outputs: Mapping[str, Any]
    attempts: int
    job: str
    failure: StepFailure | None = None
    """The pod that made it fail."""
    items: Sequence[ItemResult] = ()

    @property
    def result(self) -> Any:
        """The value that a function returned, if it is no dict; else None."""
        return self.outputs.get("result")


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
    def steps(self) -> Mapping[str, StepResult]:
        """The steps by name, those of finally last."""
        found: dict[str, StepResult] = {}
        for step in self.flow.all_steps:
            # A step that nothing has decided about has no condition.
            condition = stored_condition(self.flow, step.name) or StepCondition()
            items = [ItemResult(each.index or 0, **_facts(each)) for each in condition.runs or ()]
            facts = _facts(condition)
            found[step.name] = StepResult(
                step.name, **facts, failure=condition.failure, items=items
            )
        return found

    def __getitem__(self, step: str) -> StepResult:
        found = self.steps
        if step not in found:
            guess = did_you_mean(Suggester([*found]).nearest(step))
            raise KeyError(f'flow {self.name} has no step "{step}"{guess}')
        return found[step]

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

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # in notebooks


def _facts(condition: RunCondition) -> dict[str, Any]:
    names = ("phase", "reason", "message", "attempts", "job")
    facts = {name: getattr(condition, name) for name in names}
    return facts | {"outputs": condition.outputs or {}}
