"""Large flows continue at once: no step waits for a resync or for a second.

Many such waits in sequence would exceed the time limit of these flows.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest

from jobflow.api.flow.status import JobFlowStatus
from jobflow.controller.hooks import Hooks
from support.cluster.fast_volcano import play_volcano
from support.laws.effort_of_laws import THOROUGH
from support.sandbox.manifests import template
from support.sandbox.running_controller import Cluster, cluster, flow

pytestmark = pytest.mark.law

IN_A_ROW = 200 if THOROUGH else 50
ITEMS = 1000 if THOROUGH else IN_A_ROW
AT_ONCE = ITEMS // IN_A_ROW
CHAIN = 50
WITHIN_SECONDS = 0.9 * IN_A_ROW


@dataclass
class Result:
    status: JobFlowStatus
    retries: int
    requests: Counter[tuple[str, str]]
    """Requests of all clients by method and kind, with `/status`."""


TEMPLATES = (
    template("ok"),
    template("flaky", fail_attempts="1"),
    template("out", output='{"n": 1}'),
)


async def run_flow(*steps: dict[str, Any], **spec: Any) -> Result:
    retries = Mock(spec=Hooks)
    async with cluster() as world, play_volcano(world.client):
        await world.apply(*TEMPLATES)
        async with world.controller(hooks=retries):
            await world.apply(flow("f", {}, flows=[*steps], **spec))
            done = await world.ended("f", within=WITHIN_SECONDS)
        return Result(done.status, retries.retried.call_count, count_requests(world))


def count_requests(world: Cluster) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for seen in world.server.requests:
        parts = seen.path.strip("/").split("/")
        kind = next((p for p in parts if p in ("jobflows", "jobs", "pods", "events")), "")
        found[seen.method, f"{kind}/status" if parts[-1] == "status" else kind] += 1
    return found


def step(name: str, after: str = "", **more: Any) -> dict[str, Any]:
    depends_on = {"dependsOn": {"targets": after.split()}} if after else {}
    return {"name": name, "template": "ok", **depends_on, **more}


async def test_one_plan_skips_a_chain_of_steps() -> None:
    chain = [
        step("s0", when="false"),
        *(step(f"s{n}", f"s{n - 1}", when="true") for n in range(1, CHAIN)),
    ]
    result = await run_flow(*chain)
    assert (result.status.state.phase, result.status.progress) == ("Succeed", "50/50")
    assert result.requests["PATCH", "jobflows/status"] == 1
    assert result.retries == 0


async def test_a_chain_of_decisions_waits_only_for_their_writes() -> None:
    """Each step decides to have no items, and that is stored before the next decision."""
    nothing = {"from": "params.none"}
    chain = [
        step(f"s{n}", f"s{n - 1}" if n else "", when="true", forEach=nothing) for n in range(CHAIN)
    ]
    result = await run_flow(*chain, params=[{"name": "none", "value": []}])
    assert (result.status.state.phase, result.status.progress) == ("Succeed", "50/50")
    assert result.requests["PATCH", "jobflows/status"] == 51
    assert result.retries == 0


async def test_many_items_follow_each_other_at_once() -> None:
    result = await run_flow(step("a", forEach={"count": ITEMS, "parallelism": AT_ONCE}))
    assert result.status.state.phase == "Succeed"
    assert result.requests["POST", "jobs"] == ITEMS
    assert result.requests["PATCH", "jobflows/status"] <= 4 + WITHIN_SECONDS
    assert result.retries == 0


async def test_many_items_that_are_retried_wait_only_for_their_backoff() -> None:
    retry = {"limit": 1, "backoff": {"duration": "0s"}}
    result = await run_flow(
        step("a", forEach={"count": ITEMS}, retry=retry) | {"template": "flaky"}
    )
    assert result.status.state.phase == "Succeed"
    assert result.requests["POST", "jobs"] == 2 * ITEMS
    assert result.requests["GET", "jobs"] <= ITEMS + 10, "each is read live once before it"
    assert result.retries == 0


async def test_outputs_of_many_items_are_known_when_the_next_step_decides() -> None:
    result = await run_flow(
        step("a", forEach={"count": ITEMS, "parallelism": AT_ONCE}) | {"template": "out"},
        step("b", "a", when='steps["a"].items.all(i, i.outputs.n == 1)'),
    )
    conditions = result.status.conditions or {}
    assert conditions["f-b"].phase == "Completed"
    assert result.requests["POST", "jobs"] == ITEMS + 1
    assert result.retries == 0


async def test_a_large_sweep_that_is_reused_runs_what_failed_and_nothing_else() -> None:
    failed = (3, ITEMS // 2, ITEMS - 1)
    numbered = {"forEach": {"count": ITEMS}, "env": {"N": "$(item)"}}
    sweep = step("a", continueOnFailure=True, **numbered)
    ends = {f"e-a-{index}": "Failed" for index in failed}
    async with cluster() as world, world.ends(ends), world.controller():
        await world.apply(*TEMPLATES, flow("e", {}, flows=[sweep]))
        await world.ended("e", within=WITHIN_SECONDS)
        await world.apply(flow("f", {}, flows=[sweep], reuse={"flow": "e"}))
        await world.ended("f", within=WITHIN_SECONDS)
        made = {name for name in await world.jobs() if name.startswith("f-")}
    assert made == {f"f-a-{index}" for index in failed}
