"""Commands on single steps and items, which are checked against the flow and its child flows before
anything is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import Action
from jobflow.client.conditions import condition_of, run_of
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.verbs.command import Verb, create_command
from jobflow.core.names import root_of, stored_condition
from jobflow.core.planning.flow import by_hand
from jobflow.core.spec.items import get_items
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_command, format_count
from jobflow.kube.client import Client


@dataclass(frozen=True, slots=True)
class StepVerb:
    """A verb on steps, such as `jobflow cancel FLOW --step`."""

    verb: Verb
    touches: str
    """The end of the sentence before the list: `these are given up`."""
    key: str
    """The key of the list in JSON."""


CANCEL_STEP = StepVerb(
    Verb(
        name="cancel",
        gerund="cancelling",
        action=Action.CANCEL_STEP,
        refusal=lambda flow: "",
        handled=lambda before, now: False,
        reached=lambda flow, children: False,
    ),
    touches="these are given up, and fail",
    key="cancels",
)


class Touched(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step or an item on which a Command acts."""

    step: str
    """Its path from the outermost flow."""
    phase: str
    count: str = ""
    """`2 of 12 items`, if not all items of a step are touched."""


async def check_steps(
    client: Client, flow: JobFlow, verb: StepVerb, paths: Sequence[str]
) -> list[Touched]:
    """Return what the Command would touch. Raises CommandError if anything that is named cannot
    be."""
    meta = flow.metadata
    if flow.is_child:
        name = verb.verb.name
        whole = format_command(f"jobflow {name}", root_of(flow), " --step PATH")
        why = f"JobFlow {meta.name} is a child flow: name the path from its outermost flow, {whole}"
        raise CommandError(FAILED, why)
    children = await read_children(client, [flow]) if any("/" in path for path in paths) else {}
    return [_check(flow, children, verb, path, path) for path in dict.fromkeys(paths)]


async def send_steps(
    client: Client, flow: JobFlow, verb: StepVerb, paths: Sequence[str], comment: str
) -> str:
    """Send the Command, which has been checked, and return its name."""
    message = " ".join((",".join(dict.fromkeys(paths)), *comment.split()))
    return await create_command(client, flow, verb.verb, message=message)


def _check(
    flow: JobFlow, children: Mapping[str, JobFlow], verb: StepVerb, path: str, below: str
) -> Touched:
    name = flow.metadata.name
    place = by_hand.find_place(flow, below)
    if isinstance(place, str):
        steps = [step.name for step in flow.all_steps]
        unknown = below.partition("/")[0]
        guess = "" if unknown in steps else did_you_mean(Suggester(steps).nearest(unknown))
        raise CommandError(UNUSABLE, f"JobFlow {name}: {place}{guess}")
    if flow.metadata.deletion_timestamp is not None:
        raise CommandError(FAILED, f"JobFlow {name} is being deleted")
    find = partial(stored_condition, flow)
    why = by_hand.refuse_flow(flow, verb.verb.action) or by_hand.refuse(
        flow, verb.verb.action, place, find, ends=by_hand.why_it_ends(flow)
    )
    if why:
        raise CommandError(FAILED, f"JobFlow {name}: {why}")
    step = next(each for each in flow.all_steps if each.name == place.key.step)
    condition = condition_of(flow, step.name)
    run = condition if place.key.index is None else run_of(condition, place.key.index)
    if place.below:
        child = children.get(run.flow) if run is not None else None
        if child is None:
            gone = f"JobFlow {name}: the flow of step {place.key} cannot be found"
            raise CommandError(FAILED, gone)
        return _check(child, children, verb, path, place.below)
    if place.key.index is not None:
        return Touched(path, (run or RunCondition(phase="Waiting")).phase)
    return Touched(path, condition.phase, _count(step, condition, verb.verb.action))


def _count(step: Step, condition: StepCondition, action: str) -> str:
    items = get_items(step, condition.decisions)
    if items is None:
        return ""
    ended = sum(by_hand.is_settled(run, action) for run in condition.runs or ())
    left = len(items) - ended
    return f"{left} of {format_count(len(items), 'item')}" if left < len(items) else ""
