"""Flows run in a sandbox until they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import JOBFLOWS
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.client.errors import (
    FAILED,
    INTERRUPTED,
    SUCCESS,
    UNUSABLE,
)
from jobflow.client.flows.children import read_children
from jobflow.client.flows.follow import FlowFollower, follow_scope, scope_of
from jobflow.client.flows.follow_children import following_children
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.faults import ManifestFault
from jobflow.client.sandbox.apply import AppliedObjects, apply, describe_stuck, is_settled
from jobflow.client.sandbox.display import Display
from jobflow.client.signals import run_unless
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError, decoder
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


async def run_in_sandbox(
    report: Report, runner: Runner, display: Display, stop: asyncio.Event
) -> RunResult:
    """Run the flows of a report without faults until all have settled, or until `stop` is set."""
    async with sandbox_world(SandboxOptions(runner=runner)) as world:
        return await run_in(world, report, runner, display, stop, is_settled)


async def run_in(
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
