"""What a vcjob's controller has yet to see to: requests in order, and actions that wait.

Values and their bookkeeping; no I/O and no clock. Source of the rules on waiting actions:
Volcano's pkg/controllers/job/job_controller.go (AddDelayActionForJob and what it is called with).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from jobflow.api.job import JobPhase, JobSpec, JobStatus
from jobflow.api.pod import PodPhase
from jobflow.sandbox.jobs.policies import (
    INTERNAL_EVENTS,
    SYNC,
    BusAction,
    BusEvent,
    Pod,
    Request,
    decide,
)

_REACH = {
    BusAction.RESTART_TASK: "task",
    BusAction.RESTART_POD: "pod",
    BusAction.RESTART_PARTITION: "partition",
}
"""The attribute of a request that says how far an action goes; not in here: the whole job."""


@dataclass(frozen=True, slots=True)
class Work:
    """One action to carry out."""

    action: BusAction
    request: Request


@dataclass(frozen=True, slots=True)
class _Waiting:
    due: datetime
    work: Work


class Inbox:
    """The requests of one vcjob."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._sync = False
        self._waiting: dict[str, _Waiting] = {}

    def offer(self, request: Request) -> None:
        """Take a request in. Any number of requests for no more than a sync are one."""
        if request.event is BusEvent.POD_RUNNING:
            self._call_off(request.pod)
        if request.action is None and request.event in INTERNAL_EVENTS:
            self._sync = True
        else:
            self._requests.append(request)

    def put_back(self, work: Work) -> None:
        """Take in again what could not be carried out; it comes first."""
        if work.action is BusAction.SYNC:
            self._sync = True
        else:
            self._requests.appendleft(_commanded(work))

    def take(
        self, spec: JobSpec, status: JobStatus, pods: Mapping[str, Pod], now: datetime
    ) -> Work | None:
        """The next action; None: there is none now (see `next_due`).

        What policies ask for goes before a sync, which could end the job over it. Not so while
        the job is Pending: there a sync can lead no further than Running, which it must not skip.
        """
        if self._sync and status.state.phase in ("", JobPhase.PENDING):
            self._sync = False
            return Work(BusAction.SYNC, SYNC)
        self._ripen(pods, now)
        version = status.version or 0
        while self._requests:
            request = self._requests.popleft()
            decision = decide(spec, version, request)
            if decision.delay:
                work = Work(decision.action, request)
                self._wait(_Waiting((request.since or now) + decision.delay, work))
                self._ripen(pods, now)
                # the successor of an evicted pod is made meanwhile: if it runs, all is well again
                self._sync = self._sync or request.event is BusEvent.POD_EVICTED
            elif decision.action is BusAction.SYNC:
                self._sync = True
            else:
                return Work(decision.action, request)
        if self._sync:
            self._sync = False
            return Work(BusAction.SYNC, SYNC)
        return None

    @property
    def next_due(self) -> datetime | None:
        """When the first of the waiting actions is due."""
        return min((waiting.due for waiting in self._waiting.values()), default=None)

    def done(self, work: Work) -> None:
        """An action was carried out: others that wait and reach no further are needless."""
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
        """A pod runs: what its predecessor of the same name called for is settled."""
        waiting = self._waiting.get(pod)
        if waiting and waiting.work.request.event is not BusEvent.POD_PENDING:
            del self._waiting[pod]

    def _ripen(self, pods: Mapping[str, Pod], now: datetime) -> None:
        """Move what is due to the front of the requests; forget what is no longer so."""
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


def _commanded(work: Work) -> Request:
    """The request with its action settled, so that policies are not asked again."""
    return Request(
        action=work.action,
        event=work.request.event,
        task=work.request.task,
        pod=work.request.pod,
        pod_uid=work.request.pod_uid,
        partition=work.request.partition,
    )


def _covers(work: Work, other: Work) -> bool:
    reach = _REACH.get(work.action)
    if reach != _REACH.get(other.action):
        return False
    return reach is None or getattr(work.request, reach) == getattr(other.request, reach)
