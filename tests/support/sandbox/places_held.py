"""How many flows of a concurrency group run at once, from a watch of every version of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.core.spec.concurrency import holds_place
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from support.time.alongside import alongside


class PlacesHeld:
    """The flows that hold a place, and the most that ever did."""

    def __init__(self) -> None:
        self.started: list[str] = []
        """Names in the order of their start; one that was retried is named again."""
        self.most = 0
        self._holders: set[str] = set()

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        assert flow is not None
        name = flow.metadata.name
        if new is None or not holds_place(new):
            self._holders.discard(name)
        elif name not in self._holders:
            self._holders.add(name)
            self.started.append(name)
            self.most = max(self.most, len(self._holders))


@asynccontextmanager
async def places_held(client: Client, namespace: str) -> AsyncIterator[PlacesHeld]:
    """Follow the flows of a namespace while the body runs."""
    held = PlacesHeld()
    cache = Cache[JobFlow](held.flow_changed)
    fast = ExponentialBackoff(first=0.001, most=0.2)
    reflector = Reflector(client, JOBFLOWS, JobFlow, cache, namespace=namespace, backoff=fast)
    async with alongside(reflector.run()):
        yield held
