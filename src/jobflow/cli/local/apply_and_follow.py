"""Applies manifests to an API server and follows their flows to the end. It prints nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import Object
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, NAMESPACES, QUEUES, Resource
from jobflow.cli.manifests.check import Report
from jobflow.cli.manifests.faults import Fault
from jobflow.cli.manifests.objects import Manifest
from jobflow.core.names import format_job_name
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_command
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError, Client, decoder
from jobflow.kube.reflector import Reflector

Key = tuple[str, str]
"""Namespace and name."""

_ALSO_APPLIED: Mapping[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource for resource in (NAMESPACES, QUEUES)
}
"""What else in FILEs the sandbox has a use for."""
_AT_ONCE = 20
_STAYS = frozenset({"", StepReason.STOPPED, StepReason.WAITING_FOR_TEMPLATE})
"""Reasons of a waiting step that no passing of time takes away."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of applying: the flows and templates that were made, and what was refused."""

    flows: Sequence[Key]
    templates: Sequence[Key]
    faults: Sequence[Fault]


async def apply(client: Client, report: Report) -> Applied:
    """Create all objects: namespaces and queues, then templates, then flows, whatever the order
    in which they are written. What is refused does not keep the rest from being tried."""
    await _namespaces(client, [*report.templates, *report.flows])
    faults: list[Fault] = []
    for manifest in report.others:
        resource = _ALSO_APPLIED.get((str(manifest.api_version), str(manifest.kind)))
        if resource is not None:
            _, refused = await _create(client, resource, manifest)
            faults += refused
    free = asyncio.Semaphore(_AT_ONCE)

    async def template(manifest: Manifest) -> tuple[Key | None, list[Fault]]:
        async with free:
            return await _create(client, JOBTEMPLATES, manifest)

    templates = await asyncio.gather(*map(template, report.templates))
    flows = [await _create(client, JOBFLOWS, manifest) for manifest in report.flows]
    return Applied(
        flows=[key for key, _ in flows if key],
        templates=[key for key, _ in templates if key],
        faults=[*faults, *(fault for _, refused in (*templates, *flows) for fault in refused)],
    )


async def _namespaces(client: Client, manifests: Iterable[Manifest]) -> None:
    for name in dict.fromkeys(manifest.namespace for manifest in manifests):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(_AlreadyThere):
            await _post(client, NAMESPACES, "", body)


class _AlreadyThere(Exception):
    pass


async def _post(client: Client, resource: Resource, namespace: str, body: Any) -> bytes:
    try:
        return await client.create(resource, namespace, msgspec.json.encode(body))
    except ApiError as error:
        if error.already_exists and resource in _ALSO_APPLIED.values():
            raise _AlreadyThere from error
        raise


async def _create(
    client: Client, resource: Resource, manifest: Manifest
) -> tuple[Key | None, list[Fault]]:
    """The key of what was made, or why it was not; neither where it is there already."""
    namespace = manifest.namespace if resource.namespaced else ""
    try:
        answer = await _post(client, resource, namespace, manifest.data)
    except _AlreadyThere:
        return None, []
    except ApiError as error:
        return None, refusal(manifest, error)
    made = decoder(Object).decode(answer).metadata
    return (made.namespace, made.name), []


def refusal(manifest: Manifest, error: ApiError) -> list[Fault]:
    """What the server said, a fault a cause, each with its place in the file."""
    details = error.status.details
    causes = (details.causes if details else None) or []
    if not causes:
        place = manifest.place("metadata.name")
        return [Fault(place, error.reason, error.message, "", str(manifest.kind), manifest.name)]
    return [
        Fault(
            place=manifest.place(cause.field),
            reason=cause.reason,
            message=cause.message,
            path=cause.field,
            kind=str(manifest.kind),
            name=manifest.name,
        )
        for cause in causes
    ]


