"""Flows run in a sandbox of this process until they end."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import (
    CONFIG_MAPS,
    JOBFLOWS,
    JOBTEMPLATES,
    NAMESPACES,
    QUEUES,
    SECRETS,
    Object,
    Resource,
)
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.client import errors
from jobflow.client.errors import CommandError
from jobflow.client.flows import follow
from jobflow.client.flows.children import read_children
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.objects import Manifest, faults_of
from jobflow.client.manifests.sources import ManifestFault
from jobflow.client.options import NodeOptions, RunnerName
from jobflow.client.signals import run_unless
from jobflow.client.stuck import Found, stuck_reason
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError, Client, decoder
from jobflow.runtime.event_loop import each_of
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import FailedRun, Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner

LOGS = Path(".jobflow/logs")
"""Folder of the logs of processes, with a folder for each run."""
_OTHERS = {
    (each.api_version, each.kind): each for each in (NAMESPACES, QUEUES, SECRETS, CONFIG_MAPS)
}
"""Kinds in FILEs that are applied too."""
_CONCURRENCY = 20
_LOOK_SECONDS = 0.5
"""Seconds between two looks for pods that cannot start."""


@contextmanager
def node_runner(nodes: NodeOptions) -> Iterator[Runner]:
    """Make the runner; it stops at the end of the context. Raises CommandError."""
    if nodes.runner is RunnerName.SIMULATE:
        yield SimulateRunner(nodes.speed or 1.0)
        return
    with ExitStack() as stack:
        runner = ProcessRunner(LOGS, max_restarts=nodes.max_restarts)
        try:
            stack.enter_context(runner)
        except OSError as error:
            sentence = f"{error.filename}: {error.strerror}; it has to be a folder for the logs"
            raise CommandError(errors.UNUSABLE, sentence) from error
        yield runner


async def apply(client: Client, report: Report) -> tuple[list[Key], list[Key], list[ManifestFault]]:
    """Create namespaces, queues, Secrets and ConfigMaps, then templates, then flows. A refusal
    stops nothing else. Return the keys of flows and of templates, and the faults."""
    others = [
        (resource, manifest)
        for manifest in report.others
        if (resource := _OTHERS.get((str(manifest.api_version), str(manifest.kind))))
    ]
    namespaced = [manifest for resource, manifest in others if resource.namespaced]
    ours = (*namespaced, *report.templates, *report.flows)
    namespaces = dict.fromkeys(manifest.namespace for manifest in ours)
    # a cluster would refuse objects of a namespace that it does not have
    for name in namespaces:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await _post(client, NAMESPACES, "", body)
    made = [await _create(client, resource, manifest) for resource, manifest in others]
    create_template = partial(_create, client, JOBTEMPLATES)
    templates = await each_of(create_template, report.templates, at_once=_CONCURRENCY)
    # one after another, so that they start in the order of FILEs
    flows = [await _create(client, JOBFLOWS, manifest) for manifest in report.flows]
    faults = [fault for _, faults in (*made, *templates, *flows) for fault in faults]
    return [key for key, _ in flows if key], [key for key, _ in templates if key], faults


async def _post(client: Client, resource: Resource, namespace: str, body: object) -> bytes:
    """Create an object; return b"" if a namespace or queue already exists."""
    try:
        return await client.create(resource, namespace, msgspec.json.encode(body))
    except ApiError as error:
        if error.already_exists and not resource.namespaced:
            return b""
        raise


async def _create(
    client: Client, resource: Resource, manifest: Manifest
) -> tuple[Key | None, Sequence[ManifestFault]]:
    """Return the key of the created object, or the faults of one that was refused."""
    namespace = manifest.namespace if resource.namespaced else ""
    try:
        body = await _post(client, resource, namespace, manifest.data)
    except ApiError as error:
        return None, faults_of(manifest, error.status)
    if not body:
        return None, ()
    meta = decoder(Object).decode(body).metadata
    return (meta.namespace, meta.name), ()


@dataclass(slots=True)
class RunResult:
    """All that `jobflow run` prints at the end."""

    flows: list[JobFlow] = field(default_factory=list)
    """The flows as last seen, in the order of FILEs."""
    raw: list[dict[str, Any]] = field(default_factory=list)
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """Their child flows, by name."""
    faults: Sequence[ManifestFault] = ()
    stuck: list[str] = field(default_factory=list)
    """A sentence for each flow that can never finish."""
    interrupted: bool = False
    failed_runs: Sequence[FailedRun] = ()
    """The failed containers, if they were processes."""
    logs: Path | None = None

    @property
    def code(self) -> int:
        phases = {flow.status.state.phase for flow in self.flows}
        if self.interrupted:
            return errors.INTERRUPTED
        if self.faults:
            return errors.UNUSABLE
        if FlowPhase.FAILED in phases:
            return errors.FAILED
        return errors.SUCCESS if phases == {FlowPhase.SUCCEED} else errors.UNUSABLE


async def run_in_sandbox(
    report: Report, runner: Runner, display: follow.Display, stop: asyncio.Event
) -> RunResult:
    """Run the flows of a report without faults until all have settled, or until `stop` is set."""
    async with sandbox_world(SandboxOptions(runner=runner, gives_up=True)) as world:
        return await run_in(world, report, runner, display, stop)


async def run_in(
    world: SandboxWorld,
    report: Report,
    runner: Runner,
    display: follow.Display,
    stop: asyncio.Event,
    *,
    alone: bool = True,
) -> RunResult:
    """Run the flows until each has finished, or can never finish if nobody else uses the sandbox
    (`alone`), or until `stop`."""
    keys, templates, faults = await apply(world.client, report)
    if faults:
        return RunResult(faults=faults)
    scope = follow.scope_of(keys, lambda flow: key_of(flow) in keys)
    found = Found(templates)

    def all_done(follower: follow.FlowFollower) -> bool:
        flows = [follower.flows.get(key) for key in keys]
        return all(
            flow is not None and (flow.final or (alone and bool(stuck_reason(flow, found))))
            for flow in flows
        )

    async def until_done(follower: follow.FlowFollower) -> None:
        nonlocal found
        if not alone or not isinstance(runner, ProcessRunner):
            await follower.until(all_done)
            return
        waiting = asyncio.ensure_future(follower.until(all_done))
        try:
            # a flow does not change when its pods cannot start
            while not (await asyncio.wait([waiting], timeout=_LOOK_SECONDS))[0]:
                if (blocked := runner.blocked) or found.blocked:
                    children = await read_children(world.client, follower.flows.values())
                    found = replace(found, blocked=blocked, children=children)
                    follower.changed.notify()
            waiting.result()
        finally:
            waiting.cancel()

    async with follow.follow_scope(world.client, scope, display.show) as follower:
        # child flows need a watch of their own
        shown = [*follower.flows.values()] if display.shows_children else []
        async with follow.following_children(world.client, shown, display.show_child):
            with display:
                finished = await run_unless(stop, until_done(follower))
    result = RunResult(interrupted=not finished)
    for flow in follower.flows.values():
        if not flow.final and (reason := stuck_reason(flow, found)):
            result.stuck.append(f"JobFlow {flow.metadata.name} {reason}")
    for namespace, name in keys:
        try:
            body = await world.client.request("GET", JOBFLOWS.path(namespace, name))
        except ApiError as error:
            # one that its ttlSecondsAfterFinished deleted is as last seen
            seen = follower.flows.get((namespace, name))
            if seen is None or not error.not_found:
                raise
            body = msgspec.json.encode(seen)
        result.raw.append(json.loads(body))
        result.flows.append(decoder(JobFlow).decode(body))
    result.children = await read_children(world.client, result.flows)
    if isinstance(runner, ProcessRunner):
        result.failed_runs = runner.failures
        result.logs = runner.folder if runner.used else None
    return result
