"""How many flows or jobs hold places at once, from a watch of every version of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBS, Resource
from jobflow.api.volcano.job import Job
from jobflow.core.spec.concurrency import holds_place
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from support.time.alongside import alongside


class PlacesHeld:
    """The objects that hold a place, and the most that ever did."""

    def __init__(self, holds: Callable[[Any], bool]) -> None:
        self.started: list[str] = []
        """Names in the order of their start; a flow that was retried is named again."""
        self.most = 0
        self._holds = holds
        self._holders: set[str] = set()

    def changed(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        if new is None or not self._holds(new):
            self._holders.discard(name)
        elif name not in self._holders:
            self._holders.add(name)
            self.started.append(name)
            self.most = max(self.most, len(self._holders))


def places_held(client: Client, namespace: str) -> AbstractAsyncContextManager[PlacesHeld]:
    """Follow the flows of a namespace while the body runs."""
    return _followed(client, namespace, JOBFLOWS, JobFlow, holds_place)


def step_places_held(client: Client, namespace: str) -> AbstractAsyncContextManager[PlacesHeld]:
    """Follow the flows of a namespace, whose steps hold places, while the body runs."""

    def holds(flow: JobFlow) -> bool:
        return any(place.job for place in flow.status.places or ())

    return _followed(client, namespace, JOBFLOWS, JobFlow, holds)


def jobs_held(
    client: Client, namespace: str, ending: str = ""
) -> AbstractAsyncContextManager[PlacesHeld]:
    """Follow the vcjobs of a namespace whose names end so while the body runs."""

    def holds(job: Job) -> bool:
        return job.metadata.name.endswith(ending) and not job.ended

    return _followed(client, namespace, JOBS, Job, holds)


@asynccontextmanager
async def _followed(
    client: Client,
    namespace: str,
    resource: Resource,
    kind: type[Any],
    holds: Callable[[Any], bool],
) -> AsyncIterator[PlacesHeld]:
    held = PlacesHeld(holds)
    cache = Cache[Any](held.changed)
    fast = ExponentialBackoff(first=0.001, most=0.2)
    reflector = Reflector(client, resource, kind, cache, namespace=namespace, backoff=fast)
    async with alongside(reflector.run()):
        yield held
