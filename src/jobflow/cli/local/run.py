"""`jobflow run`: admits flows and carries them through in a sandbox, then says how each ended."""

from __future__ import annotations

import json
import logging
import sys
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
from jobflow.app.serve import START_ERRORS, PartDied, SandboxOptions, SandboxWorld, sandbox_world
from jobflow.app.serve import run as run_loop
from jobflow.cli.display.failed_logs import failures
from jobflow.cli.display.live import ChangeLog, Display, LiveTrees, Nothing
from jobflow.cli.display.report import print_fault, print_warnings, show
from jobflow.cli.display.tree import Tree, table
from jobflow.cli.exit_codes import FAULTY, FINE, INTERRUPTED, UNUSABLE, complain
from jobflow.cli.flags import Nodes
from jobflow.cli.local.apply_and_follow import Follower, apply, following
from jobflow.cli.local.lint import examine
from jobflow.cli.local.node_runner import NoFolder, assumptions, runner
from jobflow.cli.manifests.check import Report
from jobflow.cli.manifests.faults import Fault
from jobflow.cli.manifests.params import NotParamsError
from jobflow.cli.signals import interruption, unless
from jobflow.kube.client import ApiError, decoder
from jobflow.runtime import logs
from jobflow.sandbox.nodes.process.runner import FailedRun, ProcessRunner
from jobflow.sandbox.nodes.runner import Runner


@dataclass(slots=True)
class End:
    """How it all ended."""

    flows: list[JobFlow] = field(default_factory=list)
    """As they were last seen, in the order of FILEs."""
    raw: list[dict[str, Any]] = field(default_factory=list)
    """The same as the server has them."""
    faults: Sequence[Fault] = ()
    stuck: Sequence[str] = ()
    """Of each flow that can never move again why that is."""
    interrupted: bool = False
    runs: Sequence[FailedRun] = ()
    """The containers that failed, where they were processes."""
    logs: Path | None = None
    """The folder of their logs."""
    unshown: OSError | None = None
    """Why what happened could not be written to standard output."""

    @property
    def code(self) -> int:
        """The exit code."""
        phases = {flow.status.state.phase for flow in self.flows}
        if self.interrupted:
            return INTERRUPTED
        if self.faults:
            return UNUSABLE
        if FlowPhase.FAILED in phases:
            return FAULTY
        return FINE if phases == {FlowPhase.SUCCEED} else UNUSABLE


def run(
    files: Sequence[str], *, params: Sequence[str], nodes: Nodes, as_json: bool, lenient: bool
) -> int:
    """Carry the flows in FILEs through; returns the exit code (DESIGN §7). `params`: NAME=VALUE;
    `lenient`: as in lint."""
    try:
        report = examine(files, params, lenient=lenient)
    except NotParamsError as error:
        complain("run", *error.sentences)
        return UNUSABLE
    errors = Console(stderr=True, highlight=False)
    if report.faults:
        show(report, errors)
        return UNUSABLE
    if not report.flows:
        complain("run", "there is no JobFlow in the files, so there is nothing to run")
        return UNUSABLE
    print_warnings(report, errors)
    complain("run", *assumptions(report.flows, nodes.runner))
    logs.configure(level=logging.CRITICAL)
    console = Console(highlight=False)
    display: Display = Nothing()
    if not as_json:
        display = LiveTrees(console) if console.is_terminal else ChangeLog(console)
    try:
        with runner(nodes) as node:
            end = run_loop(_carried_through(report, node, display))
            if isinstance(node, ProcessRunner):
                end.runs, end.logs = node.failures, node.folder if node.used else None
    except (PartDied, NoFolder, *START_ERRORS) as error:
        complain("run", str(error))
        return UNUSABLE
    if end.unshown is not None:
        raise end.unshown
    if as_json:
        _print_list(end)
    else:
        _print_end(end, console)
    _print_reasons(end, errors)
    return end.code


async def _carried_through(report: Report, node: Runner, display: Display) -> End:
    with interruption() as stop:
        async with sandbox_world(SandboxOptions(runner=node)) as world:
            applied = await apply(world.client, report)
            if applied.faults:
                return End(faults=applied.faults)
            async with following(world.client, applied, display.show) as follower:
                with display:
                    done = await unless(stop, follower.until_over())
            if follower.unshown is not None:
                return End(unshown=follower.unshown)
            return await _end(world, follower, interrupted=not done)


async def _end(world: SandboxWorld, follower: Follower, *, interrupted: bool) -> End:
    """What the server has now, of flows and of nothing else; of a flow that is gone by its own
    ttlSecondsAfterFinished what was last seen."""
    end = End(stuck=follower.stuck(), interrupted=interrupted)
    for (namespace, name), seen in follower.flows.items():
        try:
            body = await world.client.request("GET", JOBFLOWS.path(namespace, name))
        except ApiError as error:
            if seen is None or not error.not_found:
                raise
            body = msgspec.json.encode(seen)
        end.raw.append(json.loads(body))
        end.flows.append(decoder(JobFlow).decode(body))
    return end


def _print_list(end: End) -> None:
    answer = {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": end.raw,
    }
    json.dump(answer, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _print_end(end: End, console: Console) -> None:
    """The tree as it ended, on a terminal, by what steps failed, and the table."""
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    width = console.width if console.is_terminal else None
    for flow in end.flows:
        lines = list(Tree(flow, ascii_only=ascii_only).lines(now, width or 160))
        for line in (
            *(lines if width else lines[:1]),
            *failures(flow, end.runs, width, ascii_only=ascii_only),
            Text(),
            *table(flow, now, width),
        ):
            console.print(line, soft_wrap=True)
        if flow is not end.flows[-1]:
            console.print()
    if end.logs is not None:
        console.print(Text(f"\nLogs: {end.logs}", style="dim"), soft_wrap=True)


def _print_reasons(end: End, errors: Console) -> None:
    """Why it is 2, where it is."""
    for fault in end.faults:
        print_fault(fault, errors)
    if end.interrupted:
        return
    complain("run", *end.stuck)
