"""`jobflow run`: checks flows, runs them in a sandbox and prints how each finished."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import JOBFLOWS
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.app.serve import START_ERRORS
from jobflow.cli.console import columns_of, make_console, print_lines
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
from jobflow.cli.flows.children import following_children, read_children
from jobflow.cli.flows.follow import FlowFollower, follow_scope, scope_of
from jobflow.cli.local.apply_and_follow import AppliedObjects, apply, describe_stuck, is_settled
from jobflow.cli.local.failed_logs import failed_logs
from jobflow.cli.local.sandbox import ShowPage, assumptions, node_runner
from jobflow.cli.manifests.check import Report, check_files
from jobflow.cli.manifests.faults import ManifestFault
from jobflow.cli.manifests.flows_of_crons import add_flows_of_crons
from jobflow.cli.signals import interruption, run_unless
from jobflow.kube.cache import Key, key_of
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
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """Their child flows, by name."""
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


def run_flows(
    files: FileOptions, nodes: NodeOptions, *, as_json: bool, page: ShowPage | None = None
) -> int:
    """Run the flows in FILEs and return the exit code. With a `page`, the sandbox stays until the
    command is interrupted, so that its user can look, approve and resume."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    errors = make_console(stderr=True)
    if report.faults:
        print_report(report, errors)
        return UNUSABLE
    crons = add_flows_of_crons(report)
    if not report.flows:
        print_error("the files contain no JobFlow: add one that uses these JobTemplates")
        return UNUSABLE
    print_warnings(report, errors)
    print_error(*map(_one_flow_of, crons), severity="info")
    print_error(*assumptions(report.flows, nodes.runner), severity="warning")
    logs.configure(level=logging.CRITICAL)
    console = make_console()
    display = Display() if as_json else display_on(console)

    def show(result: RunResult) -> None:
        if as_json:
            _print_list(result)
        else:
            print_tables(result, console)
        for fault in result.faults:
            print_fault(fault, errors)
        if not result.interrupted:
            print_error(*result.stuck)

    with exit_on(UNUSABLE, PartDied, CommandError, *START_ERRORS), node_runner(nodes) as runner:
        if page is not None:
            return run(_run_with_page(report, runner, display, page, show)).code
        result = run(_run_without_page(report, runner, display))
    show(result)
    return result.code


def display_on(console: Console) -> Display:
    """Return a live tree on a terminal, a line for each change elsewhere."""
    return LiveTrees(console) if console.is_terminal else ChangeLog(console)


def _one_flow_of(cron: str) -> str:
    return f"CronJobFlow {cron}: one flow of it runs now; `jobflow sandbox` runs schedules"


async def _run_without_page(report: Report, runner: Runner, display: Display) -> RunResult:
    with interruption() as stop:
        return await run_in_sandbox(report, runner, display, stop)


async def run_in_sandbox(
    report: Report, runner: Runner, display: Display, stop: asyncio.Event
) -> RunResult:
    """Run the flows of a report without faults until all have settled, or until `stop` is set."""
    async with sandbox_world(SandboxOptions(runner=runner)) as world:
        return await _run_in(world, report, runner, display, stop, is_settled)


async def _run_with_page(
    report: Report,
    runner: Runner,
    display: Display,
    page: ShowPage,
    show: Callable[[RunResult], None],
) -> RunResult:
    def is_final(flow: JobFlow | None, _: AppliedObjects) -> bool:
        return flow is not None and flow.final

    with interruption() as stop:
        async with sandbox_world(SandboxOptions(runner=runner)) as world, page(world.client):
            result = await _run_in(world, report, runner, display, stop, is_final)
            show(result)
            sys.stdout.flush()
            if not result.faults:
                await stop.wait()
            return result


async def _run_in(
    world: SandboxWorld,
    report: Report,
    runner: Runner,
    display: Display,
    stop: asyncio.Event,
    is_done: Callable[[JobFlow | None, AppliedObjects], bool],
) -> RunResult:
    """Run the flows until each `is_done`, or until `stop`."""
    applied = await apply(world.client, report)
    if applied.faults:
        return RunResult(faults=applied.faults)
    scope = scope_of(applied.flows, lambda flow: key_of(flow) in applied.flows)

    def all_done(follower: FlowFollower) -> bool:
        return all(is_done(follower.flows.get(key), applied) for key in applied.flows)

    async with follow_scope(world.client, scope, display.show) as follower:
        shown = [*follower.flows.values()] if display.shows_children else []
        async with following_children(world.client, shown, display.show_child):
            with display:
                finished = await run_unless(stop, follower.until(all_done))
    result = await _result(world, applied, follower.flows, interrupted=not finished)
    if isinstance(runner, ProcessRunner):
        result.failed_runs = runner.failures
        result.logs = runner.folder if runner.used else None
    return result


async def _result(
    world: SandboxWorld,
    applied: AppliedObjects,
    flows: Mapping[Key, JobFlow],
    *,
    interrupted: bool,
) -> RunResult:
    """Read the flows once more; one that its ttlSecondsAfterFinished deleted is as last seen."""
    stuck = describe_stuck(flows.values(), applied)
    result = RunResult(stuck=stuck, interrupted=interrupted)
    for namespace, name in applied.flows:
        try:
            body = await world.client.request("GET", JOBFLOWS.path(namespace, name))
        except ApiError as error:
            seen = flows.get((namespace, name))
            if seen is None or not error.not_found:
                raise
            body = msgspec.json.encode(seen)
        result.raw.append(json.loads(body))
        result.flows.append(decoder(JobFlow).decode(body))
    result.children = await read_children(world.client, result.flows)
    return result


def _print_list(result: RunResult) -> None:
    metadata = {"resourceVersion": ""}
    listed = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": result.raw}
    print(json.dumps(listed, indent=2, ensure_ascii=False))


def print_tables(result: RunResult, console: Console) -> None:
    """Print for each flow the tree (its first line if this is no terminal), failed logs, table."""
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    width = columns_of(console)
    for flow in result.flows:
        tree = Tree(flow, result.children, ascii_only=ascii_only)
        lines = (
            *(tree.lines(now, width) if width else tree.header(now)),
            *failed_logs(
                flow,
                result.failed_runs,
                width,
                children=result.children,
                ascii_only=ascii_only,
            ),
            Text(),
            *table(flow, now, width),
        )
        print_lines(console, lines)
        if flow is not result.flows[-1]:
            console.print()
    if result.logs is not None:
        console.print(Text(f"\nLogs: {result.logs}", style="dim"), soft_wrap=True)
