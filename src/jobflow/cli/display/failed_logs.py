"""Shows by what a step failed whose commands ran on this machine: the end of the log. Decides
nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from rich.text import Text

from jobflow.api.flow_status import StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.report import visible
from jobflow.cli.display.step_rows import rows
from jobflow.core.names import format_job_name
from jobflow.sandbox.nodes.process.logs import tail
from jobflow.sandbox.nodes.process.runner import START_ERROR, FailedRun

LINES = 20
"""How much of a log is shown."""
STEPS = 5
"""Of how many steps of a flow."""
_LONGEST = 2000
"""Characters of a line, where no terminal's width limits it."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def failures(
    flow: JobFlow, runs: Sequence[FailedRun], width: int | None, *, ascii_only: bool = False
) -> Iterator[Text]:
    """For each step that failed by a container: which, how, and the last lines of its log.

    `width`: of the terminal; lines are cut to it. None: it is none.
    """
    found = list(_failed_steps(flow, runs))
    for step, run in found[:STEPS]:
        yield Text()
        yield from _failure(step, run, width, "|" if ascii_only else "│")
    if len(found) > STEPS:
        yield Text(f"\nand {len(found) - STEPS} more failed steps", style="dim")


def _failed_steps(flow: JobFlow, runs: Sequence[FailedRun]) -> Iterator[tuple[str, FailedRun]]:
    for row in rows(flow):
        job = (flow.metadata.namespace, row.last_job)
        of_job = [run for run in runs if (run.namespace, run.job) == job]
        if row.phase == StepPhase.FAILED and of_job:
            yield row.step, _culprit(flow, row.step, of_job)


def _culprit(flow: JobFlow, step: str, runs: Sequence[FailedRun]) -> FailedRun:
    """The last run of the container that status names, else of the first that failed: others may
    have failed by that."""
    condition = (flow.status.conditions or {}).get(format_job_name(flow.metadata.name, step))
    told = condition.failure if condition is not None else None
    named = [run for run in runs if told and (run.pod, run.container) == (told.pod, told.container)]
    if named:
        return named[-1]
    first = (runs[0].pod, runs[0].container)
    return next(run for run in reversed(runs) if (run.pod, run.container) == first)


def _failure(step: str, run: FailedRun, width: int | None, guide: str) -> Iterator[Text]:
    head = Text.assemble((step, "bold red"), f": pod {run.pod} ({run.container}), ")
    if run.reason == START_ERROR:
        yield head.append(f"not started: {visible(run.message)}")
        return
    lines, count = tail(run.log, LINES)
    head.append(f"exit code {run.exit_code}, ")
    if not lines:
        yield head.append("wrote nothing")
        return
    yield head.append(f"last {len(lines)} of {count} lines:" if count > len(lines) else "it wrote:")
    room = _LONGEST if width is None else max(width - 4, 1)
    for line in lines:
        shown = Text(harmless(line)[: 2 * room])
        shown.truncate(room, overflow="ellipsis")
        yield Text.assemble((f"  {guide} ", "dim"), shown)
    yield Text(f"  log: {run.log}", style="dim")


def harmless(line: str) -> str:
    """A line of a log that can neither move the cursor nor change colours: what a terminal would
    have shown in the end, without its colours."""
    shown = next(islice((part for part in reversed(line.split("\r")) if part), 1), "")
    return visible(_ESCAPES.sub("", shown).expandtabs(8))
