"""The big example, and a flow that reuses another one, on a real API server: the controller is
killed before and after every write and started again. Each time the flow ends the same, and no job
is created twice.

Each flow has its own namespace, controller and crash point. Many of them run at once. Their jobs
end as soon as they are seen (`fast_volcano`).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
import yaml

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.kube.client import Client
from support.cluster.real_cluster import RealCluster
from support.paths import ROOT
from support.sandbox.crash_restart import Lives, Tale, lives
from support.sandbox.crashing_requests import Dying, Point, Reusing
from support.sandbox.manifests import jobflow, template

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "examples" / "hyperparameter-search.yaml"
AT_ONCE = 12
WITHIN_SECONDS = 120.0
C = TypeVar("C", bound=Client)
KINDS = {"JobFlow": JOBFLOWS, "JobTemplate": JOBTEMPLATES}


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


EARLIER = jobflow("e", {"a": [], "c": ["a"], "d": ["c"]})
EARLIER["spec"]["flows"] += [
    {"name": "b", "template": "a", "dependsOn": {"targets": ["a"]}, "forEach": {"count": 2}},
    {
        "name": "s",
        "dependsOn": {"targets": ["b"]},
        "flow": {
            "flows": [
                {"name": "p", "template": "a"},
                {"name": "q", "template": "a", "dependsOn": {"targets": ["p"]}},
            ]
        },
    },
]
MENDED = {
    **EARLIER,
    "metadata": {"name": "f"},
    "spec": {
        "reuse": {"flow": "e"},
        "flows": [
            {**step, "env": {"SEED": "2"}} if step["name"] == "c" else step
            for step in EARLIER["spec"]["flows"]
        ],
    },
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_flow_reuses_each_result_once_after_every_crash(
    real: RealCluster, after: bool
) -> None:
    """Step c has changed, so that it runs again, and d after it."""
    without_crash = await run_reusing(real, Point(-1, after))
    expected = without_crash.end
    reasons = {key: condition.get("reason", "") for key, condition in expected.steps.items()}
    assert reasons == {"f-a": "Reused", "f-b": "Reused", "f-c": "", "f-d": "", "f-s": ""}
    made = {name: count for name, count in expected.jobs.items() if name.startswith("f-")}
    assert made == {"f-c": 1, "f-d": 1}
    points = [Point(number, after) for number in range(len(without_crash.written))]
    slots = asyncio.Semaphore(AT_ONCE)
    results = await asyncio.gather(*(_within(slots, run_reusing(real, point)) for point in points))
    for point, result in zip(points, results, strict=True):
        assert result.end == expected, f"dead {point}: {result.written[point.number :]}"
    assert sum(result.reached for result in results) > 0.9 * len(points) > 8


async def run_reusing(real: RealCluster, point: Point) -> Lives:
    """Run the earlier flow to its end, then the one that reuses it, with a crash."""
    namespace = await asyncio.to_thread(real.new_namespace, "reuse")
    connect, others = as_user(real, Reusing, "jobflow"), as_user(real, Client, "admin")
    clients = list[Reusing]()

    async def noted() -> Dying:
        clients.append(await connect())
        return clients[-1]

    async with await others() as admin:
        for manifest in (*map(template, "acd"), EARLIER):
            await create(admin, namespace, manifest)
        never, earlier = Point(-1, after=False), Tale([], flow="e")
        await lives(connect, namespace, earlier, never, others=others, within=WITHIN_SECONDS)
        await create(admin, namespace, MENDED)
    result = await lives(
        noted, namespace, Tale([], flow="f"), point, others=others, within=WITHIN_SECONDS
    )
    assert not any(client.too_early for client in clients), point
    return result


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


async def create(client: Client, namespace: str, manifest: Mapping[str, Any]) -> None:
    await client.create(KINDS[manifest["kind"]], namespace, json.dumps(manifest).encode())


def as_user(real: RealCluster, kind: type[C], user: str) -> Callable[[], Awaitable[C]]:
    kubeconfig = str(real.plane.kubeconfig(user))

    async def connect() -> C:
        return await kind.from_kubeconfig(kubeconfig)

    return connect
