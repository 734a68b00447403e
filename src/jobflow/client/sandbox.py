"""Flows run in a sandbox of this process until they end."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, FlowPhase, StepPhase
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, NAMESPACES, QUEUES, Object, Resource
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
from jobflow.core.names import stored_condition
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_command, join_names
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError, Client, decoder
from jobflow.runtime.event_loop import each_of
from jobflow.sandbox.nodes.pod import FailedRun
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner

LOGS = Path(".jobflow/logs")
"""Folder of the logs of processes, with a folder for each run."""
_OTHERS = {(each.api_version, each.kind): each for each in (NAMESPACES, QUEUES)}
"""Kinds in FILEs that are applied too, if they do not exist yet."""
_CONCURRENCY = 20
_BLOCKED = frozenset(
    {"", StepReason.STOPPED, StepReason.WAITING_FOR_TEMPLATE, StepReason.WAITING_FOR_APPROVAL}
)
"""Reasons of a Waiting step that do not go away by themselves."""


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


@dataclass(frozen=True, slots=True)
class AppliedObjects:
    """Keys of the created flows and templates, and the faults of those that were refused."""

    flows: Sequence[Key]
    templates: Sequence[Key]
    faults: Sequence[ManifestFault]


async def apply(client: Client, report: Report) -> AppliedObjects:
    """Create namespaces and queues, then templates, then flows. A refusal stops nothing else."""
    ours = (*report.templates, *report.flows)
    namespaces = dict.fromkeys(manifest.namespace for manifest in ours)
    # a cluster would refuse objects of a namespace that it does not have
    for name in namespaces:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await _post(client, NAMESPACES, "", body)
    others = [
        await _create(client, resource, manifest)
        for manifest in report.others
        if (resource := _OTHERS.get((str(manifest.api_version), str(manifest.kind))))
    ]
    create_template = partial(_create, client, JOBTEMPLATES)
    templates = await each_of(create_template, report.templates, at_once=_CONCURRENCY)
    # one after another, so that they start in the order of FILEs
    flows = [await _create(client, JOBFLOWS, manifest) for manifest in report.flows]
    return AppliedObjects(
        flows=[key for key, _ in flows if key],
        templates=[key for key, _ in templates if key],
        faults=[fault for _, faults in (*others, *templates, *flows) for fault in faults],
    )


async def _post(client: Client, resource: Resource, namespace: str, body: object) -> bytes:
    """Create an object; return b"" if a namespace or queue already exists."""
    try:
        return await client.create(resource, namespace, msgspec.json.encode(body))
    except ApiError as error:
        if error.already_exists and resource in _OTHERS.values():
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


def is_settled(flow: JobFlow | None, applied: AppliedObjects) -> bool:
    """Return whether a flow has finished, or can never finish. None: it was not seen yet."""
    return flow is not None and (flow.final or bool(stuck_reason(flow, applied.templates)))


def stuck_reason(flow: JobFlow, templates: Collection[Key]) -> str:
    """Return why an unfinished flow can never finish here, because nothing else will be applied,
    or "". `templates` are the applied ones."""
    if flow.status.suspended_at is not None:
        # jobs that still run end first, and are shown
        idle_phases = (*ENDED_STEP_PHASES, StepPhase.WAITING)
        conditions = (flow.status.conditions or {}).values()
        if any(condition.phase not in idle_phases for condition in conditions):
            return ""
        resume = format_command("jobflow resume", flow.metadata)
        way_out = f"remove suspend to run it here, or resume it on a cluster with {resume}"
        return f"is suspended (spec.suspend): {way_out}"
    # all unfinished steps wait for one of these, or the flow can go on
    missing: dict[str, None] = {}
    approvals: list[str] = []
    for step in flow.all_steps:
        condition = stored_condition(flow, step.name)
        if condition is None:
            return ""
        if condition.phase in ENDED_STEP_PHASES:
            continue
        # it runs, or waits for what comes by itself
        if condition.phase != StepPhase.WAITING or condition.reason not in _BLOCKED:
            return ""
        if step.approval is not None and condition.reason:
            if step.approval.timeout is not None:
                return ""
            approvals.append(step.name)
        elif condition.reason == StepReason.WAITING_FOR_TEMPLATE:
            template = step.template_for(step.case_of(condition.decisions))
            if template is None or (flow.metadata.namespace, template) in templates:
                return ""
            missing[template] = None
    if missing:
        plural, pronoun = ("s", "them") if len(missing) > 1 else ("", "it")
        return f"waits for the JobTemplate{plural} {', '.join(missing)}: add {pronoun} to the FILEs"
    if approvals:
        return (
            f"waits for the approval of {join_names(approvals)}, which nobody can give "
            "here: set approval.timeout and approval.default, or run it on a cluster or in "
            "`jobflow sandbox`"
        )
    return ""


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
    async with sandbox_world(SandboxOptions(runner=runner)) as world:
        return await run_in(world, report, runner, display, stop, is_settled)


async def run_in(
    world: SandboxWorld,
    report: Report,
    runner: Runner,
    display: follow.Display,
    stop: asyncio.Event,
    is_done: Callable[[JobFlow | None, AppliedObjects], bool],
) -> RunResult:
    """Run the flows until each `is_done`, or until `stop`."""
    applied = await apply(world.client, report)
    if applied.faults:
        return RunResult(faults=applied.faults)
    scope = follow.scope_of(applied.flows, lambda flow: key_of(flow) in applied.flows)

    def all_done(follower: follow.FlowFollower) -> bool:
        return all(is_done(follower.flows.get(key), applied) for key in applied.flows)

    async with follow.follow_scope(world.client, scope, display.show) as follower:
        # child flows need a watch of their own
        shown = [*follower.flows.values()] if display.shows_children else []
        async with follow.following_children(world.client, shown, display.show_child):
            with display:
                finished = await run_unless(stop, follower.until(all_done))
    result = RunResult(interrupted=not finished)
    for flow in follower.flows.values():
        if not flow.final and (reason := stuck_reason(flow, applied.templates)):
            result.stuck.append(f"JobFlow {flow.metadata.name} {reason}")
    for namespace, name in applied.flows:
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
