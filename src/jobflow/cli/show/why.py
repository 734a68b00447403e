"""`jobflow why`: explains why a flow or a step waits, runs or failed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.flags import ClusterOptions
from jobflow.client.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import (
    NO_SELECTION,
    check_exclusive,
    check_namespace,
    connect,
    describe_place,
    find_flow,
    find_flows,
)
from jobflow.client.flows.why import explain_flow
from jobflow.client.options import Selection
from jobflow.core.text import printable
from jobflow.display.console import columns_of, make_console, print_lines
from jobflow.kube.client import Client
from jobflow.runtime.task_group import all_of

_CONCURRENCY = 10
"""Flows whose scheduling is read at once."""
MAX_WIDTH = 100
"""Columns of a line on a wider terminal, because longer lines are hard to read."""
_COMMAND = re.compile("`[^`]+`")
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
            answers = [await explain_flow(client, await find_flow(client, name), step)]
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
            return await explain_flow(client, flow, with_namespace=selection.all_namespaces)

    return await all_of(*map(answer, await find_flows(client, (), selection)))


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