class Follower:
    """Copies of all flows on the server, kept level; tells of each change.

    Use `following`. `over` says whether there is anything left to wait for.
    """

    def __init__(
        self,
        client: Client,
        applied: Applied,
        show: Callable[[JobFlow], None],
    ) -> None:
        self.flows: dict[Key, JobFlow | None] = dict.fromkeys(applied.flows)
        """As they were last seen; None: not seen yet."""
        self._templates = frozenset(applied.templates)
        self.moved = asyncio.Event()
        """Set whenever a flow has changed."""
        self.unshown: OSError | None = None
        """Why a flow could not be shown, such as a full disk; then nothing is to be waited for."""
        self._show = show
        cache: Cache[JobFlow] = Cache(self._changed)
        self._reflector = Reflector(client, JOBFLOWS, JobFlow, cache)

    def _changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if new is None:
            return
        key = (new.metadata.namespace, new.metadata.name)
        if key in self.flows:
            self.flows[key] = new
            try:
                self._show(new)
            except OSError as error:  # the reflector would take it for the network's, and go on
                self.unshown = error
            self.moved.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._reflector.run()

    @property
    def over(self) -> bool:
        """Whether every flow has ended, or none that has not can ever move again."""
        return all(
            flow is not None and (flow.final or bool(stuck(flow, self._templates)))
            for flow in self.flows.values()
        )

    def stuck(self) -> list[str]:
        """Of each flow that can never move again why that is, in a sentence."""
        found = [flow for flow in self.flows.values() if flow is not None and not flow.final]
        why = ((flow, stuck(flow, self._templates)) for flow in found)
        return [f"JobFlow {flow.metadata.name} {said}" for flow, said in why if said]

    async def until_over(self) -> None:
        """Return once `over`, or `unshown`."""
        while not (self.over or self.unshown):
            self.moved.clear()
            await self.moved.wait()


@asynccontextmanager
async def following(
    client: Client, applied: Applied, show: Callable[[JobFlow], None]
) -> AsyncIterator[Follower]:
    """Follow flows for as long as the context lasts."""
    follower = Follower(client, applied, show)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(follower.run())
        try:
            yield follower
        finally:
            task.cancel()


def stuck(flow: JobFlow, templates: Collection[Key]) -> str:
    """Why a flow that has not ended never will, for nobody can send anything here that is not in
    FILEs; empty where it may. `templates`: those that were applied."""
    if flow.status.suspended_at is not None:
        moves = any(
            condition.phase not in (*ENDED_STEP_PHASES, StepPhase.WAITING)
            for condition in (flow.status.conditions or {}).values()
        )
        resume = format_command("jobflow resume", flow.metadata)
        way = f"resume it on a cluster with {resume}, or take suspend out to run it here"
        return "" if moves else f"is suspended (spec.suspend): {way}"
    missing = waiting_for(flow, templates)
    plural = "s" if len(missing) > 1 else ""
    what = f"waits for the JobTemplate{plural} {', '.join(missing)}, which no FILE has"
    return what if missing else ""


def waiting_for(flow: JobFlow, templates: Collection[Key]) -> list[str]:
    """The templates that a flow waits for and that are not among `templates`, if it waits for
    nothing else; else nothing.

    Nobody can bring one in here: FILEs are all there is. A step that runs, or that waits for
    anything that time may bring, is a reason to go on.
    """
    conditions = flow.status.conditions or {}
    missing: dict[str, None] = {}
    for step in flow.all_steps:
        condition = conditions.get(format_job_name(flow.metadata.name, step.name))
        if condition is None:
            return []
        if condition.phase in ENDED_STEP_PHASES:
            continue
        if condition.phase != StepPhase.WAITING or condition.reason not in _STAYS:
            return []
        if condition.reason == StepReason.WAITING_FOR_TEMPLATE:
            needed = step.template_for(step.case_of(condition.decisions))
            if (flow.metadata.namespace, needed) in templates:
                return []
            missing[needed] = None
    return list(missing)
