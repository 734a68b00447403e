"""Runners, which run the pods of vcjobs in place of a kubelet, and the status that they report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from jobflow.api.volcano.pod import Container, Pod, PodPhase
from jobflow.sandbox.jobs.objects import ADDRESS, Vcjob
from jobflow.sandbox.nodes.logs import ContainerLog
from jobflow.sandbox.nodes.volumes import Data, Source


@dataclass(frozen=True, slots=True)
class ContainerProgress:
    started: datetime | None = None
    finished: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    """Why it waits or how it ended; "" means the default reason."""
    message: str = ""
    """Details; the termination message if it has ended."""
    restarts: int = 0
    last: ContainerProgress | None = None

    @property
    def has_started(self) -> bool:
        return self.started is not None or self.last is not None

    @property
    def running(self) -> bool:
        return self.started is not None and self.finished is None

    @property
    def succeeded(self) -> bool:
        return self.finished is not None and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class PodProgress:
    phase: PodPhase
    started: datetime
    finished: datetime | None
    containers: Sequence[ContainerProgress]
    init_containers: Sequence[ContainerProgress]
    address: str = ADDRESS
    pod_reason: str = ""
    pod_message: str = ""
    disrupted: bool = False
    warning: tuple[str, str] | None = None
    """Reason and message of the last Event about what keeps the pod from starting."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    namespace: str
    job: str
    task: str
    pod: str
    container: str
    exit_code: int
    reason: str
    message: str
    log: Path


def pod_status(pod: Pod, progress: PodProgress) -> dict[str, Any]:
    """Return `status` as a kubelet writes it, as a merge patch."""
    # A kubelet never changes the start time of a pod.
    started = pod.status.start_time or progress.started
    words = {"reason": progress.pod_reason, "message": progress.pod_message}
    init, main = pod.spec.init_containers or (), pod.spec.containers or ()
    return {
        "phase": progress.phase,
        **{name: text for name, text in words.items() if text},
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "podIP": progress.address,
        "podIPs": [{"ip": progress.address}],
        "startTime": _time(started),
        "conditions": _conditions(progress, started),
        "initContainerStatuses": [*map(_container_status, init, progress.init_containers)],
        "containerStatuses": [*map(_container_status, main, progress.containers)],
    }


def _conditions(progress: PodProgress, started: datetime) -> list[dict[str, Any]]:
    phase, at = progress.phase, progress.finished or progress.started
    alive = phase in (PodPhase.PENDING, PodPhase.RUNNING)
    initialized = all(state.succeeded for state in progress.init_containers)
    ready = alive and initialized and all(state.running for state in progress.containers)
    ended = {PodPhase.SUCCEEDED: "PodCompleted", PodPhase.FAILED: "PodFailed"}.get(phase)
    unready = ended or (None if ready else "ContainersNotReady")
    done = ended if phase is PodPhase.SUCCEEDED else None
    rows = [
        ("PodReadyToStartContainers", alive, None, at),
        ("Initialized", initialized, done if initialized else "ContainersNotInitialized", started),
        ("Ready", ready, unready, at),
        ("ContainersReady", ready, unready, at),
        ("PodScheduled", True, None, started),
    ]
    if progress.disrupted:
        rows.append(("DisruptionTarget", True, "EvictionByEvictionAPI", at))
    return [
        {"type": kind, "status": str(holds), "lastTransitionTime": _time(since)}
        | ({"reason": reason} if reason else {})
        for kind, holds, reason, since in rows
    ]


def _container_status(container: Container, state: ContainerProgress) -> dict[str, Any]:
    return {
        **{"name": container.name, "image": container.image, "imageID": ""},
        **dict.fromkeys(("ready", "started"), state.running),
        "restartCount": state.restarts,
        "state": _state(state),
        **({"lastState": _state(state.last)} if state.last else {}),
    }


def _state(state: ContainerProgress) -> dict[str, Any]:
    message = {"message": state.message} if state.message else {}
    if state.started is None:
        return {"waiting": {"reason": state.reason or "ContainerCreating", **message}}
    if state.finished is None:
        return {"running": {"startedAt": _time(state.started)}}
    times = {"startedAt": _time(state.started), "finishedAt": _time(state.finished)}
    reason = state.reason or ("Error" if state.exit_code else "Completed")
    return {"terminated": {"exitCode": state.exit_code, "reason": reason, **message, **times}}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Report = Callable[[PodProgress], Awaitable[None]]
ReadSource = Callable[[str, Source], Awaitable[Data | None]]
"""Returns the data of a Secret, a ConfigMap or a volume claim in a namespace; None if there is
none."""


async def _no_source(namespace: str, source: Source) -> Data | None:
    return None


@dataclass(frozen=True, slots=True)
class Assignment:
    job: Vcjob
    pod: Pod
    started: datetime
    """Start of the pod; in whole seconds if an earlier process started it."""
    job_started: datetime
    """Start of the vcjob's first pod since its last restart."""
    read: ReadSource = _no_source


class Runner(Protocol):
    graceful: bool
    """Whether pods are deleted with their grace period, during which `end` is awaited."""

    def faults(self, job: Vcjob) -> Sequence[str]:
        """Return why this vcjob cannot run at all, in sentences for its user."""

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Run a pod to its end, or continue it from its status. Cancelled when the pod is deleted
        or the sandbox exits. It may return early: the pod then stays in its phase."""

    async def end(self, pod: Pod) -> None:
        """End a pod that is being deleted; return when nothing of it runs."""

    def log(self, pod_uid: str, container: str, run: int) -> ContainerLog | None:
        """Return the log of a run, from 0, of a pod's container; None if it has none."""
