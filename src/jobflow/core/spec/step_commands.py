"""Commands on single steps: answers to approvals and what users do by hand, with places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jobflow.api import labels
from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.api.volcano.command import Action, Command
from jobflow.core.cel.references import measure_json
from jobflow.core.json_values import maps
from jobflow.core.limits import MAX_RUNS
from jobflow.core.names import format_place, stored_condition
from jobflow.core.pods.outputs import OutputsTooLarge, UnstorableJson, read_outputs
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.work import is_asked, may_run_steps

ANSWERS: Mapping[str, ApprovalAnswer] = {
    Action.APPROVE_STEP: ApprovalAnswer.APPROVE,
    Action.REJECT_STEP: ApprovalAnswer.REJECT,
}
"""The answer of each action that answers an approval."""
MOST = 500
"""Most steps and items of a flow for which its status has a Command."""
MAX_COMMENT = 128
THE_FLOW = "."
"""The path of a child flow itself, from there."""
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
    """Return whether a step of a child flow, or of one below it, may ask for approval."""
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
    """Return the user who has sent a Command, as far as a webhook and the status keep it."""
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


@dataclass(frozen=True, slots=True)
class StepCommand:
    """A Command on steps, read."""

    action: str
    paths: tuple[str, ...]
    by: str
    """The user, or "" if nobody vouches for the name."""
    comment: str = ""
    outputs: dict[str, Any] | None = None
    parallelism: int | None = None
    """With ScaleFlow; then the one path may be "", for the flow itself."""

    def message_for(self, paths: Sequence[str]) -> str:
        """Return the message of a Command about these paths instead."""
        number = "" if self.parallelism is None else f"={self.parallelism}"
        return f"{','.join(paths)}{number} {self.comment}".removeprefix("=")


class Place(NamedTuple):
    """A step or an item of a flow, or a step below it."""

    key: ApprovalKey
    below: str = ""
    """The path from the child flow of the step or item; "" for itself."""


def parse_step_command(command: Command) -> StepCommand | str:
    """Return what a Command whose action is in BY_HAND says, or why it says nothing."""
    names, _, comment = command.message.strip().partition(" ")
    if command.action == Action.SCALE_FLOW:
        return _parse_scale(command, names, comment)
    paths = tuple(dict.fromkeys(name for name in names.split(",") if name))
    if not paths:
        return (
            "its message names no step: write paths such as train, sweep/3 or samples/3/qc, "
            "joined by commas, then a space and a comment"
        )
    if len(paths) > MOST:
        return f"its message names {len(paths)} steps, and at most {MOST} are possible"
    comment = shorten(comment.strip(), MAX_COMMENT)
    text = (command.metadata.annotations or {}).get(labels.OUTPUTS)
    if text is not None and (command.action != Action.SKIP_STEP or len(paths) > 1):
        return f"only a single step that is skipped has outputs: remove {labels.OUTPUTS}"
    outputs = None if text is None else parse_outputs(text)
    if isinstance(outputs, str):
        return outputs
    return StepCommand(command.action, paths, sender_of(command), comment, outputs)


def _parse_scale(command: Command, words: str, comment: str) -> StepCommand | str:
    path, _, digits = words.rpartition("=")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < _MAX_DIGITS
    if not (is_number and int(digits)):
        return "its message has no number: write N or PATH=N, with N of 1 or more, and a comment"
    comment = shorten(comment.strip(), MAX_COMMENT)
    by, number = sender_of(command), int(digits)
    return StepCommand(command.action, (path,), by, comment, parallelism=number)


def find_place(flow: JobFlow, path: str, action: str = "") -> Place | str:
    """Return the place of a path that begins in this flow, or why there is none. With ScaleFlow,
    one that ends with a child flow is about that flow."""
    if path in ("", THE_FLOW):
        return Place(ApprovalKey(""))
    name, _, rest = path.partition("/")
    step = next((each for each in flow.all_steps if each.name == name), None)
    if step is None:
        return f'the flow has no step "{name}"'
    index = None
    if rest and (step.fan_out is not None or step.repeat is not None):
        digits, _, rest = rest.partition("/")
        index = parse_key(f"{name}/{digits}").index
        if index is None or index >= MAX_RUNS:
            return f'step {name} has no item "{digits}": write its index, such as {name}/0'
    if rest and not may_run_steps(step):
        has = "has no items" if index is None else "runs no flow"
        return f'step {name} {has}, so there is no "{path}": write {name}'
    if action == Action.SCALE_FLOW and not rest and may_run_steps(step):
        is_about_items = step.fan_out is not None and index is None
        rest = "" if is_about_items else THE_FLOW
    return Place(ApprovalKey(name, index), rest)
