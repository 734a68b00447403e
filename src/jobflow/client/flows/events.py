"""Events of Kubernetes about an object."""

from datetime import datetime

import msgspec

from jobflow.api.resources import EVENTS, ObjectMeta, Struct
from jobflow.kube.answers import ItemList
from jobflow.kube.client import Client


class InvolvedObject(Struct):
    """The object that an event is about: a Job, a PodGroup or a Pod."""

    kind: str = ""
    name: str = ""


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
