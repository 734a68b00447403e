"""`jobflow why`: explains why a flow or a step waits, runs or failed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.console import columns_of, make_console, print_lines
from jobflow.cli.display.report import printable
from jobflow.cli.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.cli.flags import ClusterOptions, Selection
from jobflow.cli.flows.find_flow import (
    NO_SELECTION,
    check_exclusive,
    check_namespace,
    connect,
    describe_place,
    find_flow,
    find_flows,
    find_step,
    to_flow,
)
from jobflow.cli.show.scheduling import read_scheduling
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
from jobflow.runtime.task_group import all_of
from jobflow.store.groups import Groups

_CONCURRENCY = 10
"""Flows whose scheduling is read at once."""
MAX_WIDTH = 100
"""Columns of a line on a wider terminal, because longer lines are hard to read."""
_COMMAND = re.compile("`[^`]+`")
_CHILDREN = 2
"""Child flows of a flow that are explained too."""
_INDENT = "  "
"""Before the further lines of a sentence."""
_SPACE = "\ue000"
"""Stands for a space at which a line is not broken; of private use, so no text has it."""


async def print_explanations(
    name: str | None, step: str | None, selection: Selection, options: ClusterOptions
) -> int:
    """Print why a flow, a STEP or STEP/INDEX of it, or each selected flow is in its phase. Raises
    CommandError."""
    if name is None and selection == NO_SELECTION:
        raise CommandError(UNUSABLE, "no flow is named: give a FLOW, or select flows with -l or -A")
    check_exclusive([name] if name else [], selection)
    async with await connect(options) as client:
        if name is not None:
            answers = [await _explain(client, await find_flow(client, name), step)]
        else:
            answers = await _explain_each(client, selection)
            if not answers:
                await check_namespace(client, selection)
        place = describe_place(client, selection)
    if options.as_json:
        print(json.dumps(answers[0] if name else answers, indent=2, ensure_ascii=False))
    elif not answers:
        print(f"no JobFlow {place} matches", file=sys.stderr)
    else:
        console = make_console()
        for answer in answers:
            if answer is not answers[0]:
                print()
            print_sentences(answer["sentences"], console)
    return SUCCESS


async def _explain_each(client: Client, selection: Selection) -> list[dict[str, Any]]:
    """Return the answer for each selected flow. Raises CommandError."""
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def answer(flow: JobFlow) -> dict[str, Any]:
        async with slots:
            return await _explain(client, flow, with_namespace=selection.all_namespaces)

    return await all_of(*map(answer, await find_flows(client, (), selection)))


async def _explain(
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
            inner = await _explain(client, child)
        except (ApiError, CommandError):  # it is gone: its parent knows how it ended
            continue
        said |= dict.fromkeys(inner["sentences"])
    return [*said][own:]


async def _read_group(client: Client, flow: JobFlow) -> Group | None:
    """Return the other flows of the concurrency group of a flow that waits for a place; None for
    any other flow, or if they cannot be read."""
    if flow.final or flow.status.state.reason != FlowReason.CONCURRENCY:
        return None
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


def print_sentences(sentences: Sequence[str], console: Console) -> None:
    """Print a line for each sentence. On a terminal it is wrapped, with further lines indented."""
    lines = [*map(printable, sentences)]
    if (width := columns_of(console)) is not None:
        width = min(width, MAX_WIDTH) - len(_INDENT)
        lines = [row for line in lines for row in _wrap(console, line, width)]
    print_lines(console, map(Text, lines))


def _wrap(console: Console, sentence: str, width: int) -> Iterator[str]:
    """Yield the lines of a sentence. A command that fits into a line is not broken, so that it can
    be copied."""

    def join(found: re.Match[str]) -> str:
        command = found.group()
        return command.replace(" ", _SPACE) if cell_len(command) < width else command

    lines = Text(_COMMAND.sub(join, sentence)).wrap(console, width)
    for number, line in enumerate(lines):
        yield (_INDENT if number else "") + line.plain.replace(_SPACE, " ").rstrip()
