"""PodGroup and Queue of `scheduling.volcano.sh/v1beta1`, as far as `jobflow why` reads them.

Source of the fields: volcano.sh/apis pkg/apis/scheduling/v1beta1/types.go.
"""

from enum import StrEnum

import msgspec

from jobflow.api.resources import ObjectMeta, Struct
from jobflow.api.volcano.pod import PodCondition

QUEUE_NAME = "volcano.sh/queue-name"
"""The queue of the vcjob: label of its pods."""

ResourceList = dict[str, str | int | float]
"""Quantities by the name of the resource, such as `nvidia.com/gpu`."""


class PodGroupPhase(StrEnum):
    """`status.phase` of a PodGroup that waits."""

    PENDING = "Pending"
    """Not admitted to its queue, so its pods do not exist yet."""
    INQUEUE = "Inqueue"
    """Admitted: its pods are created and scheduled."""


class QueueState(StrEnum):
    """`status.state` of a Queue that starts no jobs."""

    CLOSED = "Closed"
    CLOSING = "Closing"


class PodGroupSpec(Struct):
    min_member: int = 0
    """The number of pods that start together, or not at all."""
    queue: str = "default"
    min_resources: ResourceList | None = None
    """Requests of these pods."""


class PodGroupStatus(Struct):
    phase: str = ""
    conditions: list[PodCondition] | None = None
    """Results of scheduling cycles, of the types Unschedulable and Scheduled."""


class PodGroup(Struct):
    """The pods of a vcjob, which is its controller and has the same labels."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class QueueSpec(Struct):
    capability: ResourceList | None = None
    """The most that jobs of the queue may use."""
    deserved: ResourceList | None = None
    """The share of the queue when the cluster is full."""


class QueueStatus(Struct):
    state: str = ""
    allocated: ResourceList | None = None
    """Resources that jobs of the queue use now."""
    pending: int = 0
    """The number of PodGroups that are not admitted."""


class Queue(Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)
