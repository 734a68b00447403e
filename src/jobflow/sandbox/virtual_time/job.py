"""A vcjob in virtual time: Volcano's state machine over pods that follow the job's annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobOutline, JobSpec, JobStatus
from jobflow.api.volcano.pod import ENDED_POD_PHASES, Pod, PodPhase, PodStatus
from jobflow.core.planning.virtual_time.flow import VirtualFlow
from jobflow.core.timestamps import add, truncate_to_second
from jobflow.sandbox.jobs import policies
from jobflow.sandbox.jobs.job_queue import JobQueue
from jobflow.sandbox.jobs.objects import Vcjob, build_pod, partition_of, pod_name, with_defaults
from jobflow.sandbox.jobs.state_machine import invalid_status, step
from jobflow.sandbox.nodes.runner import pod_status
from jobflow.sandbox.nodes.simulate import PhaseChange, progress_of, read_script
from jobflow.sandbox.virtual_time.capacity import Room, gang_requests, pod_requests

_ABORT = policies.JobRequest(policies.BusEvent.COMMAND_ISSUED, policies.BusAction.ABORT)


@dataclass(slots=True)
class _VirtualPod:
    facts: policies.PodFacts
    task: int
    index: int
    restart: int
    """How often the vcjob had been restarted when the pod was created."""
    began: datetime | None = None
    change: PhaseChange | None = None


class VirtualJob:
    """The vcjob of a manifest that is stored at `now`, in whole seconds, and its step."""

    def __init__(
        self,
        flow: VirtualFlow,
        step_name: str,
        manifest: Mapping[str, Any],
        uid: str,
        now: datetime,
        room: Room,
    ) -> None:
        self.flow = flow
        self.step = flow.place + step_name
        """Name of its step; of a child flow `train/fit`, or `train/0/fit` with an item."""
        self.metadata = msgspec.structs.replace(
            msgspec.convert(manifest["metadata"], ObjectMeta),
            uid=uid,
            creation_timestamp=truncate_to_second(now),
        )
        self.spec = with_defaults(msgspec.convert(manifest["spec"], JobSpec))
        self.outline = msgspec.convert(manifest["spec"], JobOutline)
        self.script, self.faults = read_script(
            self.metadata.annotations or {},
            self.metadata.labels or {},
            (task.name or "" for task in self.spec.tasks or ()),
        )
        index = (self.metadata.annotations or {}).get(labels.INDEX)
        self.index = None if index is None else int(index)
        self.room = room
        self.status = JobStatus()
        self.start: datetime | None = None
        self.end: datetime | None = None
        self.gang = gang_requests(self.spec)
        self._requests = [pod_requests(task) for task in self.spec.tasks or ()]
        self._pods: dict[str, _VirtualPod] = {}
        self._made = 0
        self._queue = JobQueue()
        self._queue.offer(policies.SYNC)

    @property
    def job(self) -> Job:
        """The vcjob as a View shows it."""
        return Job(metadata=self.metadata, spec=self.outline, status=self.status)

    @property
    def ended(self) -> bool:
        return self.status.state.phase in ENDED_PHASES

    @property
    def waits_for_room(self) -> bool:
        if self.end is not None:
            return False
        return self.start is None or any(pod.began is None for pod in self._pods.values())

    @property
    def next_due(self) -> datetime | None:
        return self._queue.next_due

    def abort(self) -> None:
        self._queue.offer(_ABORT)

    def admit(self, now: datetime) -> bool:
        """Let the pods be created if all of the gang have room; return whether they have."""
        if not self.room.fits(self.gang):
            return False
        self.start = now
        # Its pods can be created now.
        self._queue.offer(policies.SYNC)
        return True

    def start_pods(self, now: datetime) -> Iterator[tuple[datetime, Callable[[datetime], None]]]:
        """Start the pods that have room, those of the gang first; yield the time of each of their
        phase changes, and a function that makes it at a time."""
        tasks = self.spec.tasks or []
        waiting = [pod for pod in self._pods.values() if pod.began is None]
        waiting.sort(key=lambda pod: pod.index >= (tasks[pod.task].min_available or 0))
        for pod in waiting:
            asked = self._requests[pod.task]
            if self.room.fits(asked):
                self.room.take(asked)
                pod.began = start = now
                # A task with listed phases counts from the first pod since the last restart.
                if pod.facts.task in self.script.phases:
                    mates = (mate for mate in self._pods.values() if mate.restart == pod.restart)
                    start = min(mate.began for mate in mates if mate.began is not None)
                for change in self.script.marks(pod.facts.task):
                    yield add(start, change.at), partial(self._change_pod, pod, change)

    def run(self, now: datetime) -> None:
        while (request := self._queue.take(self.spec, self.status, self._facts(), now)) is not None:
            if self.faults and not self.ended:
                self.status = invalid_status(self.status, self.faults, now)
                break
            job = Vcjob(self.metadata, self.spec, self.status)
            changes = step(job, self._facts(), request, now, is_admitted=self.start is not None)
            for doomed in changes.delete:
                if (pod := self._pods.pop(doomed.name, None)) is not None:
                    self._free(pod)
                    self._queue.offer(policies.SYNC)
            for number, index in changes.create:
                task = (self.spec.tasks or [])[number]
                self._made += 1
                facts = policies.PodFacts(
                    pod_name(self.metadata.name, task.name or "", index),
                    task.name or "",
                    uid=f"{self.metadata.uid}-{self._made}",
                    version=self.status.version or 0,
                    partition=partition_of(task, index),
                    since=now,
                )
                restart = self.status.retry_count or 0
                self._pods[facts.name] = _VirtualPod(facts, number, index, restart)
                self._queue.offer(policies.pod_request(None, facts, self.spec, self._facts()))
            self._queue.done(request)
            if changes.status != self.status:
                self.status = changes.status
                self._queue.offer(policies.SYNC)
        if self.ended and self.end is None:
            self.end = now

    def delete(self, now: datetime) -> None:
        for pod in self._pods.values():
            self._free(pod)
        self._pods.clear()
        self.end = self.end or now

    def _change_pod(self, pod: _VirtualPod, change: PhaseChange, now: datetime) -> None:
        before = pod.facts
        # A deleted pod may have a successor of its name.
        if self._pods.get(before.name) is not pod:
            return
        if change.phase in ENDED_POD_PHASES:
            self._free(pod)
        pod.change = change
        pod.facts = replace(
            before,
            phase=change.phase,
            exit_code=change.exit_code,
            ready=change.phase is PodPhase.RUNNING,
            since=now,
        )
        self._queue.offer(policies.pod_request(before, pod.facts, self.spec, self._facts()))

    def pods(self) -> tuple[Pod, ...]:
        """Return the pods as the API server would have them."""
        vcjob, pods = Vcjob(self.metadata, self.spec, self.status), []
        for pod in self._pods.values():
            built = build_pod(vcjob, (self.spec.tasks or [])[pod.task], pod.index)
            built["metadata"] |= {"uid": pod.facts.uid, "creationTimestamp": pod.began}
            found = msgspec.convert(built, Pod)
            if pod.change is not None and pod.began is not None:
                since = pod.facts.since or pod.began
                status = pod_status(found, progress_of(found, pod.change, pod.began, since))
                found = msgspec.structs.replace(found, status=msgspec.convert(status, PodStatus))
            pods.append(found)
        return tuple(pods)

    def count_running(self, task: str) -> int:
        facts = (pod.facts for pod in self._pods.values())
        return sum(each.task == task and each.phase is PodPhase.RUNNING for each in facts)

    def _facts(self) -> dict[str, policies.PodFacts]:
        return {name: pod.facts for name, pod in self._pods.items()}

    def _free(self, pod: _VirtualPod) -> None:
        if pod.began is not None and pod.facts.phase not in ENDED_POD_PHASES:
            self.room.give_back(self._requests[pod.task])
