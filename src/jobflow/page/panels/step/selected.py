"""The selected step as the sections of its panel see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.pod import Pod
from jobflow.core.explain.item import describe_unknown_item
from jobflow.page.panels.flow_view import FlowView
from jobflow.page.watches.step import StepChoice


@dataclass(frozen=True, slots=True)
class SelectedStep:
    """A step, or an item of it, at a moment."""

    view: FlowView
    choice: StepChoice
    step: Step
    condition: StepCondition
    """The condition of the step, also if an item is selected."""
    run: RunCondition
    """The condition of the item, or that of the step if no item is selected."""
    unknown: str
    """Why there is no such item; "" if there is one."""

    @classmethod
    def of(cls, view: FlowView) -> SelectedStep | None:
        """Return the selected step; None if the address names none of the flow."""
        step, choice = view.selected, view.choice
        if step is None or choice is None:
            return None
        condition, unknown = view.condition(step.name), ""
        run: RunCondition = condition
        if choice.index is not None:
            unknown = describe_unknown_item(view.flow, step, str(choice.index))
            runs = (each for each in condition.runs or () if each.index == choice.index)
            run = next(runs, RunCondition(index=choice.index, phase="Waiting"))
        return cls(view, choice, step, condition, run, unknown)

    @property
    def flow(self) -> JobFlow:
        """The flow of the step."""
        return self.view.flow

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods of the step or item, as far as they may be read."""
        return self.view.step.pods(self.flow) if self.view.step is not None else ()

    @property
    def has_many_runs(self) -> bool:
        """Whether the step as a whole is selected, and it has items or repeats."""
        return self.step.has_runs and self.choice.index is None
