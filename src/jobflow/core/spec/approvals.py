"""Approvals: whether a step asks for one, and the answers that Commands carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jobflow.api import labels
from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.api.volcano.command import Action, Command
from jobflow.core.cel.references import measure_json
from jobflow.core.json_values import maps
from jobflow.core.names import format_place, stored_condition
from jobflow.core.pods.outputs import OutputsTooLarge, UnstorableJson, read_outputs
from jobflow.core.reasons import StepReason
from jobflow.core.work import is_asked

ANSWERS: Mapping[str, ApprovalAnswer] = {
    Action.APPROVE_STEP: ApprovalAnswer.APPROVE,
    Action.REJECT_STEP: ApprovalAnswer.REJECT,
}
"""The answer of each action that answers an approval."""
QUESTION = "waits for approval"
"""Message of an approval without one."""
MAX_BY_BYTES = 128
"""Bytes of a user's name that a status keeps, as JSON without quotes."""
_MAX_DIGITS = 10
"""More digits than an index has; Python refuses to read thousands of them."""


@dataclass(frozen=True, slots=True)
class ApprovalKey:
    """The step of an approval and, with forEach, the index of its item."""

    step: str
    index: int | None = None

    def __str__(self) -> str:
        return format_place(self.step, self.index)


class StepAnswer(NamedTuple):
    """An answer to the approval of a step or an item."""

    key: ApprovalKey
    answer: ApprovalAnswer
    by: str = ""
    """The user, or "" if nobody vouches for the name."""
    comment: str = ""
    outputs: dict[str, Any] | None = None


def asks(run: RunCondition) -> bool:
    return run.reason == StepReason.WAITING_FOR_APPROVAL and run.phase == StepPhase.WAITING


def asks_anywhere(flow: Mapping[str, Any]) -> bool:
    """Return whether a step of a child flow of a spec, or of a flow below it, may ask for
    approval."""
    steps = [*maps(flow.get("flows")), *maps(flow.get("finally"))]
    cases = [case for step in steps for case in (step, *maps(step.get("switch")))]
    below = (case["flow"] for case in cases if isinstance(case.get("flow"), dict))
    return any(case.get("approval") is not None for case in cases) or any(map(asks_anywhere, below))


def has_open_approval(flow: JobFlow) -> bool:
    """Return whether an approval of a flow, without those of flows below it, is not given."""
    asked = (step.name for step in flow.all_steps if is_asked(step))
    return any(
        run.phase not in (StepPhase.COMPLETED, StepPhase.SKIPPED)
        for condition in (stored_condition(flow, name) or StepCondition() for name in asked)
        for run in (condition, *(condition.runs or ()))
    )


def parse_key(text: str) -> ApprovalKey:
    """Return the step and the item of `train` or `train/3`."""
    step, slash, digits = text.partition("/")
    has_index = slash and digits.isascii() and digits.isdigit() and len(digits) < _MAX_DIGITS
    return ApprovalKey(step, int(digits)) if has_index else ApprovalKey(text)


def sender_of(command: Command) -> str:
    """Return the user who has sent a Command, as far as a webhook vouches for it and a status keeps
    the name."""
    by = (command.metadata.annotations or {}).get(labels.BY, "")[:MAX_BY_BYTES]
    while measure_json(by) > MAX_BY_BYTES + len('""'):  # wide characters, or escaped ones
        by = by[:-1]
    return by


def parse_outputs(text: str) -> dict[str, Any] | None | str:
    """Return the outputs in the annotation of a Command, or why there are none."""
    try:
        return read_outputs(text)
    except OutputsTooLarge as excess:
        return f"its outputs {excess}"
    except UnstorableJson:
        return f"its annotation {labels.OUTPUTS} is not a JSON object"


def parse_answer(command: Command) -> StepAnswer | str:
    """Return the answer of a Command whose action is one of ANSWERS, or why it has none."""
    name, _, comment = command.message.strip().partition(" ")
    if not name:
        return "its message names no step: write the step or step/index, a space, and a comment"
    key = parse_key(name)
    answer = ANSWERS[command.action]
    annotations = command.metadata.annotations or {}
    by = sender_of(command)
    text = annotations.get(labels.OUTPUTS)
    if text is not None and answer is ApprovalAnswer.REJECT:
        return f"a step that is rejected has no outputs; remove the annotation {labels.OUTPUTS}"
    outputs = None if text is None else parse_outputs(text)
    if isinstance(outputs, str):
        return outputs
    return StepAnswer(key, answer, by, comment.strip(), outputs)
