"""The approval of a step: its question, its answer, and the buttons to answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.status import ApprovalResult
from jobflow.cli.steer.answer import refuse_answer
from jobflow.cli.ui.panels.step.selected import SelectedStep
from jobflow.cli.ui.web.fragments import Fragment
from jobflow.core.spec.approvals import asks

MAX_LINKS = 10
"""Items that wait; the list of items has all."""
_ANSWERS: Mapping[str, str] = {
    ApprovalAnswer.APPROVE: "Approved",
    ApprovalAnswer.REJECT: "Rejected",
}


@dataclass(frozen=True, slots=True)
class Approval:
    """The question of an approval, and its answer."""

    step: str
    """`STEP` or `STEP/INDEX`."""
    question: str
    timeout: str
    answer: str
    by: str
    time: datetime | None
    refusal: str
    """Why it cannot be answered now; "" if it can."""
    items: tuple[str, ...] = ()
    """`STEP/INDEX` of the items that wait, if the step has items and none is selected."""


def approval(selected: SelectedStep) -> Fragment:
    """Return the section of a step that has an approval."""
    spec, choice, run = selected.step.approval, selected.choice, selected.run
    assert spec is not None
    number = None if choice.index is None else str(choice.index)
    result = run.approval or ApprovalResult()
    timeout = ""
    if spec.timeout:
        timeout = f"After {spec.timeout} without an answer: {spec.default or 'Reject'}."
    items: tuple[str, ...] = ()
    if selected.has_many_runs:
        waiting = (each for each in selected.condition.runs or () if asks(each))
        items = tuple(f"{choice}/{each.index}" for each in islice(waiting, MAX_LINKS))
    shown = Approval(
        step=str(choice),
        question=run.message if asks(run) else spec.message or "",
        timeout=timeout,
        answer=_ANSWERS.get(result.answer, ""),
        by=result.by,
        time=result.time,
        refusal=refuse_answer(selected.flow, selected.step, number),
        items=items,
    )
    return Fragment("step-approval", "step-approval.html", shown)
