"""Commands on single steps and items, which are checked against the flow and its child flows before
anything is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.resources import JOBS, ObjectMeta
from jobflow.api.volcano.command import Action, Command
from jobflow.api.volcano.job import Job
from jobflow.client.conditions import condition_of
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.verbs.command import Verb, create_command
from jobflow.core.names import root_of, stored_condition
from jobflow.core.planning.flow import by_hand
from jobflow.core.spec.items import get_items, get_parallelism
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.step_commands import Place, StepCommand, find_place, parse_step_command
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_command, format_count
from jobflow.core.timelines.runs_again import RunsAgain, list_runs_again
from jobflow.core.timelines.spans import runs_of
from jobflow.kube.client import ApiError, Client


@dataclass(frozen=True, slots=True)
class StepVerb:
    """A verb on steps, such as `jobflow cancel FLOW --step`."""

    verb: Verb
    touches: str
    """The end of the sentence before the list: `these are given up`."""
    key: str
    """The key of the list in JSON."""


CANCEL_STEP = StepVerb(
    Verb("cancel", "cancelling", Action.CANCEL_STEP), "these are given up, and fail", "cancels"
)
SKIP_STEP = StepVerb(
    Verb("skip", "skipping", Action.SKIP_STEP),
    "these are skipped, as if they had completed",
    "skips",
)
SCALE_FLOW = StepVerb(Verb("scale", "scaling", Action.SCALE_FLOW), "", "scales")
RETRY_STEPS = StepVerb(
    Verb("retry", "retrying", Action.RETRY_STEPS), "these run again", "runsAgain"
)


def read_command(
    verb: StepVerb,
    paths: Sequence[str],
    comment: str = "",
    annotations: dict[str, str] | None = None,
) -> Command:
    """Return the Command, with the annotation of its outputs, without its flow. Raises CommandError
    if no controller could read it."""
    message = " ".join((",".join(dict.fromkeys(paths)), *comment.split()))
    meta = ObjectMeta(annotations=annotations)
    command = Command(metadata=meta, action=verb.verb.action, message=message)
    if isinstance(why := parse_step_command(command), str):
        raise CommandError(UNUSABLE, why)
    return command


async def check_steps(
    client: Client, flow: JobFlow, verb: StepVerb, command: Command
) -> list[RunsAgain]:
    """Return what the Command would touch. Raises CommandError if anything that is named cannot
    be."""
    said = parse_step_command(command)
    assert not isinstance(said, str)
    _refuse_child(flow, verb)
    children = await read_children(client, [flow])
    touched = [await _touched(client, flow, children, said, path) for path in said.paths]
    if said.action != Action.RETRY_STEPS:
        return touched
    return list_runs_again(flow, children, datetime.now(UTC), paths=said.paths)


async def send_steps(client: Client, flow: JobFlow, verb: StepVerb, command: Command) -> str:
    """Send the Command, which has been checked, and return its name."""
    return await create_command(
        client,
        flow,
        verb.verb,
        message=command.message,
        annotations=command.metadata.annotations,
    )


async def check_scale(client: Client, flow: JobFlow, command: Command) -> int | None:
    """Return the parallelism that the Command would replace; None: no limit. Raises CommandError if
    what is named cannot be."""
    said = parse_step_command(command)
    assert not isinstance(said, str)
    _refuse_child(flow, SCALE_FLOW)
    children = await read_children(client, [flow])
    found, place = await _find(client, flow, children, said, said.paths[0])
    steps = {step.name: step for step in found.all_steps}
    return get_parallelism(found, steps.get(place.key.step))


def _refuse_child(flow: JobFlow, verb: StepVerb) -> None:
    if not flow.is_child:
        return
    name = verb.verb.name
    flag = " PATH" if name in ("skip", "scale") else " --step PATH"
    whole = format_command(f"jobflow {name}", root_of(flow), flag)
    why = f"is a child flow: name the path from its outermost flow, {whole}"
    raise CommandError(FAILED, f"JobFlow {flow.metadata.name} {why}")


async def _find(
    client: Client, flow: JobFlow, children: Mapping[str, JobFlow], said: StepCommand, below: str
) -> tuple[JobFlow, Place]:
    """Return the place of a path, and its flow."""
    flow, name = with_param_values(flow), flow.metadata.name
    place = find_place(flow, below, said.action)
    if isinstance(place, str):
        steps = [step.name for step in flow.all_steps]
        unknown = below.partition("/")[0]
        guess = "" if unknown in steps else did_you_mean(Suggester(steps).nearest(unknown))
        raise CommandError(UNUSABLE, f"JobFlow {name}: {place}{guess}")
    if flow.metadata.deletion_timestamp is not None:
        raise CommandError(FAILED, f"JobFlow {name} is being deleted")
    condition, find = condition_of(flow, place.key.step), partial(stored_condition, flow)
    named = next((step for step in flow.all_steps if step.name == place.key.step), None)
    if named is not None and (missing := by_hand.missing_item(named, place.key, condition)):
        raise CommandError(UNUSABLE, f"JobFlow {name}: {missing}")
    why = by_hand.refuse_flow(flow, said.action)
    why = why or by_hand.refuse(flow, said, place, find, ends=by_hand.why_it_ends(flow))
    if why and not await _has_just_ended(client, flow, children, said, place):
        raise CommandError(FAILED, f"JobFlow {name}: {why}")
    if not place.below:
        return flow, place
    run = condition if place.key.index is None else condition.run_at(place.key.index)
    child = children.get(run.flow) if run is not None else None
    if child is None:
        raise CommandError(FAILED, f"JobFlow {name}: the flow of step {place.key} is gone")
    return await _find(client, child, children, said, place.below)


async def _has_just_ended(
    client: Client,
    flow: JobFlow,
    children: Mapping[str, JobFlow],
    said: StepCommand,
    place: Place,
) -> bool:
    """Return whether the jobs and child flows of what runs again have ended, which the status
    of the flow says only a moment later."""
    condition, index = condition_of(flow, place.key.step), place.key.index
    runs = [run for run in runs_of(condition) if index in (None, run.index) and run.is_alive]
    if said.action != Action.RETRY_STEPS or place.below or not runs:
        return False
    for run in runs:
        has_ended = run.flow in children and children[run.flow].final
        if not run.flow:
            try:
                job = await client.get(JOBS, flow.metadata.namespace, run.job, Job)
            except ApiError:
                return False
            has_ended = job.ended
        if not has_ended:
            return False
    return True


async def _touched(
    client: Client, flow: JobFlow, children: Mapping[str, JobFlow], said: StepCommand, path: str
) -> RunsAgain:
    found, place = await _find(client, flow, children, said, path)
    condition = condition_of(found, place.key.step)
    if place.key.index is not None:
        run = condition.run_at(place.key.index)
        return RunsAgain(path, run.phase if run is not None else StepPhase.WAITING)
    step = next(each for each in found.all_steps if each.name == place.key.step)
    return RunsAgain(path, condition.phase, _count(step, condition, said.action))


def _count(step: Step, condition: StepCondition, action: str) -> str:
    items = get_items(step, condition.decisions)
    if items is None:
        return ""
    ended = sum(by_hand.is_settled(run, action) for run in condition.runs or ())
    left = len(items) - ended
    return f"{left} of {format_count(len(items), 'item')}" if left < len(items) else ""
