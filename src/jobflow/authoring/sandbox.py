"""Flows run on this machine, as `jobflow run` does."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import typer

from jobflow.api.resources import JOBFLOWS
from jobflow.app.serve import START_ERRORS
from jobflow.authoring.manifests import check_objects, show_warnings
from jobflow.authoring.objects.faults import FlowWarning, InvalidFlow, RunError, from_manifest
from jobflow.authoring.objects.flows import Manifest, NamedCron, NamedFlow
from jobflow.authoring.results import Result
from jobflow.cli.console import make_console
from jobflow.cli.display.live import Display
from jobflow.cli.errors import CommandError
from jobflow.cli.flags import NodeOptions, RunnerName
from jobflow.cli.local.run import RunResult, display_on, print_tables, run_in_sandbox
from jobflow.cli.local.sandbox import node_runner
from jobflow.cli.manifests.flows_of_crons import add_flows_of_crons
from jobflow.core.text import join_names
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run_beside
from jobflow.runtime.task_group import PartDied


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Arguments of `flow.run()`."""

    runner: str = "simulate"
    speed: float | None = None
    max_restarts: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    lenient: bool = False
    show: bool = True

    @property
    def nodes(self) -> NodeOptions:
        """How pods run. Raises ValueError."""
        if self.runner not in list(RunnerName):
            raise ValueError(f'runner "{self.runner}" is not one of {", ".join(RunnerName)}')
        try:
            return NodeOptions(RunnerName(self.runner), self.speed, self.max_restarts)
        except typer.BadParameter as error:
            raise ValueError(error.message.replace("--", "").replace("-", "_")) from None


def run(flow: Manifest, options: RunOptions) -> Result:
    """Run a flow, or one of a schedule, until it ends, and return the result. Raises InvalidFlow,
    and RunError if it cannot end here."""
    nodes = options.nodes
    try:
        report = check_objects([flow], params=options.params, lenient=options.lenient)
        add_flows_of_crons(report)
        show_warnings(report, [flow])
        if nodes.runner is RunnerName.SIMULATE:
            _warn_of_functions(flow)
        console = make_console()
        display = display_on(console) if options.show else Display()
        with logs.silenced(), node_runner(nodes) as runner:
            result = run_beside(lambda: run_in_sandbox(report, runner, display, asyncio.Event()))
    except (CommandError, PartDied, *START_ERRORS) as error:
        raise RunError(str(error)) from None
    if result.faults:
        raise InvalidFlow([*map(from_manifest, result.faults)])
    if options.show:
        print_tables(result, console)
    return _first(result)


def _warn_of_functions(flow: Manifest) -> None:
    """Warn that steps which run functions have no outputs."""
    body = flow.flow if isinstance(flow, NamedCron) else flow
    steps = [*body._steps, *body._finally] if isinstance(body, NamedFlow) else []
    if functions := [step for step in steps if step._function is not None]:
        names = join_names([step.name for step in functions])
        have = "has" if len(functions) == 1 else "have"
        message = f'no function runs, so {names} {have} no outputs: write run(runner="process")'
        place = functions[0]._place
        warnings.warn_explicit(FlowWarning(message), None, place.file, place.line)


def _first(result: RunResult) -> Result:
    if result.stuck:
        raise RunError("\n".join(result.stuck))
    if not result.flows:
        raise RunError(f"no {JOBFLOWS.kind} was created")
    return Result(result.flows[0], result.logs)
