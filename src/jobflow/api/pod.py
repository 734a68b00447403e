"""`v1` Pod, as far as JobFlow reads it: whose it is, where it stands, how its containers ended."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.resources import JOBS

JOB_NAME = "volcano.sh/job-name"
"""Label and annotation of every pod of a vcjob: the vcjob's name."""
TASK = "volcano.sh/task-spec"
"""The same: the task's name."""
TASK_INDEX = "volcano.sh/task-index"
"""Label: which pod of its task it is, from 0."""


class PodPhase(StrEnum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ENDED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class Terminated(Struct, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    """Error, OOMKilled, Completed, ContainerCannotRun …"""
    message: str = ""
    """The termination message; the kubelet keeps 4 KiB a container."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerWaiting(Struct, frozen=True, kw_only=True):
    """Why a container does not run yet: ImagePullBackOff, CrashLoopBackOff …"""

    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True, kw_only=True):
    """Where a container stands; nothing set: it has not begun, or runs."""

    waiting: ContainerWaiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True):
    """One container of a pod's status."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(Struct, frozen=True, kw_only=True):
    """What is read of a pod's status."""

    phase: str = ""
    reason: str = ""
    """Why the whole pod is in its phase: Evicted, DeadlineExceeded …"""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Container(Struct, frozen=True, kw_only=True):
    """A container of a pod's spec."""

    name: str = ""
    image: str = ""


class PodSpec(Struct, frozen=True, kw_only=True):
    """What is read of a pod's spec."""

    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class Pod(Struct, frozen=True, kw_only=True):
    """A pod of a vcjob."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def owner(self) -> str:
        """The UID of the vcjob that controls it; empty for a pod of anything else."""
        owner = self.metadata.controller
        if owner is None or owner.kind != JOBS.kind or owner.api_version != JOBS.api_version:
            return ""
        return owner.uid

    @property
    def phase(self) -> str:
        """`status.phase`; a pod without one is Pending."""
        return self.status.phase or PodPhase.PENDING

    @property
    def ended(self) -> bool:
        """Whether none of its containers will run again."""
        return self.status.phase in ENDED_POD_PHASES

    @property
    def task(self) -> str:
        """The name of its task; empty where nothing says it."""
        meta = self.metadata
        return (meta.labels or {}).get(TASK) or (meta.annotations or {}).get(TASK, "")

    @property
    def index(self) -> int:
        """Which pod of its task it is, from 0: by its label, else by the end of its name; 0 where
        neither says."""
        text = (self.metadata.labels or {}).get(TASK_INDEX) or self.metadata.name.rpartition("-")[2]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


class PodList(Struct, frozen=True, kw_only=True):
    """A page of pods."""

    items: list[Pod] = []
