"""Events of Kubernetes about an object."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from jobflow.api.resources import EVENTS, ObjectMeta, Struct
from jobflow.kube.answers import ItemList
from jobflow.kube.client import Client

_UNPLACED = "FailedScheduling"
_PULLED = frozenset({"Pulling", "Pulled", "Created", "Started"})
"""Reasons of the kubelet once a pod has its volumes and its network."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class InvolvedObject(Struct):
    """The object that an event is about: a Job, a PodGroup or a Pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)

    @property
    def time(self) -> datetime | None:
        """When it happened last."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp


async def list_events(client: Client, namespace: str, kind: str, name: str) -> list[Event]:
    """Return the Events about an object. Raises ApiError and NETWORK_ERRORS."""
    query = [("fieldSelector", f"involvedObject.kind={kind},involvedObject.name={name}")]
    pages = client.list(EVENTS, ItemList[Event], namespace=namespace, query=query)
    return [event async for page in pages for event in page.items or ()]


def find_warning(events: Iterable[Event]) -> str:
    """Return the last warning about a pod that has a node and has not started, such as
    `FailedMount: …`; "" without one, and if the kubelet has come further since."""
    ordered = sorted(events, key=lambda each: each.time or _LONG_AGO)
    # those of the scheduler are about the time before it had a node
    told = [each for each in ordered if each.type == "Warning" and each.reason != _UNPLACED]
    if not told or any(each.reason in _PULLED for each in ordered[ordered.index(told[-1]) :]):
        return ""
    return f"{told[-1].reason}: {told[-1].message}"
