"""vcjobs for tests: manifests, and a vcjob that follows the state machine without a server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import msgspec

from jobflow.api.resources import JOBS, ObjectMeta
from jobflow.api.volcano.job import JobSpec, JobStatus
from jobflow.api.volcano.pod import PodPhase
from jobflow.sandbox.jobs.job_queue import JobQueue
from jobflow.sandbox.jobs.objects import Vcjob, pod_name
from jobflow.sandbox.jobs.policies import (
    SYNC,
    BusAction,
    BusEvent,
    JobRequest,
    PodFacts,
    evicted_request,
    pod_request,
)
from jobflow.sandbox.jobs.state_machine import step

START = datetime(2026, 11, 21, 2, 52, 46, tzinfo=UTC)
SANDBOX = "sandbox.jobflow.volcano.sh/"


def task(name: str = "t", replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Return a task of a vcjob with one container."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **more}


def vcjob(name: str, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a vcjob. Keywords other than `labels` and `spec` are annotations for the runner."""
    labels, spec = more.pop("labels", {}), more.pop("spec", {})
    annotations = {SANDBOX + key.replace("_", "-"): value for key, value in more.items()}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def job_spec(*tasks: dict[str, Any], **more: Any) -> JobSpec:
    """Return a spec with the CRD's default for maxRetry, 3, and no other default."""
    return msgspec.convert({"maxRetry": 3, "tasks": list(tasks) or [task()], **more}, JobSpec)


@dataclass
class PlayedJob:
    """A vcjob and its pods at `now`, which follow the state machine as in the job controller."""

    spec: JobSpec
    name: str = "j"
    now: datetime = START
    admitted: bool = True
    deleting: bool = False
    status: JobStatus = field(default_factory=JobStatus)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    inbox: JobQueue = field(default_factory=JobQueue)
    history: list[JobStatus] = field(default_factory=list)
    created: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, version and retry count of each created pod."""
    deleted_uids: set[str] = field(default_factory=set)
    gang: bool = False
    """Whether the scheduler must admit the job again after each kill."""

    def begin(self) -> PlayedJob:
        """Create the vcjob."""
        self.inbox.offer(SYNC)
        return self.settle()

    def admit(self) -> PlayedJob:
        """Admit the job to the cluster."""
        if not self.admitted:
            self.admitted = True
            self.inbox.offer(SYNC)
        return self.settle()

    def command(self, action: str) -> PlayedJob:
        """Send a user's Command."""
        self.inbox.offer(JobRequest(event=BusEvent.COMMAND_ISSUED, action=BusAction(action)))
        return self.settle()

    def pod(self, name: str, phase: str, *, code: int = 1, **more: Any) -> PlayedJob:
        """Change a pod; `code` is its exit code if it fails."""
        old = self.pods[name]
        exit_code = code if phase == "Failed" else 0
        new = replace(old, phase=PodPhase(phase), since=self.now, exit_code=exit_code, **more)
        self.pods[name] = new
        self.inbox.offer(pod_request(old, new, self.spec, self.pods))
        return self.settle()

    def all_pods(self, phase: str) -> PlayedJob:
        """Move every pod into a phase, one after another."""
        for name in list(self.pods):
            self.pod(name, phase)
        return self

    def delete_pod(self, name: str) -> PlayedJob:
        """Delete a pod, as the job controller or as anyone else."""
        pod = self.pods.pop(name)
        self.inbox.offer(SYNC if pod.uid in self.deleted_uids else evicted_request(pod))
        return self.settle()

    def collect_pods(self) -> PlayedJob:
        """Remove all pods that the job controller has deleted."""
        for pod in [pod for pod in self.pods.values() if pod.uid in self.deleted_uids]:
            self.delete_pod(pod.name)
        return self

    def wait(self, seconds: float) -> PlayedJob:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        return self.settle()

    def settle(self) -> PlayedJob:
        """Execute actions until none is due."""
        while request := self.inbox.take(self.spec, self.status, self.pods, self.now):
            deleted = self.now if self.deleting else None
            metadata = ObjectMeta(
                name=self.name, creation_timestamp=START, deletion_timestamp=deleted
            )
            job = Vcjob(metadata, self.spec, self.status)
            outcome = step(job, self.pods, request, self.now, is_admitted=self.admitted)
            for task_index, index in outcome.create:
                self._make(task_index, index)
            for pod in outcome.delete:
                self.pods[pod.name] = replace(pod, deleting=True)
                self.deleted_uids.add(pod.uid)
            self.inbox.done(request)
            if outcome.status != self.status:
                self._store(outcome.status)
        return self

    def _make(self, task_index: int, index: int) -> None:
        task_name = (self.spec.tasks or [])[task_index].name or ""
        version, retries = self.status.version or 0, self.status.retry_count or 0
        name = pod_name(self.name, task_name, index)
        self.created.append((name, version, retries))
        uid = f"{name}/{len(self.created)}"
        self.pods[name] = PodFacts(name, task_name, version=version, uid=uid, since=self.now)
        self.inbox.offer(pod_request(None, self.pods[name], self.spec, self.pods))

    def _store(self, status: JobStatus) -> None:
        before, self.status = self.status, status
        self.history.append(status)
        if status.state.phase != before.state.phase:
            self.inbox.offer(SYNC)
        if self.gang and (status.version or 0) > (before.version or 0):
            self.admitted = False

    @property
    def phase(self) -> str:
        """`status.state.phase`."""
        return self.status.state.phase

    @property
    def phases(self) -> list[str]:
        """All phases in order."""
        return [phase for phase, _ in groupby(status.state.phase for status in self.history)]
