"""Explanations of flows, from all that a cluster knows about them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.flows.find_flow import (
    find_step,
    to_flow,
)
from jobflow.client.flows.scheduling import read_scheduling
from jobflow.core.explain.explain import (
    Explanation,
    explain,
    explain_step,
    list_queued_jobs,
)
from jobflow.core.explain.item import describe_unknown_item
from jobflow.core.explain.scheduling import SchedulingFacts
from jobflow.core.names import format_job_name
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.concurrency import Group
from jobflow.kube.client import ApiError, Client
from jobflow.kube.reading import RawList

_CHILDREN = 2
"""Child flows of a flow that are explained too."""


async def explain_flow(
    client: Client, flow: JobFlow, text: str | None = None, *, with_namespace: bool = False
) -> dict[str, Any]:
    """Return the answer as JSON, with what Volcano says about jobs that wait. Raises CommandError
    if the flow has no such step or item."""
    step, index = _choose_step(flow, text) if text is not None else (None, None)
    facts = await read_facts(client, flow, step, index)
    now = datetime.now(UTC)
    if step is None:
        group = await _read_group(client, flow)
        explanation = explain(
            flow, now=now, facts=facts, group=group, with_namespace=with_namespace
        )
    else:
        explanation = explain_step(flow, step, index=index, now=now, facts=facts)
    answer = _to_json(flow, step, index, explanation)
    answer["sentences"] += await explain_children(client, flow, explanation, step, index)
    jobs = list_queued_jobs(flow, step, index=index, now=now)
    return answer | ({"scheduling": facts.by_step} if jobs else {})


async def read_facts(
    client: Client, flow: JobFlow, step: str | None, index: int | None
) -> SchedulingFacts:
    """Return what Volcano says about the jobs that wait of a flow, of a step or of an item."""
    jobs = list_queued_jobs(flow, step, index=index, now=datetime.now(UTC))
    return await read_scheduling(client, flow, jobs, step=step)


async def explain_children(
    client: Client,
    flow: JobFlow,
    explanation: Explanation,
    step: str | None,
    index: int | None,
) -> list[str]:
    """Return the sentences about the child flows that explain the flow, the step or the item, but
    for those that its explanation has too."""
    said = dict.fromkeys(explanation.sentences)
    own = len(said)
    for name in _find_causes(flow, explanation, step, index)[:_CHILDREN]:
        try:
            child = await client.get(JOBFLOWS, flow.metadata.namespace, name, JobFlow)
            inner = await explain_flow(client, child)
        except (ApiError, CommandError):  # it is gone: its parent knows how it ended
            continue
        said |= dict.fromkeys(inner["sentences"])
    return [*said][own:]


async def _read_group(client: Client, flow: JobFlow) -> Group | None:
    """Return the other flows of the concurrency group of a flow that waits for a place; None for
    any other flow, or if they cannot be read."""
    if flow.final or flow.status.state.reason != FlowReason.CONCURRENCY:
        return None
    from jobflow.store.groups import Groups

    groups = Groups()
    try:
        async for page in client.list(JOBFLOWS, RawList, namespace=flow.metadata.namespace):
            for raw in page.items or ():
                groups.update(None, to_flow(raw))
    except ApiError:
        return None
    return groups.of(flow)


def _find_causes(
    flow: JobFlow, explanation: Explanation, step: str | None, index: int | None
) -> list[str]:
    """Return the child flows that explain the flow or the step: those of its causes that have
    failed, else those that have not ended."""
    names = dict.fromkeys((*((step,) if step is not None else ()), *explanation.causes))
    conditions = flow.status.conditions or {}
    runs = [
        run
        for name in names
        if (each := conditions.get(format_job_name(flow.metadata.name, name))) is not None
        for run in each.runs or (each,)
        if run.flow and (index is None or name != step or run.index == index)
    ]
    failed = [run.flow for run in runs if run.phase == StepPhase.FAILED]
    return failed or [run.flow for run in runs if run.phase not in ENDED_STEP_PHASES]


def _choose_step(flow: JobFlow, text: str) -> tuple[str, int | None]:
    """Return the step and the index of `STEP` or `STEP/INDEX`. Raises CommandError."""
    step, number = find_step(flow, text)
    if number is None:
        return step.name, None
    if unknown := describe_unknown_item(flow, step, number):
        raise CommandError(UNUSABLE, unknown)
    return step.name, int(number)


def _to_json(
    flow: JobFlow, step: str | None, index: int | None, explanation: Explanation
) -> dict[str, Any]:
    since = explanation.since
    return {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "step": step,
        **({} if index is None else {"index": index}),
        "phase": explanation.phase,
        "reason": explanation.reason,
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else None,
        "causes": list(explanation.causes),
        "sentences": list(explanation.sentences),
    }
