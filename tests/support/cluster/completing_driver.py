"""A driver for many flows on a real API server that completes each job as soon as it exists.

It uses the API server directly, without the proxies that tests put before `jobflow serve`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.api.volcano.job import Job
from jobflow.kube.cache import Cache
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from support.cluster.real_cluster import RealCluster
from support.sandbox.manifests import DIAMOND, jobflow, template
from support.sandbox.running_controller import set_phase
from support.sandbox.servers import Server
from support.time.alongside import alongside

AGAIN_SECONDS = 0.1
WITHIN_SECONDS = 60


class Driven:
    """The flows and jobs of one namespace from a watch. Completes the jobs."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.flows = Cache[JobFlow](lambda old, new: self._notify())
        self.jobs = Cache[Job](self._job_changed)
        self.completes = True
        """Whether new jobs are completed."""
        self.uids: dict[str, set[str]] = {}
        """The UIDs of all jobs that ever had a name."""
        self._client = client
        self.namespace = namespace
        self._changed = asyncio.Event()
        self._started: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Complete jobs until cancelled."""
        fast = ExponentialBackoff(first=0.001, most=0.2)
        namespace = self.namespace
        async with asyncio.TaskGroup() as self._tasks:
            for follow in (
                Reflector(self._client, JOBFLOWS, JobFlow, self.flows, namespace=namespace),
                Reflector(self._client, JOBS, Job, self.jobs, namespace=namespace, backoff=fast),
            ):
                self._tasks.create_task(follow.run())

    async def until(self, holds: Callable[[], bool], *, seconds: float = WITHIN_SECONDS) -> None:
        """Return as soon as the condition holds, which is checked after every event."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never came true: flows {self.phases}") from None

    async def until_ended(self, flows: int) -> None:
        """Return when this number of flows is final."""
        await self.until(lambda: sum(flow.final for flow in self.flows) == flows)

    @property
    def phases(self) -> Mapping[str, int]:
        """Return the number of flows by phase."""
        return Counter(flow.status.state.phase or "new" for flow in self.flows)

    def _notify(self) -> None:
        self._changed.set()

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        self._notify()
        if new is not None:
            self.uids.setdefault(new.metadata.name, set()).add(new.metadata.uid)
        if new is None or new.status.state.phase or not self.completes:
            return
        if new.metadata.uid in self._started:
            return
        self._started.add(new.metadata.uid)
        assert self._tasks is not None
        self._tasks.create_task(self._complete(new.metadata.name))

    async def _complete(self, name: str) -> None:
        while True:
            try:
                await set_phase(self._client, name, "Completed", namespace=self.namespace)
                return
            except ApiError as error:
                if error.not_found:
                    return
            except NETWORK_ERRORS:
                pass  # the test has stopped the API server
            await asyncio.sleep(AGAIN_SECONDS)


@asynccontextmanager
async def driven(real: RealCluster, namespace: str) -> AsyncIterator[Driven]:
    """Complete the jobs of the namespace while the body runs."""
    async with await real.client() as client:
        driver = Driven(client, namespace)
        async with alongside(driver.run()):
            yield driver


async def create_diamonds(api: Server, count: int, *, first: int = 0) -> None:
    """Create `count` flows of five steps at once, with numbers from `first`."""
    for step in () if first else DIAMOND:
        await api.create(api.templates, template(step))
    many = (api.create(api.flows, jobflow(name, DIAMOND)) for name in names(first + count)[first:])
    await asyncio.gather(*many)


def names(count: int) -> list[str]:
    return [f"f{number}" for number in range(count)]


def assert_created_once(
    real: RealCluster, driver: Driven, flows: int, *, all_logged: bool = True
) -> None:
    """Check that every job of the diamonds was created once, although requests were broken off.

    A create whose client died may be an error in the audit log (504, 500) although it succeeded, so
    the UIDs from the watch are checked too. `all_logged`: the API server was not killed while it
    wrote its log.
    """
    expected = all_jobs(flows)
    assert {name: len(uids) for name, uids in driver.uids.items()} == expected
    asked = real.audit.asked(driver.namespace)
    creates = [call for call in asked if (call.verb, call.resource) == ("create", "jobs")]
    created = Counter(call.name for call in creates if call.code == 201)
    assert not [name for name, times in created.items() if times > 1]
    broken_off = {call.name for call in creates if call.code >= 500}
    assert expected.keys() - created.keys() <= broken_off or not all_logged
    assert not [call for call in asked if call.verb == "delete" and call.resource == "jobs"]


def all_jobs(count: int) -> dict[str, int]:
    """Return the names of the jobs of the diamonds."""
    return {f"{name}-{step}": 1 for name in names(count) for step in DIAMOND}


def writes_per_flow(real: RealCluster, namespace: str, flows: int) -> dict[str, float]:
    """Return the number of writes of the replicas for each flow."""
    writes: Counter[str] = Counter()
    for user in ("jobflow", "jobflow-2"):
        writes += real.audit.writes(namespace, user=user)
    return {write: count / flows for write, count in sorted(writes.items())}
