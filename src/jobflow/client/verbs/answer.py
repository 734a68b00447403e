"""Answers to steps that wait for approval, and their refusals."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import Action
from jobflow.client.conditions import condition_of
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import find_item, state_of
from jobflow.client.manifests.flag_values import parse_params
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.client.verbs.command import Verb, create_command
from jobflow.core.pods.outputs import OutputsTooLarge, UnstorableJson, read_outputs
from jobflow.core.spec.step_commands import asks
from jobflow.core.text import join_names
from jobflow.core.work import is_asked
from jobflow.kube.client import Client

APPROVE = Verb("approve", "approving", Action.APPROVE_STEP)
REJECT = Verb("reject", "rejecting", Action.REJECT_STEP)


async def create_answer(
    client: Client,
    flow: JobFlow,
    verb: Verb,
    place: str,
    *,
    comment: str,
    annotations: dict[str, str] | None = None,
) -> str:
    """Send the answer to STEP or STEP/INDEX of the flow, with the annotation of its outputs, and
    return the name of the Command. Raises CommandError if the step does not wait for approval."""
    if why := refuse_answer(flow, *find_item(flow, place)):
        raise CommandError(FAILED, f"JobFlow {flow.metadata.name}: {why}")
    # the message of a Command is one line, which begins with the step
    message = " ".join((place, *comment.split()))
    return await create_command(client, flow, verb, message=message, annotations=annotations)


def outputs_annotation(outputs: Sequence[str]) -> dict[str, str] | None:
    """Return the annotations of a Command for NAME=VALUE. Raises CommandError."""
    values = {name: data_of(node) for name, node in parse_params(outputs, "--output").items()}
    try:
        return annotation_of(values)
    except ValueError as error:
        raise CommandError(UNUSABLE, f"--output: {error}") from None


def annotation_of(outputs: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the annotations of a Command for outputs. Raises ValueError."""
    if not outputs:
        return None
    try:
        text = json.dumps(outputs, ensure_ascii=False, separators=(",", ":"))
        # the controller would refuse what this refuses
        read_outputs(text)
    except OutputsTooLarge as excess:
        raise ValueError(f"the outputs {excess}") from None
    except (UnstorableJson, TypeError, ValueError):
        raise ValueError("a value cannot be stored as JSON") from None
    return {labels.OUTPUTS: text}


def refuse_answer(flow: JobFlow, step: Step, index: int | None) -> str:
    """Return why an answer makes no sense now, or ""."""
    if not is_asked(step):
        return f"step {step.name} has no approval"
    if flow.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if flow.final:
        return f"it has already finished: {state_of(flow)}"
    condition = condition_of(flow, step.name)
    if step.fan_out is None:
        return "" if asks(condition) else f"step {step.name} {_state(condition)}"
    if index is None:
        open_items = [f"{step.name}/{run.index}" for run in condition.runs or () if asks(run)]
        if not open_items:
            return f"step {step.name} has items, and none of them waits for approval"
        listed = join_names(open_items, shown=10)
        return f"step {step.name} has items; name one that waits for approval: {listed}"
    item = condition.run_at(index) or RunCondition()
    return "" if asks(item) else f"item {step.name}/{index} {_state(item)}"


def _state(condition: RunCondition) -> str:
    if condition.phase not in ENDED_STEP_PHASES:
        why = f": it {condition.message}" if condition.message.startswith("waits ") else ""
        return f"does not wait for approval yet{why}"
    message = f": {condition.message}" if condition.message else ""
    return f"is {condition.phase}{message}"
