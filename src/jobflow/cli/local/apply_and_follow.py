"""Manifests in the sandbox: how they are applied, and how their flows are watched to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import Object
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, NAMESPACES, QUEUES, Resource
from jobflow.cli.manifests.check import Report
from jobflow.cli.manifests.faults import ManifestFault
from jobflow.cli.manifests.objects import Manifest
from jobflow.core.names import format_job_name
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_command
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError, Client, decoder
from jobflow.kube.reflector import Reflector

Key = tuple[str, str]
"""Namespace and name."""

_OTHERS = {(each.api_version, each.kind): each for each in (NAMESPACES, QUEUES)}
"""Kinds in FILEs that are applied too, if they do not exist yet."""
_CONCURRENCY = 20
_BLOCKED = frozenset({"", StepReason.STOPPED, StepReason.WAITING_FOR_TEMPLATE})
"""Reasons of a Waiting step that do not go away by themselves."""


@dataclass(frozen=True, slots=True)
class AppliedObjects:
    """Keys of the created flows and templates, and the faults of those that were refused."""

    flows: Sequence[Key]
    templates: Sequence[Key]
    faults: Sequence[ManifestFault]


@dataclass(frozen=True, slots=True)
class _Created:
    key: Key | None = None
    faults: Sequence[ManifestFault] = ()


async def apply(client: Client, report: Report) -> AppliedObjects:
    """Create namespaces and queues, then templates, then flows. A refusal stops nothing else."""
    ours = (*report.templates, *report.flows)
    namespaces = dict.fromkeys(manifest.namespace for manifest in ours)
    for name in namespaces:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await _post(client, NAMESPACES, "", body)
    others = [
        await _create(client, resource, manifest)
        for manifest in report.others
        if (resource := _OTHERS.get((str(manifest.api_version), str(manifest.kind))))
    ]
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def create_template(manifest: Manifest) -> _Created:
        async with slots:
            return await _create(client, JOBTEMPLATES, manifest)

    templates = await asyncio.gather(*map(create_template, report.templates))
    flows = [await _create(client, JOBFLOWS, manifest) for manifest in report.flows]
    return AppliedObjects(
        flows=[each.key for each in flows if each.key],
        templates=[each.key for each in templates if each.key],
        faults=[fault for each in (*others, *templates, *flows) for fault in each.faults],
    )


async def _post(client: Client, resource: Resource, namespace: str, body: object) -> bytes:
    """Create an object; return b"" if a namespace or queue already exists."""
    try:
        return await client.create(resource, namespace, msgspec.json.encode(body))
    except ApiError as error:
        if error.already_exists and resource in _OTHERS.values():
            return b""
        raise


async def _create(client: Client, resource: Resource, manifest: Manifest) -> _Created:
    namespace = manifest.namespace if resource.namespaced else ""
    try:
        body = await _post(client, resource, namespace, manifest.data)
    except ApiError as error:
        return _Created(faults=_faults(manifest, error))
    if not body:
        return _Created()
    meta = decoder(Object).decode(body).metadata
    return _Created((meta.namespace, meta.name))


def _faults(manifest: Manifest, error: ApiError) -> list[ManifestFault]:
    """Return a fault per cause of the server's refusal."""
    kind, name, details = str(manifest.kind), manifest.name, error.status.details
    causes = (details.causes if details else None) or []
    if not causes:
        place = manifest.place("metadata.name")
        return [ManifestFault(place, error.reason, error.message, "", kind, name)]
    return [
        ManifestFault(manifest.place(each.field), each.reason, each.message, each.field, kind, name)
        for each in causes
    ]


class FlowsFollower:
    """Watches the applied flows and shows every change. Use `follow`."""

    def __init__(
        self, client: Client, applied: AppliedObjects, show: Callable[[JobFlow], None]
    ) -> None:
        self.flows: dict[Key, JobFlow | None] = dict.fromkeys(applied.flows)
        """The flows as last seen; None before that."""
        self.show_error: OSError | None = None
        """Error of `show`, such as a full disk; then there is nothing more to wait for."""
        self._templates = frozenset(applied.templates)
        self._changed = asyncio.Event()
        self._show = show
        cache: Cache[JobFlow] = Cache(self._update)
        self.reflector = Reflector(client, JOBFLOWS, JobFlow, cache)

    def _update(self, old: JobFlow | None, new: JobFlow | None) -> None:
        key = (new.metadata.namespace, new.metadata.name) if new is not None else None
        if new is None or key not in self.flows:
            return
        self.flows[key] = new
        try:
            self._show(new)
        except OSError as error:  # the reflector would retry, as after a network error
            self.show_error = error
        self._changed.set()

    def stuck(self) -> list[str]:
        """Return a sentence for each flow that can never finish."""
        found = (flow for flow in self.flows.values() if flow is not None and not flow.final)
        reasons = ((flow, stuck_reason(flow, self._templates)) for flow in found)
        return [f"JobFlow {flow.metadata.name} {reason}" for flow, reason in reasons if reason]

    async def until_finished(self) -> None:
        """Return once every flow has finished or is stuck, or cannot be shown."""
        while not (self.show_error or all(map(self._is_settled, self.flows.values()))):
            self._changed.clear()
            await self._changed.wait()

    def _is_settled(self, flow: JobFlow | None) -> bool:
        return flow is not None and (flow.final or bool(stuck_reason(flow, self._templates)))


@asynccontextmanager
async def follow(
    client: Client, applied: AppliedObjects, show: Callable[[JobFlow], None]
) -> AsyncIterator[FlowsFollower]:
    """Watch the applied flows while the body runs."""
    follower = FlowsFollower(client, applied, show)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(follower.reflector.run())
        try:
            yield follower
        finally:
            task.cancel()


def stuck_reason(flow: JobFlow, templates: Collection[Key]) -> str:
    """Return why an unfinished flow can never finish here, because nothing else will be applied,
    or "". `templates` are the applied ones."""
    if flow.status.suspended_at is not None:
        idle_phases = (*ENDED_STEP_PHASES, StepPhase.WAITING)
        conditions = (flow.status.conditions or {}).values()
        if any(condition.phase not in idle_phases for condition in conditions):
            return ""
        resume = format_command("jobflow resume", flow.metadata)
        way_out = f"remove suspend to run it here, or resume it on a cluster with {resume}"
        return f"is suspended (spec.suspend): {way_out}"
    if not (missing := _missing_templates(flow, templates)):
        return ""
    plural, pronoun = ("s", "them") if len(missing) > 1 else ("", "it")
    return f"waits for the JobTemplate{plural} {', '.join(missing)}: add {pronoun} to the FILEs"


def _missing_templates(flow: JobFlow, templates: Collection[Key]) -> list[str]:
    """Return the missing templates that the flow waits for, or [] if another step can still run."""
    conditions = flow.status.conditions or {}
    missing: dict[str, None] = {}
    for step in flow.all_steps:
        condition = conditions.get(format_job_name(flow.metadata.name, step.name))
        if condition is None:
            return []
        if condition.phase in ENDED_STEP_PHASES:
            continue
        if condition.phase != StepPhase.WAITING or condition.reason not in _BLOCKED:
            return []
        if condition.reason == StepReason.WAITING_FOR_TEMPLATE:
            template = step.template_for(step.case_of(condition.decisions))
            if (flow.metadata.namespace, template) in templates:
                return []
            missing[template] = None
    return list(missing)
