"""What a page reads now and then, because it cannot be watched for a single step: words of Volcano
about its jobs that wait, child flows that explain it, events, and a job as YAML."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.resources import EVENTS, JOBS, POD_GROUPS, PODS, Object, ObjectMeta, Struct
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.client.errors import CommandError
from jobflow.client.flows.live import Signal
from jobflow.client.flows.why import explain_children, read_facts
from jobflow.client.manifests.write_yaml import yaml_text
from jobflow.core.admission.object_names import all_names
from jobflow.core.explain.explain import explain_step
from jobflow.core.explain.scheduling import NO_FACTS, SchedulingFacts
from jobflow.core.names import format_job_name
from jobflow.kube.answers import ItemList, describe_network_error
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.page.watches.flows import LiveFlow
from jobflow.page.watches.live import ANSWER_SECONDS
from jobflow.runtime.event_loop import all_of

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
    async for page in client.list(EVENTS, ItemList[_Event], namespace=namespace, query=query):
        found += page.items or ()
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


async def read_job(client: Client, namespace: str, name: str) -> str:
    """Return the YAML of a vcjob, or a sentence that it cannot be read."""
    if not all_names([namespace, name]):
        return "There is no such job.\n"
    try:
        job = json.loads(await client.request("GET", JOBS.path(namespace, name)))
    except ApiError as error:
        if error.not_found:
            return f"Job {name} is deleted.\n"
        if error.code == 403:
            return f'You may not get {JOBS.qualified} in namespace "{namespace}": {error.message}\n'
        return f"Job {name} cannot be read: {error.message}\n"
    except NETWORK_ERRORS as error:
        return f"The cluster does not answer: {describe_network_error(error)}\n"
    job["metadata"].pop("managedFields", None)
    return yaml_text(job)


PAUSE_SECONDS = 2.0
"""Shortest time between two readings."""
RENEW_SECONDS = 10.0
"""Longest time between two readings while the flow has not finished: PodGroups, queues and events
change without a change of flow and pods."""


class StepReadings:
    """The readings about a step, or about an item of it."""

    def __init__(
        self,
        client: Client,
        live: LiveFlow,
        step: str,
        index: int | None,
        pods: Callable[[JobFlow], Sequence[Pod]],
        signals: Sequence[Signal],
    ) -> None:
        self.changed = Signal()
        self.facts: SchedulingFacts = NO_FACTS
        self.children: tuple[str, ...] = ()
        """Sentences about child flows that explain the step."""
        self.events: tuple[EventLine, ...] = ()
        """Events of the step's jobs, their PodGroups and pods; the newest first."""
        self.problem = ""
        """Why events are missing."""
        self._client = client
        self._live = live
        self._step = step
        self._index = index
        self._pods = pods
        self._signals = signals
        self._was_read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def answered(self) -> None:
        """Return once everything was read, or after ANSWER_SECONDS."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._was_read.wait(), ANSWER_SECONDS)

    async def _run(self) -> None:
        event = asyncio.Event()
        for signal in self._signals:
            signal.watch(event)
        try:
            while True:
                event.clear()
                await self._read()
                self._was_read.set()
                await asyncio.sleep(PAUSE_SECONDS)
                flow = self._live.flow
                with suppress(TimeoutError):
                    has_ended = flow is None or flow.final
                    await asyncio.wait_for(event.wait(), None if has_ended else RENEW_SECONDS)
        finally:
            for signal in self._signals:
                signal.unwatch(event)

    async def _read(self) -> None:
        if (flow := self._live.flow) is None:
            return
        before = self._shown
        try:
            await self._read_causes(flow)
            found = await read_events(self._client, flow, self._step, self._index, self._pods(flow))
            self.events, self.problem = found.lines, found.problem
        except (KeyError, IndexError):  # a later flow of this name has no such step or item
            return
        except (ApiError, CommandError, *NETWORK_ERRORS) as error:
            self.problem = f"Some of it could not be read: {error}"
        if self._shown != before:
            self.changed.notify()

    async def _read_causes(self, flow: JobFlow) -> None:
        facts = await read_facts(self._client, flow, self._step, self._index)
        now = datetime.now(UTC)
        found = explain_step(flow, self._step, index=self._index, now=now, facts=facts)
        children = await explain_children(self._client, flow, found, self._step, self._index)
        self.facts, self.children = facts, tuple(children)

    @property
    def _shown(self) -> tuple[object, ...]:
        return self.facts, self.children, self.events, self.problem
