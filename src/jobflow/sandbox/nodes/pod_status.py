"""Status of a pod as a kubelet writes it, from a runner's progress report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobflow.api.pod import Container, Pod, PodPhase
from jobflow.sandbox.jobs.pods import ADDRESS


@dataclass(frozen=True, slots=True)
class ContainerProgress:
    """State of one container: waiting, running or ended."""

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
    def running(self) -> bool:
        return self.started is not None and self.finished is None

    @property
    def succeeded(self) -> bool:
        return self.finished is not None and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class PodProgress:
    """Progress of a pod, as a runner reports it."""

    phase: PodPhase
    started: datetime
    finished: datetime | None = None
    exit_code: int = 0
    message: str = ""
    containers: Sequence[ContainerProgress] = ()
    """State of each container; if empty, all of them follow the pod's phase."""
    init_containers: Sequence[ContainerProgress] = ()
    """State of each init container; if empty, all of them have succeeded."""
    address: str = ADDRESS
    pod_reason: str = ""
    pod_message: str = ""


def pod_status(pod: Pod, progress: PodProgress) -> dict[str, Any]:
    """Return `status` as a kubelet writes it, as a merge patch."""
    init = [*(pod.spec.init_containers or ())]
    containers = [*(pod.spec.containers or ())]
    started = pod.status.start_time or progress.started
    before = progress.init_containers or [_succeeded(progress.started)] * len(init)
    now = progress.containers or _alike(progress, len(containers))
    initialized = all(standing.succeeded for standing in before)
    words = {"reason": progress.pod_reason, "message": progress.pod_message}
    return {
        "phase": progress.phase,
        **{name: text for name, text in words.items() if text},
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "podIP": progress.address,
        "podIPs": [{"ip": progress.address}],
        "startTime": _time(started),
        "conditions": _conditions(progress, now, initialized, started),
        "initContainerStatuses": [
            _container_status(container, standing)
            for container, standing in zip(init, before, strict=True)
        ],
        "containerStatuses": [
            _container_status(container, standing)
            for container, standing in zip(containers, now, strict=True)
        ],
    }


def _succeeded(at: datetime) -> ContainerProgress:
    return ContainerProgress(started=at, finished=at)


def _alike(progress: PodProgress, count: int) -> list[ContainerProgress]:
    ended = progress.phase is not PodPhase.RUNNING
    finished = (progress.finished or progress.started) if ended else None
    return [
        ContainerProgress(progress.started, finished, progress.exit_code, message=message)
        for message in [progress.message, *[""] * count][:count]
    ]


def _conditions(
    progress: PodProgress,
    containers: Sequence[ContainerProgress],
    initialized: bool,
    started: datetime,
) -> list[dict[str, Any]]:
    phase, at = progress.phase, progress.finished or progress.started
    alive = phase in (PodPhase.PENDING, PodPhase.RUNNING)
    ready = alive and initialized and all(standing.running for standing in containers)
    over = {PodPhase.SUCCEEDED: "PodCompleted", PodPhase.FAILED: "PodFailed"}.get(phase)
    unready = over or (None if ready else "ContainersNotReady")
    done = over if phase is PodPhase.SUCCEEDED else None
    rows = [
        ("PodReadyToStartContainers", alive, None, at),
        ("Initialized", initialized, done if initialized else "ContainersNotInitialized", started),
        ("Ready", ready, unready, at),
        ("ContainersReady", ready, unready, at),
        ("PodScheduled", True, None, started),
    ]
    return [
        {
            "type": kind,
            "status": str(holds),
            **({"reason": reason} if reason else {}),
            "lastTransitionTime": _time(since),
        }
        for kind, holds, reason, since in rows
    ]


def _container_status(container: Container, standing: ContainerProgress) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": standing.running,
        "started": standing.running,
        "restartCount": standing.restarts,
        "state": _state(standing),
        **({"lastState": _state(standing.last)} if standing.last else {}),
    }


def _state(standing: ContainerProgress) -> dict[str, Any]:
    message = {"message": standing.message} if standing.message else {}
    if standing.started is None:
        return {"waiting": {"reason": standing.reason or "ContainerCreating", **message}}
    if standing.finished is None:
        return {"running": {"startedAt": _time(standing.started)}}
    return {
        "terminated": {
            "exitCode": standing.exit_code,
            "reason": standing.reason or ("Error" if standing.exit_code else "Completed"),
            **message,
            "startedAt": _time(standing.started),
            "finishedAt": _time(standing.finished),
        }
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
