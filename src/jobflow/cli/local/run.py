"""`jobflow run`: checks flows, runs them in a sandbox and prints how each finished."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable

from jobflow.api.flow.jobflow import JobFlow
from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.app.serve import START_ERRORS
from jobflow.cli.local.sandbox import ShowPage, assumptions
from jobflow.client.errors import (
    UNUSABLE,
    CommandError,
    exit_on,
    print_error,
)
from jobflow.client.flows.follow import Display
from jobflow.client.manifests.check import Report, add_flows_of_crons, check_files
from jobflow.client.options import FileOptions, NodeOptions
from jobflow.client.sandbox import AppliedObjects, RunResult, node_runner, run_in, run_in_sandbox
from jobflow.client.signals import interruption
from jobflow.display.console import make_console
from jobflow.display.report import print_fault, print_report, print_warnings
from jobflow.display.results import display_on, print_tables
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run
from jobflow.runtime.task_group import PartDied
from jobflow.sandbox.nodes.runner import Runner


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


def _one_flow_of(cron: str) -> str:
    return f"CronJobFlow {cron}: one flow of it runs now; `jobflow sandbox` runs schedules"


async def _run_without_page(report: Report, runner: Runner, display: Display) -> RunResult:
    with interruption() as stop:
        return await run_in_sandbox(report, runner, display, stop)


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
            result = await run_in(world, report, runner, display, stop, is_final)
            show(result)
            sys.stdout.flush()
            if not result.faults:
                await stop.wait()
            return result


def _print_list(result: RunResult) -> None:
    metadata = {"resourceVersion": ""}
    listed = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": result.raw}
    print(json.dumps(listed, indent=2, ensure_ascii=False))
