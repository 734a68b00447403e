"""Steps with an approval: runs that ask, and the answers (docs/reference.md, Approvals).

To ask is an attempt without a vcjob, which takes no room.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import Approval
from model.acting import Script, Vcjob
from model.books import SLACK, Attempt, Batch, Run, State
from model.deciding import EXPRESSION_ERROR
from model.readiness import STOPPED
from model.words import NoValue, substitute

if TYPE_CHECKING:
    from model.reference import Reference

ANSWERS = {"ApproveStep": "Approve", "RejectStep": "Reject"}
"""The answers of Commands."""


@dataclass
class Question(Vcjob):
    """A question in the place of a vcjob. It is Completed once it is approved."""

    not_counted: float = 0.0
    """The suspended seconds of the flow when it was asked."""
    batch: Batch | None = None
    """The plan that asked it."""

    @property
    def alive(self) -> bool:
        return False

    def approve(self, outputs: dict[str, Any] | None, now: float) -> None:
        self.phase, self.script, self.ran = "Completed", Script(output=outputs), now


class Asking:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def ask(self, state: State) -> None:
        """Let the runs of a step ask that may start and ask by the status, or fail those whose
        message has no value. Those that must ask do so (`check`)."""
        running, shown = self.reference.running, self.reference.seen.steps[state.name]
        if state.decided_in is self.reference.batch:
            return  # its decisions are stored first
        must = set(running.ready(state, strict=True)) if self.is_sure() else set()
        for index in list(running.ready(state, strict=False)):
            if index in must | shown.asking and self.has_message(state, index):
                self.begin(state, index)
            elif index in shown.failed and not self.has_message(state, index):
                running.no_vcjob(state, index, EXPRESSION_ERROR)

    def is_sure(self) -> bool:
        """Whether runs that must ask have asked, although the status does not show it: they were
        ended at this moment."""
        seen, policy = self.reference.seen, self.reference.flow.spec.failure_policy
        return not seen.blurred or policy == "Abort" or bool(self.reference.ending)

    def has_message(self, state: State, index: int | None) -> bool:
        """Return whether the message has a value."""
        deciding = self.reference.deciding
        values = deciding.context(state) | deciding.item_values(state, index)
        try:
            substitute(approval_of(state).message or "", values)
        except NoValue:
            return False
        return True

    def begin(self, state: State, index: int | None) -> None:
        run = state.run(index)
        if run is None:
            run = Run(index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        reference = self.reference
        question = Question("", "", Script(), reference.now)
        question.not_counted, question.batch = reference.not_counted, reference.batch
        run.attempts.append(Attempt(question))
        run.again_at = None
        state.phase = "Running"

    def update_run(self, state: State, run: Run) -> None:
        """End a run that asks: by its timeout, or with the flow; if both are due at this moment, as
        the status shows it."""
        left, shown = self.time_left(state, run), self.reference.seen.steps[state.name]
        by_default = shown.runs.get(run.index, ("", "")) in (("Completed", ""), REJECTED)
        if left is not None and left < SLACK and by_default:
            self.decide(run, approval_of(state).default or "Reject")
        elif self.reference.running.is_halted(state):
            run.phase, run.reason = "Skipped", STOPPED
        elif left is not None and left <= -SLACK:
            self.decide(run, approval_of(state).default or "Reject")

    def time_left(self, state: State, run: Run) -> float | None:
        """Return the seconds until the timeout answers; None if it does not."""
        timeout, reference = approval_of(state).timeout, self.reference
        if timeout is None or reference.suspended:
            return None
        question = question_of(run)
        assert question is not None
        since = question.created_at + reference.not_counted - question.not_counted
        return math.floor(since) + parse_duration(timeout) - reference.now

    def decide(self, run: Run, answer: str, outputs: dict[str, Any] | None = None) -> None:
        question = question_of(run)
        assert question is not None
        if answer == "Approve":
            question.approve(outputs, self.reference.now)
            run.phase, run.reason, run.ended_at = "Completed", "", self.reference.now
        else:
            run.phase, run.reason = REJECTED

    def answer(self, action: str, text: str) -> None:
        """Apply a Command, whose text is `step` or `step/index`, and the outputs as JSON."""
        key, _, outputs = text.partition(" ")
        name, _, index = key.partition("/")
        for state, run in self.open_runs():
            asks = state.name == name and str("" if run.index is None else run.index) == index
            if asks and not self.reference.ends(state):
                self.decide(run, ANSWERS[action], json.loads(outputs) if outputs else None)

    def open_runs(self) -> Iterator[tuple[State, Run]]:
        """Yield the runs that ask."""
        for state in self.reference.states.values():
            for run in state.runs if state.step.approval is not None else ():
                if not run.phase and question_of(run) is not None:
                    yield state, run

    def first_open(self) -> str:
        """Return the first run that asks, as a Command names it, or ""."""
        for state, run in self.open_runs():
            return state.name if run.index is None else f"{state.name}/{run.index}"
        return ""

    def due(self) -> Iterator[float]:
        """Yield the times at which a timeout answers."""
        for state, run in self.open_runs():
            if (left := self.time_left(state, run)) is not None:
                yield self.reference.now + left

    def asked_now(self, state: State) -> int:
        """Return how many runs of a step ask since the present plan."""
        questions = filter(None, map(question_of, state.runs))
        return sum(question.batch is self.reference.batch for question in questions)

    def check(self) -> None:
        """Check which runs ask by the status, and that no other one must."""
        reference = self.reference
        expected = {(state.name, run.index) for state, run in self.open_runs()}
        actual = {(name, i) for name, shown in reference.seen.steps.items() for i in shown.asking}
        assert actual == expected, f"at {reference.now} {actual} ask for approval, not {expected}"
        for state in reference.states.values():
            missing = state.step.approval and list(reference.running.ready(state, strict=True))
            assert not missing, f"at {reference.now} {state.name} {missing} ought to ask"


REJECTED = ("Failed", "Rejected")


def approval_of(state: State) -> Approval:
    assert state.step.approval is not None
    return state.step.approval


def question_of(run: Run) -> Question | None:
    """Return the question of the last attempt."""
    vcjob = run.last.vcjob if run.last is not None else None
    return vcjob if isinstance(vcjob, Question) else None
