"""The approval of a step: its question, its answer, and the buttons to answer it."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

from jobflow.api.flow.control import ApprovalAnswer, FailurePolicy
from jobflow.api.flow.status import ApprovalResult, StepPhase
from jobflow.client.conditions import condition_of
from jobflow.client.verbs.answer import refuse_answer
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.spec.step_commands import QUESTION, asks
from jobflow.core.text import format_count, join_names
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment

MAX_LINKS = 10
"""Items that wait; the list of items has all."""
_ANSWERS: Mapping[str, str] = {
    ApprovalAnswer.APPROVE: "Approved",
    ApprovalAnswer.REJECT: "Rejected",
}


def approval(selected: SelectedStep) -> Fragment:
    spec, choice, run = selected.step.approval, selected.choice, selected.run
    assert spec is not None
    result = run.approval or ApprovalResult()
    subject = "The step" if choice.index is None else "The item"
    question = run.message if asks(run) else spec.message or ""
    shown: dict[str, Any] = {
        "step": str(choice),
        "question": question,
        "timeout": "",
        "answer": _ANSWERS.get(result.answer, ""),
        "by": result.by,
        "time": result.time,
        # the dialogs need no question that says only that there is one
        "asked": spec.message or "" if question == QUESTION else question,
        "approved": f"{subject} will be Completed. {_describe_next(selected)}".strip(),
        "rejected": f"{subject} will be Failed. A retry of the flow asks again.",
        "refusal": refuse_answer(selected.flow, selected.step, choice.index),
        "open_items": (),
        "answers": "",
    }
    if spec.timeout:
        default = spec.default or ApprovalAnswer.REJECT
        shown["timeout"] = f"After {spec.timeout} without an answer: {default}."
    if selected.has_many_runs:
        waiting = filter(asks, selected.condition.runs or ())
        shown["open_items"] = tuple(f"{choice}/{each.index}" for each in islice(waiting, MAX_LINKS))
        runs = selected.condition.runs or ()
        given = Counter(run.approval.answer for run in runs if run.approval)
        known = get_items(selected.step, selected.condition.decisions) or ()
        total = format_count(max(len(runs), len(known)), "item")
        rejected = f", {count} rejected" if (count := given[ApprovalAnswer.REJECT]) else ""
        # `2 of 3 items approved, 1 rejected.`
        shown["answers"] = f"{given[ApprovalAnswer.APPROVE]} of {total} approved{rejected}."
    return Fragment("step-approval", "step-approval.html", shown)


def _describe_next(selected: SelectedStep) -> str:
    flow, name = selected.flow, selected.step.name
    behind = [
        step.name
        for step in flow.all_steps
        if step.depends_on is not None and name in (step.depends_on.targets or ())
    ]
    is_last = any(step.name == name for step in flow.spec.finally_ or ())
    failed = [
        step.name
        for step in flow.steps
        for condition in [condition_of(flow, step.name)]
        if condition.phase == StepPhase.FAILED and fails_flow(step, condition)
    ]
    if failed and not is_last and policy_of(flow) is not FailurePolicy.CONTINUE:
        why = f"because {join_names(failed)} failed"
        return f"No step will start except those that handle the failure, {why}."
    if not behind:
        return ""
    steps = join_names(behind)
    if flow.status.suspended_at is not None:
        return f"The flow is suspended: {steps} can start after it is resumed."
    return f"Then {steps} will start, as soon as the other dependencies are met."
