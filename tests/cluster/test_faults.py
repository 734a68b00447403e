"""An API server that is down, or refuses or breaks requests: flows still end, no job runs twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from jobflow.api.resources import JOBS
from support.cluster.completing_driver import Driven, assert_created_once, create_diamonds, driven
from support.cluster.control_plane import API_SERVER
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.network.faulty_proxy import (
    EndWatch,
    ErrorFrame,
    Fault,
    FaultyProxy,
    Refuse,
    in_bursts,
    is_list,
)
from support.network.faulty_proxy import is_watch as watches
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

FLOWS = 10
DOWN_SECONDS = 20.0

PASS: Callable[[], Fault] = lambda: None  # noqa: E731 - a row of a table
GONE = Refuse(410, "Expired", "too old resource version: 1 (2)")
INITIALIZING = Refuse(429, "TooManyRequests", "storage is (re)initializing", retry_after=1)


@pytest_asyncio.fixture
async def proxy(real: RealCluster) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(real.plane) as proxy:
        yield proxy


class ProxiedReplica:
    """A replica that reaches the API server only through the proxy."""

    def __init__(self, real: RealCluster, proxy: FaultyProxy, home: Path) -> None:
        kubeconfig = real.plane.kubeconfig("jobflow", through=proxy.url)
        self._proxy = proxy
        self.serve = Served(real, home, webhook=False, kubeconfig=kubeconfig)

    @asynccontextmanager
    async def running(self, *, ready: bool = True) -> AsyncIterator[Served]:
        """Run a replica, which is `ready` at the start, and stop it with a proxy that no longer
        fails."""
        self.serve.launch()
        try:
            if ready:
                await until(self.serve.ready)
            yield self.serve
        except BaseException:
            await asyncio.to_thread(self.serve.kill)
            raise
        self._proxy.heal()
        await asyncio.to_thread(self.serve.stop)


@pytest.fixture
def replica(real: RealCluster, proxy: FaultyProxy, tmp_path: Path) -> ProxiedReplica:
    return ProxiedReplica(real, proxy, tmp_path)


async def all_succeed(
    real: RealCluster, driver: Driven, flows: int = FLOWS, *, all_logged: bool = True
) -> None:
    await driver.until_ended(flows)
    assert driver.phases == {"Succeed": flows}
    await asyncio.to_thread(assert_created_once, real, driver, flows, all_logged=all_logged)


# ---------------------------------------------------------------------- downtime


async def test_a_replica_waits_for_an_api_server_that_is_down(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    serve = Served(real, tmp_path, webhook=False)
    await create_diamonds(api, FLOWS)
    await asyncio.to_thread(real.plane.end, API_SERVER)
    try:
        serve.launch()
        await until(lambda: "the connection was refused" in " ".join(serve.waiting_for() or ()))
        clauses = serve.waiting_for()
        assert clauses is not None
        assert any(clause.startswith("the API server to list jobflows: ") for clause in clauses)
        assert serve.get("/healthz").status_code == 200
        assert '"cannot follow"' in serve.log()
        await asyncio.to_thread(real.plane.start_api_server)
        await until(serve.ready)
        async with driven(real, api.namespace) as driver:
            await all_succeed(real, driver)
    finally:
        await asyncio.to_thread(serve.kill)
        if API_SERVER not in real.plane.processes:
            await asyncio.to_thread(real.plane.start_api_server)


async def test_flows_end_after_a_downtime_of_the_api_server(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    with Served(real, tmp_path, webhook=False).running():
        async with driven(real, api.namespace) as driver:
            await create_diamonds(api, FLOWS)
            await driver.until(lambda: len(driver.jobs) > FLOWS)
            await asyncio.to_thread(real.plane.end, API_SERVER, hard=True)
            try:
                assert driver.phases["Succeed"] < FLOWS, "ended too late"
                await asyncio.sleep(DOWN_SECONDS)
            finally:
                await asyncio.to_thread(real.plane.start_api_server)
            await all_succeed(real, driver, all_logged=False)


# ---------------------------------------------------------------------- refusals


BURSTS = {
    "429": [(20, PASS), (15, lambda: Refuse(429, "TooManyRequests", retry_after=1))],
    "500": [(20, PASS), (15, lambda: Refuse(500, "InternalError", "etcdserver: leader changed"))],
    "500, carried out": [
        (10, PASS),
        (5, lambda: Refuse(500, "InternalError", "etcdserver: timed out", executed=True)),
    ],
    "all of them": [
        (8, PASS),
        (4, lambda: Refuse(429, "TooManyRequests", retry_after=1)),
        (8, PASS),
        (4, lambda: Refuse(504, "Timeout", "context deadline exceeded", executed=True)),
        (8, PASS),
        (4, lambda: Refuse(503, "ServiceUnavailable", "apiserver is shutting down")),
    ],
}


def initializing(request: web.Request) -> Fault:
    """Refuse lists and watches as an API server does."""
    return INITIALIZING if is_list(request) or watches(request) else None


@pytest.mark.parametrize("kind", BURSTS)
async def test_flows_end_despite_bursts_of_errors(
    real: RealCluster, api: Server, proxy: FaultyProxy, replica: ProxiedReplica, kind: str
) -> None:
    async with replica.running(), driven(real, api.namespace) as driver:
        proxy.faults = in_bursts(*BURSTS[kind])
        await create_diamonds(api, FLOWS)
        await all_succeed(real, driver)
    assert proxy.faulted.total() >= 15, proxy.faulted


async def test_flows_end_despite_a_reinitialization_of_storage(
    real: RealCluster, api: Server, proxy: FaultyProxy, replica: ProxiedReplica
) -> None:
    """For a second or two after a definition changes, every watch ends and lists are refused. A
    refusal is not an empty list."""
    proxy.faults = initializing
    await create_diamonds(api, FLOWS)
    async with replica.running(ready=False) as serve, driven(real, api.namespace) as driver:
        await until(lambda: INITIALIZING.message in " ".join(serve.waiting_for() or ()))
        proxy.heal()
        await driver.until(lambda: len(driver.jobs) > FLOWS)
        proxy.faults, before = initializing, proxy.faulted.total()
        proxy.break_off_watches()
        await until(lambda: proxy.faulted.total() > before + 10)
        assert driver.phases["Succeed"] < FLOWS, "they had ended before"
        proxy.heal()
        await all_succeed(real, driver)


# ---------------------------------------------------------------------- broken watches


def end_watches(request: web.Request) -> Fault:
    """End every watch after a second: closed, or cut in the middle of a frame."""
    return EndWatch(1.0, cut=request.path.endswith(JOBS.plural)) if watches(request) else None


def expire_watches() -> Callable[[web.Request], Fault]:
    """Answer each watch that its version is too old, in turn with an answer and an event."""
    asked: Counter[str] = Counter()

    def fault(request: web.Request) -> Fault:
        if not watches(request):
            return None
        asked[request.path] += 1
        return GONE if asked[request.path] % 2 else ErrorFrame(GONE)

    return fault


async def test_flows_end_if_every_watch_ends_after_a_second(
    real: RealCluster, api: Server, proxy: FaultyProxy, replica: ProxiedReplica
) -> None:
    proxy.faults = end_watches
    flows = 0
    async with replica.running(), driven(real, api.namespace) as driver:
        while min(proxy.faulted["closed"], proxy.faulted["cut"]) <= 3:
            await create_diamonds(api, FLOWS, first=flows)
            flows += FLOWS
            await asyncio.sleep(1.0)
        await all_succeed(real, driver, flows)


async def test_flows_end_if_every_watch_is_answered_with_410(
    real: RealCluster, api: Server, proxy: FaultyProxy, replica: ProxiedReplica
) -> None:
    proxy.faults = expire_watches()
    async with replica.running(), driven(real, api.namespace) as driver:
        await create_diamonds(api, FLOWS)
        await all_succeed(real, driver)
    assert proxy.faulted["410"] > 5 and proxy.faulted["ERROR 410"] > 5, proxy.faulted
