"""Flows run on this machine, as `jobflow run` does."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from typing import Any

from jobflow.api.resources import CONFIG_MAPS, JOBFLOWS, SECRETS
from jobflow.app.serve import START_ERRORS
from jobflow.authoring.manifests import ObjectData, check_objects, data_objects, show_warnings
from jobflow.authoring.objects.faults import FlowWarning, InvalidFlow, RunError, from_manifest
from jobflow.authoring.objects.flows import FlowBody, NamedCron
from jobflow.authoring.objects.steps import Manifest, Step
from jobflow.authoring.results import Result
from jobflow.client.errors import CommandError
from jobflow.client.flows.follow import Display
from jobflow.client.manifests.check import add_flows_of_crons
from jobflow.client.options import NodeOptions, RunnerName
from jobflow.client.sandbox import node_runner, run_in_sandbox
from jobflow.core.text import join_names
from jobflow.display.console import make_console
from jobflow.display.live import tree_display
from jobflow.display.notebook import WIDTH, NotebookTrees, notebook_display
from jobflow.display.results import failed_logs, print_tables
from jobflow.runtime import logs
from jobflow.runtime.event_loop import PartDied, run_beside


def run(
    flow: Manifest,
    *,
    runner: str | None,
    speed: float | None,
    max_restarts: int | None,
    params: Mapping[str, Any],
    secrets: ObjectData,
    config_maps: ObjectData,
    lenient: bool,
    show: bool,
) -> Result:
    """Run a flow, or one of a schedule. Raises ValueError, InvalidFlow, and RunError."""
    body = flow.flow if isinstance(flow, NamedCron) else flow
    functions: list[Step] = []
    pending: list[FlowBody] = [body] if isinstance(body, FlowBody) else []
    while pending:
        found = pending.pop()
        for step in (*found._steps, *found._finally):
            functions += [step] if step._function is not None else []
            child, _ = step._values.get("flow", (None, step._place))
            pending += [child] if isinstance(child, FlowBody) else []
    nodes = _nodes(runner, speed, max_restarts, has_functions=bool(functions))
    try:
        report = check_objects([flow], params=params, lenient=lenient)
        add_flows_of_crons(report)
        namespace = report.flows[0].namespace
        report.others += data_objects(SECRETS, secrets, namespace)
        report.others += data_objects(CONFIG_MAPS, config_maps, namespace)
        show_warnings(report, [flow])
        if nodes.runner is RunnerName.SIMULATE and functions:
            names = join_names([step.name for step in functions])
            have = "has" if len(functions) == 1 else "have"
            message = f'no function runs, so {names} {have} no outputs: write run(runner="process")'
            place = functions[0]._place
            warnings.warn_explicit(FlowWarning(message), None, place.file, place.line)
        display = Display()
        if show:
            display = notebook_display() or tree_display(make_console())
        with logs.silenced(), node_runner(nodes) as pods:
            result = run_beside(lambda: run_in_sandbox(report, pods, display, asyncio.Event()))
    except (CommandError, PartDied, *START_ERRORS) as error:
        raise RunError(str(error)) from None
    if result.faults:
        raise InvalidFlow([from_manifest(each, report) for each in result.faults])
    if isinstance(display, NotebookTrees):
        for each in result.flows:
            display.add(failed_logs(each, result.failed_runs, WIDTH, children=result.children))
    elif show:
        print_tables(result, make_console())
    if result.stuck:
        advice = "; give it to run(), as secrets={...} or config_maps={...}"
        raise RunError("\n".join(result.stuck).replace("; add it to the FILEs", advice))
    if not result.flows:
        raise RunError(f"no {JOBFLOWS.kind} was created")
    return Result(result.flows[0], result.logs)


def _nodes(
    runner: str | None, speed: float | None, max_restarts: int | None, *, has_functions: bool
) -> NodeOptions:
    if not runner:
        # Later steps need what functions return, unless `speed` asks for a simulation.
        is_process = has_functions and speed is None
        runner = RunnerName.PROCESS if is_process else RunnerName.SIMULATE
    if runner not in list(RunnerName):
        raise ValueError(f'runner "{runner}" is not one of {", ".join(RunnerName)}')
    try:
        return NodeOptions(RunnerName(runner), speed, max_restarts)
    except ValueError as error:
        # The message names flags of the command line.
        raise ValueError(str(error).replace("--", "").replace("-", "_")) from None
