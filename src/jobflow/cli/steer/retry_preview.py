"""Steps that a retry would run again, printed, and the question before long work is repeated."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.flags import ClusterOptions, RetryOptions
from jobflow.client.errors import FAILED, INTERRUPTED, SUCCESS, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.signals import interruption, run_unless
from jobflow.core.text import format_duration
from jobflow.core.timelines.runs_again import (
    RunsAgain,
    describe_own_jobs,
    find_own_jobs,
    list_runs_again,
    sum_lost,
)
from jobflow.display.formats import print_json
from jobflow.kube.client import Client

MOST_UNASKED = timedelta(hours=1)
"""Completed jobs that ran longer together run again only after a question, on a terminal."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The steps of a flow that would run again."""

    flow: JobFlow
    again: Sequence[RunsAgain]

    def lines(self) -> Iterator[str]:
        name = self.flow.metadata.name
        if not self.again:
            # a flow fails without a failed step if an output of it has no value
            yield f"JobFlow {name}: no step runs again, only its outputs are evaluated"
            return
        yield f"JobFlow {name}: these run again"
        yield from lines_of(self.again)
        if lost := sum_lost(self.again):
            yield f"Completed jobs of {name} that run again ran for {format_duration(lost)} in all."
        if own := find_own_jobs(self.flow, self.again):
            yield describe_own_jobs(self.flow, own)

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": self.flow.metadata.namespace,
            "name": self.flow.metadata.name,
            "runsAgain": to_json(self.again),
            "completedSeconds": int(sum_lost(self.again).total_seconds()),
        }


def lines_of(found: Sequence[RunsAgain]) -> Iterator[str]:
    """Yield a line for each step on which a Command acts."""
    width = max(len(each.title) for each in found)
    for each in found:
        ran = f"  its completed jobs ran for {format_duration(each.lost)}" if each.lost else ""
        yield f"  {each.title:<{width}}  {each.phase}{ran}"


def to_json(found: Sequence[RunsAgain]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for each in found:
        steps.append({"step": each.place, "phase": each.phase})
        if each.count:
            steps[-1]["count"] = each.count
        if each.lost is not None:
            steps[-1]["completedSeconds"] = int(each.lost.total_seconds())
    return steps


async def make_previews(
    client: Client, flows: Sequence[JobFlow], how: RetryOptions
) -> list[Preview]:
    children, now = await read_children(client, flows), datetime.now(UTC)
    return [
        Preview(flow, list_runs_again(flow, children, now, tolerated=how.tolerated))
        for flow in flows
    ]


def print_previews(found: Sequence[Preview], options: ClusterOptions, *, single: bool) -> None:
    if not options.as_json:
        for each in found:
            print("\n".join(each.lines()))
    elif found or not single:
        summaries = [each.to_json() for each in found]
        print_json(summaries[0] if single else summaries)


async def ask(found: Sequence[Preview]) -> int:
    """Ask whether long work is to be repeated. Return SUCCESS, or the exit code of the command."""
    lost = sum((sum_lost(each.again) for each in found), timedelta())
    if lost <= MOST_UNASKED:
        return SUCCESS
    for each in found:
        print("\n".join(each.lines()))
    print(f"Run again what took {format_duration(lost)}? [y/N] ", end="", flush=True)
    is_answered, loop = asyncio.Event(), asyncio.get_running_loop()
    # input() would keep Ctrl-C from the signals of the command
    loop.add_reader(sys.stdin, is_answered.set)
    try:
        with interruption() as stop:
            if not await run_unless(stop, is_answered.wait()):
                return INTERRUPTED
    finally:
        loop.remove_reader(sys.stdin)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return SUCCESS
    raise CommandError(FAILED, "nothing was sent: the question was not answered with y")
