"""The events of a step: of its jobs, of their PodGroups and of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.meta import ListMeta, Object, ObjectMeta, Struct
from jobflow.api.resources import EVENTS, JOBS, POD_GROUPS, PODS
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.core.names import format_job_name
from jobflow.kube.client import ApiError, Client
from jobflow.runtime.task_group import all_of

MAX_JOBS = 3
"""Jobs whose events are read."""
MAX_PODS = 5
"""Pods whose events are read."""
MAX_EVENTS = 40
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Involved(Struct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class _Event(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    involved_object: _Involved = msgspec.field(default_factory=_Involved)

    @property
    def time(self) -> datetime | None:
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp


class _Events(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[_Event] = []


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event."""

    time: datetime | None
    is_warning: bool
    kind: str
    """Job, PodGroup or Pod."""
    name: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """Events, the newest first."""

    lines: tuple[EventLine, ...] = ()
    problem: str = ""
    """The right that is missing to read them."""


async def read_events(
    client: Client, flow: JobFlow, step: str, index: int | None, pods: Sequence[Pod]
) -> FoundEvents:
    """Return the events of the jobs of a step, or of an item of it, of their PodGroups and of
    `pods`: of those that tell most, at most MAX_JOBS and MAX_PODS. Raises ApiError and
    NETWORK_ERRORS."""
    namespace = flow.metadata.namespace
    jobs = list_jobs(flow, step, index)[:MAX_JOBS]
    groups = await all_of(*(_name_group(client, namespace, job) for job in jobs))
    objects = [
        *((JOBS.kind, job) for job in jobs),
        *((POD_GROUPS.kind, group) for group in groups if group),
        *((PODS.kind, pod.metadata.name) for pod in sorted(pods, key=_telling)[:MAX_PODS]),
    ]
    try:
        found = await all_of(*(_events_of(client, namespace, *each) for each in objects))
    except ApiError as error:
        if error.code != 403:
            raise
        needed = f'You may not list events in namespace "{namespace}": {error.message}'
        return FoundEvents(problem=needed)
    lines = [_line(event) for events in found for event in events]
    lines.sort(key=lambda line: line.time or _LONG_AGO, reverse=True)
    return FoundEvents(tuple(lines[:MAX_EVENTS]))


def list_jobs(flow: JobFlow, step: str, index: int | None) -> list[str]:
    """Return the names of the current or last vcjobs of a step, or of an item of it: failed ones
    first, then those that have not ended."""
    key = format_job_name(flow.metadata.name, step)
    condition = (flow.status.conditions or {}).get(key)
    if condition is None:
        return []
    runs: Iterable[RunCondition] = condition.runs or (condition,)
    if index is not None:
        runs = (run for run in condition.runs or () if run.index == index)
    return [run.job for run in sorted(runs, key=_urgency) if run.job]


def _urgency(run: RunCondition) -> int:
    if run.phase == StepPhase.FAILED:
        return 0
    return 2 if run.phase in ENDED_STEP_PHASES else 1


def _telling(pod: Pod) -> int:
    order = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.RUNNING)
    return order.index(PodPhase(pod.phase)) if pod.phase in order else len(order)


async def _name_group(client: Client, namespace: str, job: str) -> str:
    """Return the name of the PodGroup of a job, "" if the job cannot be read."""
    try:
        found = await client.get(JOBS, namespace, job, Object)
    except ApiError:
        return ""
    return f"{job}-{found.metadata.uid}"


async def _events_of(client: Client, namespace: str, kind: str, name: str) -> list[_Event]:
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    found: list[_Event] = []
    query = [("fieldSelector", selector)]
    async for page in client.list(EVENTS, _Events, namespace=namespace, query=query):
        found += page.items
    return found


def _line(event: _Event) -> EventLine:
    about = event.involved_object
    return EventLine(
        event.time,
        event.type == "Warning",
        about.kind,
        about.name,
        event.reason,
        event.message,
        event.count or 1,
    )
