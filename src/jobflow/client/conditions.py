"""The states of the steps of a flow in its status, and indices of their items and runs."""

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.core.names import stored_condition

_MAX_DIGITS = 10
_WAITING = StepCondition(phase=StepPhase.WAITING)


def condition_of(flow: JobFlow, step: str) -> StepCondition:
    """Return the state of a step; it is Waiting before the controller has written it."""
    return stored_condition(flow, step) or _WAITING


def read_index(text: str) -> int | None:
    """Return the index of an item or a run, such as that of `train/3`; None if it is no number."""
    # `int` takes more: signs, spaces, and digits of other scripts
    is_number = text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_number else None
