"""What `plan` may look at and what it may ask for: values only, carried out elsewhere.

A plan never waits for its own status. What is irreversible (a delete) is planned only when the
status that was read already holds its reason; so `apply` may carry out the actions of one plan in
any order and together with its status write, and a crash between any two of them loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from jobflow.api.flow_status import JobFlowStatus


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition for creating a further attempt. It is read live just before the create."""

    uid: str
    """The flow has this UID and has not changed since the plan was made."""
    gone: str = ""
    """No vcjob of the flow has this name; "" if the latest attempt was seen to end."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create this vcjob."""

    step: str
    name: str
    manifest: Mapping[str, Any]
    """The whole object, ready to send."""
    guard: Guard | None = None
    """None for a first attempt: its name alone prevents a second vcjob."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this vcjob, if it still is the one with this UID; gone already is success."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read the flow and this vcjob live; the answer is in the next View."""

    name: str


@dataclass(frozen=True, slots=True)
class AbortJob:
    """Make a Command that has Volcano abort this vcjob; one that is there still will do."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteCommand:
    """Delete this Command, if it still is the one with this UID; gone already is success."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteFlow:
    """Delete the flow itself, if it still is as it was read; its vcjobs go with it."""

    uid: str


@dataclass(frozen=True, slots=True)
class ReadPods:
    """List the pods of this vcjob live: the answer is in the next View."""

    job: str
    uid: str


Action = CreateJob | DeleteJob | ReadJob | AbortJob | DeleteCommand | DeleteFlow | ReadPods


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of a probe: a request that every pod of a task has to answer."""

    task: str
    pods: int
    """How many the task has: its replicas."""
    port: int
    path: str | None = None
    """None: a connection is enough (tcpSocketList). Else an HTTP GET has to be answered by 2xx or
    3xx (httpGetList)."""
    header: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to be checked on a vcjob's pods for as long as plans say so."""

    step: str
    """The step that waits."""
    job: str
    uid: str
    """Of the target's vcjob."""
    checks: tuple[Check, ...]
    """All have to pass, in one round."""


class EventType(StrEnum):
    """`type` of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell the user by an Event on the flow."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now about one flow."""

    actions: tuple[Action, ...]
    status: JobFlowStatus
    """The whole status to be; the same as the flow's when there is nothing to write."""
    urgent: bool = False
    """Whether the status has to be written at once: the flow's phase changed, or what comes next
    waits for it. Otherwise writes may be coalesced to one a second."""
    events: tuple[Event, ...] = ()
    """What is worth telling of the way from the flow's status to `status`: to be sent once, when
    that status is written. Until it is, every plan tells it again."""
    requeue_after: timedelta | None = None
    """When to plan again although nothing happened, always later than now; None: not by time."""
    probes: tuple[Probe, ...] = ()
    """What is to be probed until the next plan; what is no longer among them is not. They are no
    actions: carrying them out changes nothing."""
