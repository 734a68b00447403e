"""`v1` Pod: the owner, the phase and the ends of containers, as far as JobFlow reads them."""

from datetime import datetime
from enum import StrEnum

import msgspec

from jobflow.api.resources import JOBS, ObjectMeta, Struct

JOB_NAME = "volcano.sh/job-name"
"""The name of the vcjob: label and annotation of its pods."""
TASK = "volcano.sh/task-spec"
"""The name of the task: label and annotation of its pods."""
TASK_INDEX = "volcano.sh/task-index"
"""The index of a pod in its task, from 0: label."""


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ENDED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class Terminated(Struct):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    """Error, OOMKilled, Completed, ContainerCannotRun …"""
    message: str = ""
    """The termination message; the kubelet keeps 4 KiB a container."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerWaiting(Struct):
    """Why a container does not run yet: ImagePullBackOff, CrashLoopBackOff …"""

    reason: str = ""
    message: str = ""


class ContainerState(Struct):
    """Empty if the container has not started or runs."""

    waiting: ContainerWaiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodCondition(Struct):
    type: str = ""
    """PodScheduled, Ready …"""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Struct):
    phase: str = ""
    conditions: list[PodCondition] | None = None
    reason: str = ""
    """The reason for the pod's phase: Evicted, DeadlineExceeded …"""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Container(Struct):
    name: str = ""
    image: str = ""


class PodSpec(Struct):
    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class Pod(Struct):
    """A pod of a vcjob."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def owner(self) -> str:
        """The UID of the vcjob that controls the pod, or ""."""
        owner = self.metadata.controller
        if owner is None or owner.kind != JOBS.kind or owner.api_version != JOBS.api_version:
            return ""
        return owner.uid

    @property
    def phase(self) -> str:
        """`status.phase`; an empty phase counts as Pending."""
        return self.status.phase or PodPhase.PENDING

    @property
    def ended(self) -> bool:
        return self.status.phase in ENDED_POD_PHASES

    @property
    def unscheduled(self) -> PodCondition | None:
        """The condition that says why the pod has no node yet; None without one."""
        found = (each for each in self.status.conditions or () if each.type == "PodScheduled")
        return next((each for each in found if each.status == "False"), None)

    @property
    def containers(self) -> list[ContainerStatus]:
        """The statuses of its init containers, then of its other containers."""
        status = self.status
        return [*(status.init_container_statuses or ()), *(status.container_statuses or ())]

    @property
    def task(self) -> str:
        """The name of the pod's task, or ""."""
        meta = self.metadata
        return (meta.labels or {}).get(TASK) or (meta.annotations or {}).get(TASK, "")

    @property
    def index(self) -> int:
        """The pod's index in its task, from its label or else from its name; by default 0."""
        text = (self.metadata.labels or {}).get(TASK_INDEX) or self.metadata.name.rpartition("-")[2]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
