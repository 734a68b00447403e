"""Flows with every control feature and every Command, and a controller that crashes before or after
any write: with a new controller they end the same, and no job is created twice.

Time is simulated (`leaping_loop`) and jobs end at once (`fast_volcano`). `make test` tries some of
the crash points of each tale, `make test-long` all.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import yaml

from support.laws.effort_of_laws import STRIDE
from support.network.anonymous import anonymous
from support.paths import ROOT
from support.sandbox.crash_restart import Lives, Tale, Watched, lives
from support.sandbox.crashing_requests import Dying, Point, Reusing
from support.sandbox.manifests import template
from support.sandbox.reusing_lives import check_reuse, lives_of_reuse
from support.sandbox.running_controller import NAMESPACE, cluster, flow
from support.time.leaping_loop import in_leaps

EXAMPLES = ROOT / "examples"
SOME = 18
"""Distance between two crash points that `make test` tries."""


OUTPUT = '["{\\"n\\": 0}", "{\\"n\\": 1}", "{\\"n\\": 2}"]'
BRIEF = template("brief", output=OUTPUT)
BRIEF["spec"]["ttlSecondsAfterFinished"] = 0
REACHED = "items.exists(i, i.outputs.n == 2)"
TEMPLATES = (
    template("ok"),
    template("long", duration="24h"),
    template("bad", exit_code="3"),
    template("counted", output=OUTPUT),
    template("flaky", fail_attempts="1", output=OUTPUT),
    BRIEF,
)


def tale(*steps: Mapping[str, Any], **more: Any) -> Tale:
    orders, stays = more.pop("orders", None), more.pop("stays", True)
    return Tale([*TEMPLATES, flow("f", {}, flows=[*steps], **more)], orders, stays, "f")


def step(name: str, run: str, targets: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "template": run, **(after(targets) if targets else {}), **more}


def after(targets: str, **more: Any) -> dict[str, Any]:
    return {"dependsOn": {"targets": targets.split(), **more}}


def items(*ends: str, **tolerance: Any) -> dict[str, Any]:
    """Return the fields of a step whose items are child flows that run these templates."""
    cases = [{"when": f'params.end == "{end}"', "template": end} for end in sorted({*ends})]
    child = {"params": {"end": "$(item)"}, "flows": [{"name": "i", "switch": cases}]}
    return {"flow": child, "forEach": {"items": [*ends], **tolerance}}


async def commands(watched: Watched) -> None:
    await watched.runs("f-a")
    await watched.order("AbortJob", "one")
    await watched.until(lambda: watched.phase("f-a") == "Aborted")
    await watched.order("ResumeJob", "two")
    await watched.runs("f-a-r1")
    await watched.order("SuspendFlow", "three")
    await watched.order("ResumeJob", "four")
    await watched.order("TerminateJob", "five")
    await watched.ended()
    await watched.order("RestartJob", "six")
    await watched.runs("f-a-r2")
    await watched.order("TerminateJob", "seven")


async def by_hand(watched: Watched) -> None:
    await watched.runs("f-b-0")
    await watched.order("CancelStep", "one", "b/0 it hangs")
    await watched.runs("f-b-1")
    await watched.order("SkipStep", "two", "b/1")
    await watched.ended()
    await watched.order("SkipStep", "three", "c")
    await watched.until(lambda: watched.phase("f-d") == "Completed")
    await watched.ended()
    await watched.order("RetrySteps", "four", "a")
    await watched.runs("f-b-0-r1")
    await watched.order("ScaleFlow", "five", "b=2")
    await watched.runs("f-b-1-r1")
    await watched.order("RetrySteps", "six", "a")
    await watched.runs("f-b-1-r2")
    await watched.order("SkipStep", "seven", "b")


async def by_hand_before_an_approval(watched: Watched) -> None:
    await watched.asks("ok")
    await watched.order("ApproveStep", "one", "ok")
    await watched.runs("f-b")
    await watched.order("RetrySteps", "two", "a")
    await watched.asks("ok", times=2)
    await watched.order("ApproveStep", "three", "ok")
    await watched.runs("f-b-r1")
    await watched.order("SkipStep", "four", "b known", n=3)
    await watched.until(lambda: watched.phase("f-c") == "Completed")
    await watched.ended()
    await watched.order("RetrySteps", "five", "a")
    await watched.asks("ok", times=3)
    await watched.order("ApproveStep", "six", "ok")
    await watched.runs("f-b-r2")
    await watched.order("CancelStep", "seven", "b")


async def by_hand_in_child_flows(watched: Watched) -> None:
    await watched.runs("f-s-0-qc-0", "f-s-1-qc-0")
    await watched.order("ScaleFlow", "one", "s/0/qc=2")
    await watched.runs("f-s-0-qc-1")
    await watched.order("CancelStep", "two", "s/0/qc/0")
    await watched.order("SkipStep", "three", "s/1/qc/0 known", n=1)
    await watched.runs("f-s-1-qc-1")
    await watched.order("RetrySteps", "four", "s/1/p")
    await watched.runs("f-s-1-qc-0-r1")
    await watched.order("SkipStep", "five", "s/0/qc,s/1/qc")
    await watched.until(lambda: watched.phase("f-t") == "Completed")
    await watched.ended()
    await watched.order("RetrySteps", "six", "s/1/p")
    await watched.runs("f-s-1-qc-0-r2")
    await watched.order("SkipStep", "seven", "s/1/qc")


async def skip_one(watched: Watched) -> None:
    await watched.runs("f-c-1")
    await watched.order("SkipStep", "one", "c/1 known", n=1)


def big_example() -> Tale:
    objects = list(yaml.safe_load_all((EXAMPLES / "hyperparameter-search.yaml").read_text()))
    for entry in objects:
        entry["metadata"]["namespace"] = NAMESPACE
    return Tale(objects)


TALES = {
    "the big example": big_example(),
    "loops": tale(
        step("a", "flaky", forEach={"count": 3, "parallelism": 2}, retry={"limit": 1}),
        step("b", "brief", "a", repeat={"until": "outputs.n == 2", "max": 5}),
        step(
            "c",
            "ok",
            "b",
            when='steps["b"].outputs.n == 2',
            forEach={"from": 'steps["a"].items.map(i, i.outputs.n)'},
        ),
        parallelism=2,
    ),
    "failures": tale(
        step("a", "long"),
        step("b", "bad", retry={"limit": 2, "backoff": {"duration": "1s"}}),
        step("c", "ok", "b"),
        {**step("d", "ok"), "dependsOn": {"targets": ["b"], "condition": "Failed"}},
        step("e", "long", timeout="3s", continueOnFailure=True),
        {"name": "g", "switch": [{"when": "params.big", "template": "long"}, {"template": "ok"}]},
        failurePolicy="Abort",
        params=[{"name": "big", "value": False}],
        **{"finally": [step("y", "bad"), step("z", "ok", when='flow.phase == "Failed"')]},
    ),
    "commands": tale(
        step("a", "long"), step("b", "ok", "a"), orders=commands, **{"finally": [step("z", "ok")]}
    ),
    "by hand": tale(
        step("a", "ok"),
        step("b", "long", "a", forEach={"count": 2, "parallelism": 1}, continueOnFailure=True),
        step("c", "bad", "b"),
        step("d", "ok", "c"),
        orders=by_hand,
    ),
    "by hand before an approval": tale(
        step("a", "ok"),
        {"name": "ok", "approval": {}, "dependsOn": {"targets": ["a"]}},
        step("b", "long", "ok"),
        step("c", "ok", "b", when='steps["b"].outputs.n == 3'),
        orders=by_hand_before_an_approval,
    ),
    "by hand in child flows": tale(
        {
            "name": "s",
            "forEach": {"count": 2},
            "flow": {
                "flows": [
                    step("p", "ok"),
                    step("qc", "long", "p", forEach={"count": 2, "parallelism": 1}),
                ]
            },
        },
        step("t", "ok", "s"),
        orders=by_hand_in_child_flows,
    ),
    "tolerances": tale(
        {"name": "a", **items("ok", "bad", "ok", maxFailed="50%", parallelism=1)},
        step("b", "ok", **after("a", items="Matching")),
        step("c", "long", "b", forEach={"count": 3, "minSuccess": 1}),
        step("d", "counted", "c", forEach={"count": 4, "parallelism": 1, "until": REACHED}),
        {"name": "e", **items("long", "bad", "ok", maxFailed=0, parallelism=2), **after("d")},
        orders=skip_one,
        failurePolicy="Abort",
        **{"finally": [step("z", "ok", when='steps["e"].reason == "TooManyFailed"')]},
    ),
    "time": tale(
        step("s", "long", daemon=True),
        step("a", "brief", "s"),
        step("b", "long", "a"),
        timeout="30s",
        ttlSecondsAfterFinished=60,
        stays=False,
        **{"finally": [step("z", "brief")]},
    ),
}


async def run_tale(story: Tale, point: Point) -> Lives:
    async with cluster() as world:
        await world.apply(*(dict(entry) for entry in story.objects))

        async def connect() -> Dying:
            return Dying(anonymous(world.server.url))

        return await lives(connect, NAMESPACE, story, point)


@cache
def without_crash(name: str) -> Lives:
    return in_leaps(run_tale(TALES[name], Point(-1, after=False)))


def check_crashes(name: str, numbers: Sequence[int], *, after: bool) -> None:
    expected = without_crash(name).end
    assert set(expected.jobs.values()) == {1}
    assert not expected.refused
    for number in numbers:
        result = in_leaps(run_tale(TALES[name], Point(number, after)))
        assert result.end == expected, f"dead {Point(number, after)}: {result.written[number:]}"


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", TALES, ids=lambda name: name.replace(" ", "-"))
def test_a_flow_ends_the_same_after_every_crash(name: str, after: bool) -> None:
    stride = min(STRIDE, SOME)
    numbers = range([*TALES].index(name) % stride, len(without_crash(name).written) + 2, stride)
    check_crashes(name, numbers, after=after)


async def run_reusing(point: Point) -> Lives:
    async with cluster() as world:

        async def connect() -> Reusing:
            return Reusing(anonymous(world.server.url))

        return await lives_of_reuse(connect, NAMESPACE, point, others=connect)


@pytest.mark.law
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_flow_reuses_each_result_once_after_every_crash(after: bool) -> None:
    without_crash = in_leaps(run_reusing(Point(-1, after)))
    check_reuse(without_crash)
    stride = min(STRIDE, SOME)
    for number in range(after * stride // 2, len(without_crash.written) + 2, stride):
        result = in_leaps(run_reusing(Point(number, after)))
        assert result.end == without_crash.end, f"dead {number}: {result.written[number:]}"


@pytest.mark.long
def test_the_tales_have_the_expected_ends() -> None:
    assert {name: without_crash(name).end.state["phase"] for name in TALES} == {
        "the big example": "Succeed",
        "loops": "Succeed",
        "failures": "Failed",
        "commands": "Failed",
        "by hand": "Failed",
        "by hand before an approval": "Failed",
        "by hand in child flows": "Succeed",
        "tolerances": "Failed",
        "time": "Failed",
    }
