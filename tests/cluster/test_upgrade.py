"""An upgrade from an earlier version and the rollback to it, while flows run, on a real API server.

`support/cluster/flows_in_flight.py` has the flows and what holds after each change.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.cluster.completing_driver import driven
from support.cluster.definitions import put_definitions
from support.cluster.earlier_version import EarlierVersion, earlier_version
from support.cluster.flows_in_flight import FLOWS, TEMPLATES
from support.cluster.in_flight import InFlight, Life, Stage
from support.cluster.real_cluster import CRDS as OURS
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EARLIER = "c8fda79c0059c03cfd6c03c0e2f04a065147d59c"
"""The version before this one."""


@pytest.fixture
def definitions(real: RealCluster) -> Iterator[Callable[[Path], None]]:
    """A function that replaces all definitions of JobFlow by those of a folder."""
    yield partial(put_definitions, real)
    put_definitions(real, OURS)


@pytest.fixture(scope="module")
def earlier() -> EarlierVersion:
    found = earlier_version(EARLIER)
    if found is None:
        pytest.skip(f"this clone lacks commit {EARLIER[:8]}")
    return found


class Change:
    """Two replicas of different versions, and the change from one to the other and back."""

    def __init__(self, real: RealCluster, api: Server, home: Path, earlier: EarlierVersion) -> None:
        flags = ("--system-namespace", api.namespace, "--shutdown-delay=0s")
        self.old = Served(real, home, *flags, webhook=False, program=earlier.program)
        self.new = Served(real, home, *flags, user="jobflow-2", webhook=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the old one at first; at the end, one of both."""
        try:
            self.old.start()
            yield
        finally:
            for replica in (self.old, self.new):
                if replica.is_running:
                    replica.kill()

    async def to(self, replica: Served, *, then: Callable[[], None] = lambda: None) -> None:
        """Replace the other replica by this one, as a Deployment does; call `then` once it runs."""
        replica.launch()
        await until(lambda: replica.waiting_for() is not None)
        await asyncio.to_thread(then)
        await until(replica.ready)
        await asyncio.to_thread((self.new if replica is self.old else self.old).stop)
        await until(lambda: replica.metric("leader") == 1)


@pytest.mark.parametrize("definitions_first", [True, False], ids=["crds-first", "crds-last"])
async def test_flows_continue_after_an_upgrade_and_after_the_rollback(
    real: RealCluster,
    api: Server,
    tmp_path: Path,
    earlier: EarlierVersion,
    definitions: Callable[[Path], None],
    definitions_first: bool,
) -> None:
    change = Change(real, api, tmp_path, earlier)

    definitions(earlier.crds)
    async with driven(real, api.namespace) as driver:
        driver.completes = False
        for each in TEMPLATES:
            await api.create(api.templates, each)
        lives = [Life(api, driver, each) for each in FLOWS]

        async def play(stages: Callable[[InFlight], Sequence[Stage]]) -> None:
            await asyncio.gather(*(life.live(stages(life.flow)) for life in lives))

        for life in lives:
            if life.flow.taken_over is not None:
                await life.create()
        with change.running():
            await play(lambda each: each.before)
            if definitions_first:
                definitions(OURS)
                await change.to(change.new)
            else:
                await change.to(change.new, then=lambda: definitions(OURS))
            await play(lambda each: each.upgraded)
            if definitions_first:
                definitions(earlier.crds)
            await change.to(change.old)
            await play(lambda each: each.rolled_back)
    created = real.audit.created("jobs", api.namespace)
    assert created.keys() == driver.uids.keys()
    assert set(created.values()) == {1}, "a job was created twice"
    assert {len(uids) for uids in driver.uids.values()} == {1}
