"""Approvals: runs that ask, and the answers (docs/reference.md, Approvals)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import Approval
from jobflow.api.flow.step import DependsOn, Step
from model.acting import Script
from model.books import SLACK, Run, State
from model.matching import has_items
from model.readiness import STOPPED
from model.work.own_work import OwnWork, attempt_of

if TYPE_CHECKING:
    from model.random_steps import StepDrawing

ANSWERS = {"ApproveStep": "Approve", "RejectStep": "Reject"}
"""The answers of Commands."""
REJECTED = ("Failed", "Rejected")


class Approvals(OwnWork):
    shows = ("Waiting", "WaitingForApproval")
    is_asked = True

    @staticmethod
    def draw(drawing: StepDrawing, name: str, depends_on: DependsOn | None, *, last: bool) -> Step:
        loop = depends_on is not None and depends_on.items is not None
        for_each = drawing.matching_for_each(name, depends_on) if loop else None
        if not loop and drawing.has("forEach", 3):
            for_each = drawing.for_each(name)
        others = [f"$(steps.{other}.outputs.n)?" for other in drawing.plain_before(name)]
        messages = [None, None, "Deploy $(flow.name)?", *others]
        timeouts = [*(() if last else (None, None)), "2s", "4s", *drawing.refer("t")]
        timeout = drawing.draw(st.sampled_from(timeouts))
        default = drawing.draw(st.sampled_from([None, "Approve", "Reject"])) if timeout else None
        return Step(
            name=name,
            approval=Approval(
                message=drawing.draw(st.sampled_from(messages)), timeout=timeout, default=default
            ),
            depends_on=depends_on,
            when=drawing.condition(name) if drawing.has("when", 4) else None,
            for_each=for_each,
            continue_on_failure=True if drawing.has("continueOnFailure", 4) else None,
        )

    @classmethod
    def commands_on(cls, step: Step) -> list[str]:
        keys = [f"{step.name}/{i}" for i in (0, 1)] if has_items(step) else [step.name]
        return [f"{action} {key}" for action in ANSWERS for key in keys]

    def written(self, step: Step) -> Any:
        return approval_of(step).message or ""

    def update_run(self, state: State, run: Run) -> None:
        """End a run that asks: by its timeout, or with the flow; if both are due at this moment, as
        the status shows it."""
        left, shown = self.time_left(state, run), self.reference.seen.steps[state.name]
        by_default = shown.runs.get(run.index, ("", "")) in (("Completed", ""), REJECTED)
        if left is not None and left < SLACK and by_default:
            self.decide(run, approval_of(state.step).default or "Reject")
        elif self.reference.running.is_halted(state):
            run.phase, run.reason = "Skipped", STOPPED
        elif left is not None and left <= -SLACK:
            self.decide(run, approval_of(state.step).default or "Reject")

    def suspend(self, *, again: bool) -> None:
        """A suspended flow keeps asking."""

    def time_left(self, state: State, run: Run) -> float | None:
        """Return the seconds until the timeout answers; None if it does not."""
        timeout, reference = approval_of(state.step).timeout, self.reference
        if timeout is None or reference.suspended:
            return None
        question = attempt_of(run)
        assert question is not None
        since = question.created_at + reference.not_counted - question.not_counted
        return math.floor(since) + parse_duration(timeout) - reference.now

    def decide(self, run: Run, answer: str, outputs: dict[str, Any] | None = None) -> None:
        question, now = attempt_of(run), self.reference.now
        assert question is not None
        if answer == "Approve":
            question.phase, question.script, question.ran = "Completed", Script(output=outputs), now
            run.phase, run.reason, run.ended_at = "Completed", "", now
        else:
            run.phase, run.reason = REJECTED

    def command(self, command: str) -> None:
        """Apply an answer, whose text is `step` or `step/index`, and the outputs as JSON."""
        action, _, text = command.partition(" ")
        if action not in ANSWERS:
            return
        key, _, outputs = text.partition(" ")
        name, _, index = key.partition("/")
        for state, run in self.open_runs():
            asks = state.name == name and str("" if run.index is None else run.index) == index
            if asks and not self.reference.ends(state):
                self.decide(run, ANSWERS[action], json.loads(outputs) if outputs else None)


def approval_of(step: Step) -> Approval:
    assert step.approval is not None
    return step.approval
