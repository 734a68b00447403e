"""The approval of a step: its question, its answer, and the buttons to answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from jobflow.api.flow.control import ApprovalAnswer, FailurePolicy
from jobflow.api.flow.status import ApprovalResult, StepPhase
from jobflow.client.verbs.answer import refuse_answer
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.spec.approvals import QUESTION, asks
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import format_count, join_names
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment

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
    asked: str
    """The question in the dialogs of the answers, also if the step has no message."""
    approved: str
    """The effect of an approval, in sentences."""
    rejected: str
    refusal: str
    """Why it cannot be answered now; "" if it can."""
    items: tuple[str, ...] = ()
    """`STEP/INDEX` of the items that wait, if the step has items and none is selected."""
    answers: str = ""
    """`2 of 3 items approved, 1 rejected.`, if the step has items and none is selected."""


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
    answers = ""
    if selected.has_many_runs:
        waiting = (each for each in selected.condition.runs or () if asks(each))
        items = tuple(f"{choice}/{each.index}" for each in islice(waiting, MAX_LINKS))
        answers = _count(selected)
    shown = Approval(
        step=str(choice),
        question=run.message if asks(run) else spec.message or "",
        timeout=timeout,
        answer=_ANSWERS.get(result.answer, ""),
        by=result.by,
        time=result.time,
        asked=run.message if asks(run) and run.message != QUESTION else spec.message or "",
        approved=_describe_approval(selected),
        rejected=f"{_subject(selected)} will be Failed. A retry of the flow asks again.",
        refusal=refuse_answer(selected.flow, selected.step, number),
        items=items,
        answers=answers,
    )
    return Fragment("step-approval", "step-approval.html", shown)


def _subject(selected: SelectedStep) -> str:
    return "The step" if selected.choice.index is None else "The item"


def _describe_approval(selected: SelectedStep) -> str:
    """Return what follows an approval, in the present state of the flow."""
    flow, name = selected.flow, selected.step.name
    first = f"{_subject(selected)} will be Completed."
    behind = [
        step.name
        for step in flow.all_steps
        if step.depends_on is not None and name in (step.depends_on.targets or ())
    ]
    is_last = any(step.name == name for step in flow.spec.finally_ or ())
    failed = [
        step.name
        for step in flow.steps
        if selected.view.condition(step.name).phase == StepPhase.FAILED
        and fails_flow(step, selected.view.condition(step.name))
    ]
    if failed and not is_last and policy_of(flow) is not FailurePolicy.CONTINUE:
        why = f"because {join_names(failed)} failed"
        return f"{first} No step will start except those that handle the failure, {why}."
    if not behind:
        return first
    steps = join_names(behind)
    if flow.status.suspended_at is not None:
        return f"{first} The flow is suspended: {steps} can start after it is resumed."
    return f"{first} Then {steps} will start, as soon as the other dependencies are met."


def _count(selected: SelectedStep) -> str:
    runs = selected.condition.runs or ()
    given = Counter(run.approval.answer for run in runs if run.approval)
    known = get_items(selected.step, selected.condition.decisions) or ()
    total = format_count(max(len(runs), len(known)), "item")
    rejected = f", {count} rejected" if (count := given[ApprovalAnswer.REJECT]) else ""
    return f"{given[ApprovalAnswer.APPROVE]} of {total} approved{rejected}."
