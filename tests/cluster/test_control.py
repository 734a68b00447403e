"""The big example, and a flow that reuses another one, on a real API server: the controller is
killed before and after every write and started again. Each time the flow ends the same, and no job
is created twice.

Each flow has its own namespace, controller and crash point. Many of them run at once. Their jobs
end as soon as they are seen (`fast_volcano`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import yaml

from jobflow.kube.client import Client
from support.cluster.real_cluster import RealCluster
from support.paths import ROOT
from support.sandbox.crash_restart import Lives, Tale, lives
from support.sandbox.crashing_requests import Dying, Point, Reusing
from support.sandbox.reusing_lives import check_reuse, create, lives_of_reuse

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "examples" / "hyperparameter-search.yaml"
AT_ONCE = 12
WITHIN_SECONDS = 120.0
C = TypeVar("C", bound=Client)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_the_big_example_ends_the_same_after_every_crash(
    real: RealCluster, after: bool
) -> None:
    without_crash = await run_tale(real, Point(-1, after))
    expected = without_crash.end
    assert expected.state["phase"] == "Succeed"
    assert set(expected.jobs.values()) == {1}
    points = [Point(number, after) for number in range(len(without_crash.written))]
    slots = asyncio.Semaphore(AT_ONCE)
    results = await asyncio.gather(*(_within(slots, run_tale(real, point)) for point in points))
    for point, result in zip(points, results, strict=True):
        assert result.end == expected, f"dead {point}: {result.written[point.number :]}"
    reached = sum(result.reached for result in results)
    assert reached > 0.9 * len(points) > 30, "the points ran out early"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_flow_reuses_each_result_once_after_every_crash(
    real: RealCluster, after: bool
) -> None:
    without_crash = await run_reusing(real, Point(-1, after))
    check_reuse(without_crash)
    points = [Point(number, after) for number in range(len(without_crash.written))]
    slots = asyncio.Semaphore(AT_ONCE)
    results = await asyncio.gather(*(_within(slots, run_reusing(real, point)) for point in points))
    for point, result in zip(points, results, strict=True):
        assert result.end == without_crash.end, f"dead {point}: {result.written[point.number :]}"
    assert sum(result.reached for result in results) > 0.9 * len(points) > 8


async def run_reusing(real: RealCluster, point: Point) -> Lives:
    namespace = await asyncio.to_thread(real.new_namespace, "reuse")
    connect, others = as_user(real, Reusing, "jobflow"), as_user(real, Client, "admin")
    return await lives_of_reuse(connect, namespace, point, others=others, within=WITHIN_SECONDS)


async def _within(slots: asyncio.Semaphore, work: Awaitable[Lives]) -> Lives:
    async with slots:
        return await work


async def run_tale(real: RealCluster, point: Point) -> Lives:
    namespace = await asyncio.to_thread(real.new_namespace, "control")
    tale = Tale(list(yaml.safe_load_all(EXAMPLE.read_text())))
    async with await as_user(real, Client, "admin")() as admin:
        for manifest in tale.objects:
            await create(admin, namespace, manifest)
    return await lives(
        as_user(real, Dying, "jobflow"),
        namespace,
        tale,
        point,
        others=as_user(real, Client, "admin"),
        within=WITHIN_SECONDS,
    )


def as_user(real: RealCluster, kind: type[C], user: str) -> Callable[[], Awaitable[C]]:
    kubeconfig = str(real.plane.kubeconfig(user))

    async def connect() -> C:
        return await kind.from_kubeconfig(kubeconfig)

    return connect
