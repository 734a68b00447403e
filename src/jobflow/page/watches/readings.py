"""Facts about a step that cannot be watched, and are read now and then: words of Volcano about its
jobs that wait, child flows that explain it, events, and a job as YAML."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.resources import JOBS, POD_GROUPS, PODS, Object
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.client.conditions import condition_of
from jobflow.client.errors import CommandError
from jobflow.client.flows.live import Signal, stop_task
from jobflow.client.flows.why import explain_children, read_facts
from jobflow.client.manifests.write_yaml import yaml_text
from jobflow.core.admission.object_names import all_names
from jobflow.core.explain.explain import explain_step
from jobflow.core.explain.scheduling import NO_FACTS, SchedulingFacts
from jobflow.core.timelines.spans import runs_of
from jobflow.kube.answers import describe_network_error
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.events import Event, list_events
from jobflow.page.watches.flows import LiveFlow
from jobflow.page.watches.live import ANSWER_SECONDS
from jobflow.runtime.event_loop import all_of

PAUSE_SECONDS = 2.0
"""Shortest time between two readings."""
RENEW_SECONDS = 10.0
"""Longest time between two readings while the flow has not finished: PodGroups, queues and events
change without a change of flow and pods."""
MAX_JOBS = 3
MAX_PODS = 5
MAX_EVENTS = 40
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_TELLING: tuple[str, ...] = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.RUNNING)
"""The phases of the pods that tell most."""


async def read_events(
    client: Client, flow: JobFlow, step: str, index: int | None, pods: Sequence[Pod]
) -> list[Event]:
    """Return the events of the jobs of a step, or of an item of it, of their PodGroups and of
    `pods`, the newest first: of those that tell most, at most MAX_JOBS and MAX_PODS. Raises
    ApiError and NETWORK_ERRORS."""
    namespace = flow.metadata.namespace
    jobs = list_jobs(flow, step, index)[:MAX_JOBS]
    groups = await all_of(*(_name_group(client, namespace, job) for job in jobs))
    telling = sorted(pods, key=lambda pod: rank_of(pod, _TELLING))
    objects = [
        *((JOBS.kind, job) for job in jobs),
        *((POD_GROUPS.kind, group) for group in groups if group),
        *((PODS.kind, pod.metadata.name) for pod in telling[:MAX_PODS]),
    ]
    found = await all_of(*(list_events(client, namespace, *each) for each in objects))
    events = [event for each in found for event in each]
    events.sort(key=lambda event: event.time or _LONG_AGO, reverse=True)
    return events[:MAX_EVENTS]


def rank_of(pod: Pod, phases: Sequence[str]) -> int:
    """Return the position of a pod's phase in a list; any other phase is behind all of them."""
    return phases.index(pod.phase) if pod.phase in phases else len(phases)


def list_jobs(flow: JobFlow, step: str, index: int | None) -> list[str]:
    """Return the names of the current or last vcjobs of a step, or of an item of it: failed ones
    first, then those that have not ended."""
    condition = condition_of(flow, step)
    runs: Sequence[RunCondition] = runs_of(condition)
    if index is not None:
        run = condition.run_at(index)
        runs = [run] if run is not None else []

    def rank(run: RunCondition) -> int:
        if run.phase == StepPhase.FAILED:
            return 0
        return 2 if run.phase in ENDED_STEP_PHASES else 1

    return [run.job for run in sorted(runs, key=rank) if run.job]


async def _name_group(client: Client, namespace: str, job: str) -> str | None:
    """Return the name of the PodGroup of a job, None if the job cannot be read."""
    try:
        found = await client.get(JOBS, namespace, job, Object)
    except ApiError:
        return None
    return f"{job}-{found.metadata.uid}"  # as Volcano names it


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
    # longer than the job itself, and nobody reads them
    job["metadata"].pop("managedFields", None)
    return yaml_text(job)


@dataclass(eq=False)
class StepReadings:
    """The readings about a step, or about an item of it."""

    client: Client
    live: LiveFlow
    step: str
    index: int | None
    pods: Callable[[JobFlow], Sequence[Pod]]
    signals: Sequence[Signal]
    """Those of changes after which it is read again."""
    changed: Signal = field(default_factory=Signal)
    facts: SchedulingFacts = NO_FACTS
    children: tuple[str, ...] = ()
    """Sentences about child flows that explain the step."""
    events: Sequence[Event] = ()
    problem: str = ""
    """Why events are missing."""
    _was_read: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await stop_task(self._task)

    async def answered(self) -> None:
        """Return once everything was read, or after ANSWER_SECONDS."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._was_read.wait(), ANSWER_SECONDS)

    async def _run(self) -> None:
        with Signal(self.signals).watched() as event:
            while True:
                event.clear()
                await self._read()
                self._was_read.set()
                # however often flow and pods change
                await asyncio.sleep(PAUSE_SECONDS)
                flow = self.live.flow
                with suppress(TimeoutError):
                    # nothing of a flow that has ended changes by itself
                    has_ended = flow is None or flow.final
                    await asyncio.wait_for(event.wait(), None if has_ended else RENEW_SECONDS)

    async def _read(self) -> None:
        if (flow := self.live.flow) is None:
            return
        # compared at the end, because most readings change nothing
        before, problem = self._shown, ""
        client, step, index = self.client, self.step, self.index
        try:
            # all or none: causes and child flows explain each other
            facts = await read_facts(client, flow, step, index)
            found = explain_step(flow, step, index=index, now=datetime.now(UTC), facts=facts)
            children = await explain_children(client, flow, found, step, index)
            self.facts, self.children = facts, tuple(children)
            self.events = await read_events(client, flow, step, index, self.pods(flow))
        except (KeyError, IndexError):  # a later flow of this name has no such step or item
            return
        except (ApiError, CommandError, *NETWORK_ERRORS) as error:
            problem = f"Some of it could not be read: {error}"
            # facts and child flows leave out what may not be read
            if isinstance(error, ApiError) and error.code == 403:
                place = f'in namespace "{flow.metadata.namespace}"'
                self.events, problem = (), f"You may not list events {place}: {error.message}"
        self.problem = problem
        if self._shown != before:
            self.changed.notify()

    @property
    def _shown(self) -> tuple[object, ...]:
        return self.facts, self.children, self.events, self.problem
