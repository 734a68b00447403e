"""The flows on which a command can act now, by its parameters."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.client.conditions import condition_of
from jobflow.client.verbs import command as verbs
from jobflow.core.spec.step_commands import asks

Params = Mapping[str, Any]


def find_asking(flow: JobFlow) -> Iterator[str]:
    """Yield the steps and items that wait for approval."""
    for step in flow.all_steps:
        condition = condition_of(flow, step.name)
        if step.fan_out is None and asks(condition):
            yield step.name
        yield from (f"{step.name}/{each.index}" for each in condition.runs or () if asks(each))


def _can_cancel(flow: JobFlow, params: Params) -> bool:
    verb = verbs.CANCEL_NOW if params.get("now") else verbs.CANCEL
    return not (flow.final if params.get("step") else verbs.refuse(flow, verb))


def _can_retry(flow: JobFlow, params: Params) -> bool:
    verb = verbs.RETRY_TOLERATED if params.get("tolerated") else verbs.RETRY
    return bool(params.get("step")) or not verbs.refuse(flow, verb)


def _can_skip(flow: JobFlow, params: Params) -> bool:
    ended = (StepPhase.COMPLETED, StepPhase.SKIPPED)
    return any(condition_of(flow, step.name).phase not in ended for step in flow.all_steps)


def _can_answer(flow: JobFlow, params: Params) -> bool:
    return not flow.final and any(find_asking(flow))


CAN_ACT: Mapping[str, Callable[[JobFlow, Params], bool]] = {
    "wait": lambda flow, params: not flow.final,
    "scale": lambda flow, params: not flow.final,
    "submit": lambda flow, params: flow.final,  # --reuse
    "resubmit": lambda flow, params: flow.final or not params.get("reuse"),
    "suspend": lambda flow, params: not verbs.refuse(flow, verbs.SUSPEND),
    "resume": lambda flow, params: not verbs.refuse(flow, verbs.RESUME),
    "cancel": _can_cancel,
    "retry": _can_retry,
    "skip": _can_skip,
    "approve": _can_answer,
    "reject": _can_answer,
    "delete": lambda flow, params: bool(params.get("cancel")) or not verbs.refuse_delete(flow),
}
"""By the name of the command; the others act on every flow."""
