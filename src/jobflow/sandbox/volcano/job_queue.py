"""Queue of a vcjob's requests and delayed actions.

Source of the rules for delayed actions: Volcano's pkg/controllers/job/job_controller.go
(AddDelayActionForJob and its callers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from jobflow.api.job import JobPhase, JobSpec, JobStatus
from jobflow.api.pod import PodPhase
from jobflow.sandbox.jobs.policies import (
    INTERNAL_EVENTS,
    SYNC,
    BusAction,
    BusEvent,
    JobRequest,
    PodFacts,
    decide,
)

_REACH = {
    BusAction.RESTART_TASK: "task",
    BusAction.RESTART_POD: "pod",
    BusAction.RESTART_PARTITION: "partition",
}
"""Attribute of a request that limits the action; other actions affect the whole job."""


@dataclass(frozen=True, slots=True)
class JobAction:
    """An action to execute."""

    action: BusAction
    request: JobRequest


@dataclass(frozen=True, slots=True)
class _Waiting:
    due: datetime
    work: JobAction


class JobQueue:
    """The requests of one vcjob."""

    def __init__(self) -> None:
        self._requests: deque[JobRequest] = deque()
        self._sync = False
        self._waiting: dict[str, _Waiting] = {}

    def offer(self, request: JobRequest) -> None:
        """Add a request. Any number of sync requests count as one."""
        if request.event is BusEvent.POD_RUNNING:
            self._call_off(request.pod)
        if request.action is None and request.event in INTERNAL_EVENTS:
            self._sync = True
        else:
            self._requests.append(request)

    def put_back(self, work: JobAction) -> None:
        """Return an action that failed to the front of the queue."""
        if work.action is BusAction.SYNC:
            self._sync = True
        else:
            self._requests.appendleft(_commanded(work))

    def take(
        self, spec: JobSpec, status: JobStatus, pods: Mapping[str, PodFacts], now: datetime
    ) -> JobAction | None:
        """Return the next action, or None if none is due (see `next_due`).

        Actions of policies precede a sync, which could end the job. While the job is Pending, the
        sync comes first: it leads no further than Running, a phase that must not be skipped.
        """
        if self._sync and status.state.phase in ("", JobPhase.PENDING):
            self._sync = False
            return JobAction(BusAction.SYNC, SYNC)
        self._ripen(pods, now)
        version = status.version or 0
        while self._requests:
            request = self._requests.popleft()
            decision = decide(spec, version, request)
            if decision.delay:
                work = JobAction(decision.action, request)
                self._wait(_Waiting((request.since or now) + decision.delay, work))
                self._ripen(pods, now)

                self._sync = self._sync or request.event is BusEvent.POD_EVICTED
            elif decision.action is BusAction.SYNC:
                self._sync = True
            else:
                return JobAction(decision.action, request)
        if self._sync:
            self._sync = False
            return JobAction(BusAction.SYNC, SYNC)
        return None

    @property
    def next_due(self) -> datetime | None:
        """Due time of the first delayed action."""
        return min((waiting.due for waiting in self._waiting.values()), default=None)

    def done(self, work: JobAction) -> None:
        """Drop delayed actions that an executed action covers."""
        if work.action is BusAction.SYNC:
            return
        for pod, waiting in list(self._waiting.items()):
            if _covers(work, waiting.work):
                del self._waiting[pod]

    def _wait(self, waiting: _Waiting) -> None:
        pod = waiting.work.request.pod
        before = self._waiting.get(pod)
        if before is None or before.work.action != waiting.work.action:
            self._waiting[pod] = waiting

    def _call_off(self, pod: str) -> None:
        """Drop the delayed action of a pod's predecessor, because the pod runs."""
        waiting = self._waiting.get(pod)
        if waiting and waiting.work.request.event is not BusEvent.POD_PENDING:
            del self._waiting[pod]

    def _ripen(self, pods: Mapping[str, PodFacts], now: datetime) -> None:
        """Move due actions to the front; drop those that no longer apply."""
        for name, waiting in list(self._waiting.items()):
            request = waiting.work.request
            pod = pods.get(name)
            if request.event is BusEvent.POD_PENDING and (
                pod is None or pod.uid != request.pod_uid or pod.phase is not PodPhase.PENDING
            ):
                del self._waiting[name]
            elif waiting.due <= now:
                del self._waiting[name]
                self._requests.appendleft(_commanded(waiting.work))


def _commanded(work: JobAction) -> JobRequest:
    """Return the request with a fixed action, so that policies are not evaluated again."""
    return replace(work.request, action=work.action)


def _covers(work: JobAction, other: JobAction) -> bool:
    reach = _REACH.get(work.action)
    if reach != _REACH.get(other.action):
        return False
    return reach is None or getattr(work.request, reach) == getattr(other.request, reach)
