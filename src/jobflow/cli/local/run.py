"""`jobflow run`: checks flows, runs them in a sandbox and prints how each finished."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from jobflow.api.flow_status import FlowPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.app.serve import START_ERRORS, SandboxOptions, SandboxWorld, sandbox_world
from jobflow.cli.display.failed_logs import failed_logs
from jobflow.cli.display.live import ChangeLog, Display, LiveTrees
from jobflow.cli.display.report import print_fault, print_report, print_warnings
from jobflow.cli.display.tree import Tree, table
from jobflow.cli.errors import (
    FAILED,
    INTERRUPTED,
    SUCCESS,
    UNUSABLE,
    CommandError,
    exit_on,
    print_error,
)
from jobflow.cli.flags import FileOptions, NodeOptions
from jobflow.cli.local.apply_and_follow import FlowsFollower, apply, follow
from jobflow.cli.local.lint import check_files
from jobflow.cli.local.sandbox import assumptions, node_runner
from jobflow.cli.manifests.check import Report
from jobflow.cli.manifests.faults import ManifestFault
from jobflow.cli.signals import interruption, run_unless
from jobflow.kube.client import ApiError, decoder
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run
from jobflow.runtime.task_group import PartDied
from jobflow.sandbox.nodes.process.runner import FailedRun, ProcessRunner
from jobflow.sandbox.nodes.runner import Runner


@dataclass(slots=True)
class RunResult:
    """All that `jobflow run` prints at the end."""

    flows: list[JobFlow] = field(default_factory=list)
    """The flows as last seen, in the order of FILEs."""
    raw: list[dict[str, Any]] = field(default_factory=list)
    """The flows as JSON of the server."""
    faults: Sequence[ManifestFault] = ()
    stuck: Sequence[str] = ()
    """A sentence for each flow that can never finish."""
    interrupted: bool = False
    failed_runs: Sequence[FailedRun] = ()
    """The failed containers, if they were processes."""
    logs: Path | None = None

    @property
    def code(self) -> int:
        """The exit code."""
        phases = {flow.status.state.phase for flow in self.flows}
        if self.interrupted:
            return INTERRUPTED
        if self.faults:
            return UNUSABLE
        if FlowPhase.FAILED in phases:
            return FAILED
        return SUCCESS if phases == {FlowPhase.SUCCEED} else UNUSABLE


def run_flows(files: FileOptions, nodes: NodeOptions, *, as_json: bool) -> int:
    """Run the flows in FILEs and return the exit code."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    errors = Console(stderr=True, highlight=False)
    if report.faults:
        print_report(report, errors)
        return UNUSABLE
    if not report.flows:
        print_error("the files contain no JobFlow: add one that uses these JobTemplates")
        return UNUSABLE
    print_warnings(report, errors)
    print_error(*assumptions(report.flows, nodes.runner), severity="warning")
    logs.configure(level=logging.CRITICAL)
    console = Console(highlight=False)
    display = Display()
    if not as_json:
        display = LiveTrees(console) if console.is_terminal else ChangeLog(console)
    with exit_on(UNUSABLE, PartDied, CommandError, *START_ERRORS), node_runner(nodes) as runner:
        result = run(_run_in_sandbox(report, runner, display))
        if isinstance(runner, ProcessRunner):
            result.failed_runs = runner.failures
            result.logs = runner.folder if runner.used else None
    if as_json:
        _print_list(result)
    else:
        _print_tables(result, console)
    for fault in result.faults:
        print_fault(fault, errors)
    if not result.interrupted:
        print_error(*result.stuck)
    return result.code


async def _run_in_sandbox(report: Report, runner: Runner, display: Display) -> RunResult:
    with interruption() as stop:
        async with sandbox_world(SandboxOptions(runner=runner)) as world:
            applied = await apply(world.client, report)
            if applied.faults:
                return RunResult(faults=applied.faults)
            async with follow(world.client, applied, display.show) as follower:
                with display:
                    finished = await run_unless(stop, follower.until_finished())
            if follower.show_error is None:
                return await _result(world, follower, interrupted=not finished)
    raise follower.show_error


async def _result(world: SandboxWorld, follower: FlowsFollower, *, interrupted: bool) -> RunResult:
    """Read the flows once more; one that its ttlSecondsAfterFinished deleted is as last seen."""
    result = RunResult(stuck=follower.stuck(), interrupted=interrupted)
    for (namespace, name), seen in follower.flows.items():
        try:
            body = await world.client.request("GET", JOBFLOWS.path(namespace, name))
        except ApiError as error:
            if seen is None or not error.not_found:
                raise
            body = msgspec.json.encode(seen)
        result.raw.append(json.loads(body))
        result.flows.append(decoder(JobFlow).decode(body))
    return result


def _print_list(result: RunResult) -> None:
    metadata = {"resourceVersion": ""}
    listed = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": result.raw}
    print(json.dumps(listed, indent=2, ensure_ascii=False))


def _print_tables(result: RunResult, console: Console) -> None:
    """Print for each flow the tree (its first line if this is no terminal), failed logs, table."""
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    width = console.width if console.is_terminal else None
    for flow in result.flows:
        tree = list(Tree(flow, ascii_only=ascii_only).lines(now, width or 160))
        for line in (
            *(tree if width else tree[:1]),
            *failed_logs(flow, result.failed_runs, width, ascii_only=ascii_only),
            Text(),
            *table(flow, now, width),
        ):
            console.print(line, soft_wrap=True)
        if flow is not result.flows[-1]:
            console.print()
    if result.logs is not None:
        console.print(Text(f"\nLogs: {result.logs}", style="dim"), soft_wrap=True)
