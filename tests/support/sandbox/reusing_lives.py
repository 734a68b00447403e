"""A flow that has ended, and one that reuses it, has one change of each kind, and crashes.

The changes and what runs again: a command (c, and d after it), an item more (b/2), a param that
only the last step reads (l), and a step in child flows (p/0/q, p/1/q). Of the sweep s, one item
failed. Step e completed in its third attempt; approval is asked for between it and g.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.kube.client import Client
from support.sandbox.crash_restart import WITHIN_SECONDS, Lives, Tale, Watched, lives
from support.sandbox.crashing_requests import Point, Reusing
from support.sandbox.manifests import flow, step, template

KINDS = {"JobFlow": JOBFLOWS, "JobTemplate": JOBTEMPLATES}
OK: Mapping[str, Any] = {"template": "ok"}
FLAKY: dict[str, Any] = {"template": "flaky", "retry": {"limit": 2, "backoff": {"duration": "0s"}}}
ONE_FAILS = {"retry": FLAKY["retry"] | {"when": 'item == "x"'}, "continueOnFailure": True}
TEMPLATES = (template("ok"), template("flaky", fail_attempts="2"))
RUNS_AGAIN = {f"f-{run}" for run in ("b-2", "c", "d", "l", "s-1", "p-0-q", "p-1-q")}


def _flow(name: str, *, is_mended: bool, **spec: Any) -> dict[str, Any]:
    mended = {"env": {"SEED": "2"}} if is_mended else {}
    pipeline = [step("x", **OK), step("q", "x", **OK, **mended)]
    return flow(
        name,
        step("a", **OK),
        step("b", "a", forEach={"items": [*"uvw"] if is_mended else [*"uv"]}, **OK),
        step("c", "a", **OK, **mended),
        step("d", "c", **OK),
        step("s", forEach={"items": [*"xy"]}, **FLAKY | ONE_FAILS),
        step("e", "a", **FLAKY),
        step("ok", "e", approval={}),
        step("g", "ok", **OK),
        step("l", "g", env={"RATE": "$(params.rate)"}, **OK),
        step("p", forEach={"count": 2}, flow={"flows": pipeline}),
        params=[{"name": "rate", "value": "2" if is_mended else "1"}],
        **spec,
    )


async def _approve(watched: Watched) -> None:
    await watched.asks("ok")
    await watched.order("ApproveStep", f"approve-{watched.name}", "ok")


async def lives_of_reuse(
    connect: Callable[[], Awaitable[Reusing]],
    namespace: str,
    point: Point,
    *,
    others: Callable[[], Awaitable[Client]],
    within: float = WITHIN_SECONDS,
) -> Lives:
    """Run the earlier flow `e` to its end, then `f`, which reuses it, with a crash."""
    clients = list[Reusing]()

    async def noted() -> Reusing:
        clients.append(await connect())
        return clients[-1]

    async def run(name: str, at: Point) -> Lives:
        tale = Tale([], _approve, flow=name)
        return await lives(noted, namespace, tale, at, others=others, within=within)

    async with await others() as admin:
        for manifest in (*TEMPLATES, _flow("e", is_mended=False)):
            await create(admin, namespace, manifest)
        await run("e", Point(-1, after=False))
        await create(admin, namespace, _flow("f", is_mended=True, reuse={"flow": "e"}))
    result = await run("f", point)
    assert not any(client.too_early for client in clients), point
    return result


async def create(client: Client, namespace: str, manifest: Mapping[str, Any]) -> None:
    """Create a flow or a template."""
    await client.create(KINDS[manifest["kind"]], namespace, json.dumps(manifest).encode())


def check_reuse(result: Lives) -> None:
    """Check what was reused in a flow that has ended."""
    assert (result.end.state["phase"], result.end.refused) == ("Succeed", [])
    made = {name for name in result.end.jobs if name.startswith("f-")}
    assert made == RUNS_AGAIN
    assert set(result.end.jobs.values()) == {1}
