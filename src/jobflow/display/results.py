"""Flows that are run on this machine: how they are shown while they run and at the end."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.client.logs.stream import without_escapes
from jobflow.client.sandbox import RunResult
from jobflow.client.step_rows import step_rows
from jobflow.core.text import printable
from jobflow.core.timelines.spans import runs_of
from jobflow.display.console import columns_of, print_lines
from jobflow.display.tree import NO_CHILDREN, Tree, table
from jobflow.sandbox.nodes.logs import tail
from jobflow.sandbox.nodes.pod import START_ERROR
from jobflow.sandbox.nodes.runner import FailedRun

MAX_LINES = 20
MAX_STEPS = 5
_MAX_CHARACTERS = 2000
"""Longest line if there is no terminal."""


def print_tables(result: RunResult, console: Console) -> None:
    """Print for each flow the tree, failed logs and the table."""
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    width = columns_of(console)
    for flow in result.flows:
        tree = Tree(flow, result.children, ascii_only=ascii_only)
        lines = (
            # without a terminal, lines of changes have told the steps
            *(tree.lines(now, width) if width else tree.header(now)),
            *failed_logs(
                flow, result.failed_runs, width, children=result.children, ascii_only=ascii_only
            ),
            Text(),
            *table(flow, now, width),
        )
        print_lines(console, lines)
        if flow is not result.flows[-1]:
            console.print()
    if result.logs is not None:
        console.print(Text(f"\nLogs: {result.logs}", style="dim"), soft_wrap=True)


def failed_logs(
    flow: JobFlow,
    runs: Sequence[FailedRun],
    width: int | None,
    *,
    children: Mapping[str, JobFlow] = NO_CHILDREN,
    ascii_only: bool = False,
) -> Iterator[Text]:
    """Yield for each failed step, also of child flows, its container, the exit code and the last
    lines of the log, cut to `width`, that of the terminal."""
    found = list(_failed_steps(flow, runs, children))
    columns = _MAX_CHARACTERS if width is None else max(width - 4, 1)
    for step, run in found[:MAX_STEPS]:
        yield Text()
        head = Text.assemble((step, "bold red"), f": pod {run.pod} ({run.container}), ")
        if run.reason == START_ERROR:
            yield head.append(f"not started: {printable(run.message)}")
            continue
        lines, count = tail(run.log, MAX_LINES)
        head.append(f"exit code {run.exit_code}, ")
        if not lines:
            yield head.append("empty log")
            continue
        yield head.append(f"last {len(lines)} of {count} lines:" if count > len(lines) else "log:")
        for line in lines:
            # cut first, because a line of a log has no bound
            text = Text(without_escapes(line)[: 2 * columns])
            text.truncate(columns, overflow="ellipsis")
            yield Text.assemble((f"  {'|' if ascii_only else '│'} ", "dim"), text)
        yield Text(f"  file: {run.log}", style="dim")
    if len(found) > MAX_STEPS:
        yield Text(f"\nand {len(found) - MAX_STEPS} more failed steps", style="dim")


def _failed_steps(
    flow: JobFlow, runs: Sequence[FailedRun], children: Mapping[str, JobFlow], place: str = ""
) -> Iterator[tuple[str, FailedRun]]:
    """Yield `train/0/fit` and the run that failed it, of each failed step that ran a process."""
    for row in step_rows(flow):
        if row.phase != StepPhase.FAILED:
            continue
        job = (flow.metadata.namespace, row.condition.job)
        if job_runs := [run for run in runs if (run.namespace, run.job) == job]:
            containers = [(run.pod, run.container) for run in job_runs]
            failure = row.condition.failure
            named = (failure.pod, failure.container) if failure is not None else None
            # or else the first that failed: the others may have failed because of it
            culprit = named if named in containers else containers[0]
            runs_of_culprit = [run for run in job_runs if (run.pod, run.container) == culprit]
            yield place + row.step, runs_of_culprit[-1]
        for run in runs_of(row.condition):
            if run.phase == StepPhase.FAILED and (child := children.get(run.flow)) is not None:
                item = "" if run.index is None else f"/{run.index}"
                yield from _failed_steps(child, runs, children, f"{place}{row.step}{item}/")
