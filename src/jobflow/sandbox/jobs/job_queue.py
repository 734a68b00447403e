"""Queue of a vcjob's requests and delayed actions, by the rules of Volcano's
pkg/controllers/job/job_controller.go (AddDelayActionForJob and its callers)."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from jobflow.api.volcano.job import JobPhase, JobSpec, JobStatus
from jobflow.api.volcano.pod import PodPhase
from jobflow.sandbox.jobs import policies
from jobflow.sandbox.jobs.policies import SYNC, BusAction, BusEvent, JobRequest, PodFacts

_REACH = {
    BusAction.RESTART_TASK: "task",
    BusAction.RESTART_POD: "name",
    BusAction.RESTART_PARTITION: "partition",
}
"""Attribute of a pod that limits the action; other actions affect the whole job."""


class JobQueue:
    def __init__(self) -> None:
        self._requests: deque[JobRequest] = deque()
        self._sync = False
        self._waiting: dict[str, tuple[datetime, JobRequest]] = {}

    def offer(self, request: JobRequest) -> None:
        """Add a request. Any number of sync requests count as one."""
        if request.event is BusEvent.POD_RUNNING and request.pod is not None:
            _, waiting = self._waiting.get(request.pod.name, (None, request))
            if waiting.event not in (BusEvent.POD_PENDING, BusEvent.POD_RUNNING):
                del self._waiting[request.pod.name]  # the pod's predecessor caused it
        # A sync looks at all pods, so a second one has nothing to add.
        is_internal = request.event in policies.INTERNAL_EVENTS
        if request is SYNC or (request.action is None and is_internal):
            self._sync = True
        else:
            self._requests.append(request)

    def put_back(self, request: JobRequest) -> None:
        """Return a request that failed to the front of the queue."""
        if request.action is BusAction.SYNC:
            self._sync = True
        else:
            self._requests.appendleft(request)

    def take(
        self, spec: JobSpec, status: JobStatus, pods: Mapping[str, PodFacts], now: datetime
    ) -> JobRequest | None:
        """Return the next request with its action, or None if none is due (see `next_due`). Actions
        of policies precede a sync, which could end the job. While the job is Pending, the sync
        comes first: it leads no further than Running, a phase that must not be skipped."""
        if self._sync and status.state.phase in ("", JobPhase.PENDING):
            self._sync = False
            return SYNC
        self._ripen(pods, now)
        while self._requests:
            request = self._requests.popleft()
            action, delay = policies.decide(spec, status.version or 0, request)
            acting = replace(request, action=action)
            if delay and (pod := request.pod) is not None:
                waiting = self._waiting.get(pod.name)
                # The first event starts the time, which later ones of the same action keep.
                if waiting is None or waiting[1].action != action:
                    self._waiting[pod.name] = ((pod.since or now) + delay, acting)
                self._ripen(pods, now)
                # an evicted pod gets a successor now, and if that runs, the action is dropped
                self._sync = self._sync or request.event is BusEvent.POD_EVICTED
            elif action is BusAction.SYNC:
                self._sync = True
            else:
                return acting
        if self._sync:
            self._sync = False
            return SYNC
        return None

    @property
    def next_due(self) -> datetime | None:
        return min((due for due, _ in self._waiting.values()), default=None)

    def done(self, request: JobRequest) -> None:
        """Drop delayed actions that an executed action covers."""
        if request.action is BusAction.SYNC:
            return
        reach = _REACH.get(request.action or BusAction.SYNC)
        for pod, (_, waiting) in list(self._waiting.items()):
            if _REACH.get(waiting.action or BusAction.SYNC) == reach and (
                reach is None or getattr(request.pod, reach, "") == getattr(waiting.pod, reach)
            ):
                del self._waiting[pod]

    def _ripen(self, pods: Mapping[str, PodFacts], now: datetime) -> None:
        """Move due actions to the front; drop those that no longer apply."""
        for name, (due, request) in list(self._waiting.items()):
            pod, uid = pods.get(name), request.pod.uid if request.pod is not None else None
            # A successor of that name has its own event and its own time.
            if request.event is BusEvent.POD_PENDING and (
                pod is None or pod.uid != uid or pod.phase is not PodPhase.PENDING
            ):
                del self._waiting[name]
            elif due <= now:
                del self._waiting[name]
                self._requests.appendleft(request)
