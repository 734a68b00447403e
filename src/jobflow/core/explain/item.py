"""One item of a forEach or one run of a repeat, as a step of its own that can be explained."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.names import format_job_name, stored_condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.started.matched_items import ItemStates
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.items import describe_scaling, get_items, get_parallelism
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.readiness import TargetState
from jobflow.core.text import format_count

MAX_VALUE = 120
"""Characters of an item or of outputs that are repeated."""
_MAX_DIGITS = 10
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


def describe_unknown_item(flow: JobFlow, step: Step, number: str) -> str:
    """Return a message that the step has no item, or no run, of this number, or "" if it has."""
    condition = stored_condition(flow, step.name) or StepCondition()
    step = next(each for each in with_param_values(flow).all_steps if each.name == step.name)
    noun, total, known = "run", len(condition.runs or ()), "none has started"
    if step.repeat is None:
        items = get_items(step, condition.decisions)
        if items is None:
            why = " yet: they are computed once its dependencies are met"
            if condition.phase in ENDED_STEP_PHASES:
                why = f": it is {condition.phase}, and they were never computed"
            return f'step "{step.name}" has no items{why}'
        noun, total, known = "item", len(items), "none exists"
    if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS and int(number) < total:
        return ""
    if total:
        last = f"0 to {total - 1}" if total > 1 else "0"
        known = f"it has {format_count(total, noun)}, {last}"
    return f'step "{step.name}" has no {noun} "{number}": {known}'


def with_items(ctx: PlanContext, position: int, index: int) -> PlanContext:
    """Return the context in which an item or a run is in the place of its step, and so are the
    items that it depends on."""
    observed = [*ctx.observed]
    for step in find_reachable(lambda step: ctx.layout.needs[step].matched, [position]):
        whole, name = observed[step], observed[step].step.name
        spec = msgspec.structs.replace(
            whole.step, name=f"{name}/{index}", for_each=None, repeat=None
        )
        key = format_job_name(ctx.flow.metadata.name, name, index=index)
        stored = _condition_of(whole, index, ctx.flow)
        observed[step] = ObservedStep(step=spec, key=key, stored=stored, now=whole.now)
    return replace(ctx, observed=observed)


def list_item_waits(flow: JobFlow) -> Mapping[str, Callable[[int], str]]:
    """Return, for each step whose items depend on items of targets, a function that returns what an
    item of it waits for, or ""."""
    if not any(step.matches_items for step in flow.all_steps):
        return {}
    ctx = PlanContext.of(flow, View(), _ANY_TIME)

    def describe_wait(states: ItemStates, index: int) -> str:
        waits = states.of(index) is TargetState.NOT_YET
        return f"waits for {states.message(index)}" if waits else ""

    return {
        ctx.layout.graph.names[step]: partial(describe_wait, ItemStates(step, ctx))
        for step in ctx.layout.matching
    }


def _condition_of(observed: ObservedStep, index: int, flow: JobFlow) -> StepCondition:
    run = next((each.stored for each in observed.runs if each.index == index), None)
    if run is not None:
        fields = {name: getattr(run, name) for name in RunCondition.__struct_fields__}
        return StepCondition(**fields | {"index": None})
    name, step = observed.step.name, observed.stored
    has_ended = step.phase in ENDED_STEP_PHASES
    if observed.step.matches_items and not has_ended:
        # a step with a reason waits as a whole, not for items of its targets
        if step.phase in ("", StepPhase.WAITING) and step.reason:
            return msgspec.structs.replace(step, decisions=None, runs=None)
    elif not step.runs:
        # until the first job, the condition of an item is that of its step
        return msgspec.structs.replace(step, decisions=None)
    state = f"{name} is {step.phase}" + (f" ({step.reason})" if step.reason else "")
    state += f": {step.message}" if step.message else ""
    if has_ended:
        return StepCondition(phase=StepPhase.SKIPPED, message=f"it had not started; {state}")
    most = get_parallelism(flow, observed.step)
    limit = describe_scaling(flow, observed.step) or (f"at most {most} at once" if most else "")
    turn = f"waits for its turn ({limit})" if limit else "waits for its turn"
    return StepCondition(phase=StepPhase.WAITING, message=f"{turn}; {state}")


def describe_item(observed: ObservedStep, index: int) -> str:
    """Return a sentence with the item of this index, or "" if it is only a number or too long."""
    items = get_items(observed.step, observed.stored.decisions)
    if items is None or isinstance(items, range):
        return ""
    text = msgspec.json.encode(items[index]).decode()
    return f"Its item: {text}." if len(text) <= MAX_VALUE else ""
