"""The big example with each Command in every state of the flow and its jobs. It always ends as
documented, `finally` runs, and no job is created twice.

Time is simulated (`leaping_loop`) and jobs end at once (`fast_volcano`). `make test` tries some of
the states, different ones for each Command; `make test-long` tries all.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from support.laws.effort_of_laws import STRIDE
from support.network.anonymous import anonymous
from support.paths import ROOT
from support.sandbox.crash_restart import End, Orders, Tale, Watched, lives
from support.sandbox.crashing_requests import Dying, Point
from support.sandbox.running_controller import NAMESPACE, cluster
from support.time.leaping_loop import in_leaps

EXAMPLE = ROOT / "examples" / "hyperparameter-search.yaml"
SHARE = 24
"""Distance between two states that `make test` tries."""
NEVER = Point(-1, after=False)
LONG = 600.0
"""Seconds in which every waiting step would have started."""


def suspend(action: str, state: int) -> Orders:
    """Suspend the flow in this state, check that nothing starts, and resume it."""

    async def orders(watched: Watched) -> None:
        await reach(watched, state)
        await watched.order(action, "one")
        if ended(watched):
            return
        await watched.until(lambda: bool(watched.flow and watched.flow.status.suspended_at))
        assert watched.flow is not None
        before = set(watched.player.uids)
        await asyncio.sleep(LONG)
        assert set(watched.player.uids) == before, "something started while it was suspended"
        alive = {job.metadata.name for job in watched.player.jobs if not job.ended}
        assert alive <= ({"search-board"} if action == "SuspendFlow" else set())
        await watched.order("ResumeJob", "two")

    return orders


async def reach(watched: Watched, state: int) -> None:
    """Wait for so many changes, or for the end of the flow, which may come after fewer of them."""
    await watched.until(lambda: watched.changes >= state or ended(watched))


def give(*actions: str, state: int) -> Orders:
    async def orders(watched: Watched) -> None:
        await reach(watched, state)
        for number, action in enumerate(actions):
            if number:
                await watched.ended()
            await watched.order(action, f"command-{number}")

    return orders


def ended(watched: Watched) -> bool:
    return watched.flow is not None and watched.flow.final


def run_with(orders: Orders | None) -> End:
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for manifest in objects:
        manifest["metadata"]["namespace"] = NAMESPACE

    async def run_flow() -> End:
        async with cluster() as world:
            await world.apply(*objects)

            async def connect() -> Dying:
                return Dying(anonymous(world.server.url))

            return (await lives(connect, NAMESPACE, Tale(objects, orders), NEVER)).end

    return in_leaps(run_flow())


@cache
def without_commands() -> tuple[End, int]:
    states = 0

    async def orders(watched: Watched) -> None:
        nonlocal states
        await watched.ended()
        states = watched.changes

    return run_with(orders), states


def results(end: End, *names: str) -> Mapping[str, Any]:
    return {
        key: (values_of(step, names), [values_of(run, names) for run in step["runs"]])
        for key, step in end.steps.items()
    }


def values_of(step: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(step.get(name) for name in names)


def unchanged(end: End) -> None:
    """Check for the same end, including attempts, as without a Command."""
    expected, _ = without_commands()
    assert (end.state, end.steps, end.jobs) == (expected.state, expected.steps, expected.jobs)


def succeeded(end: End) -> None:
    """Check for the same results, with any number of attempts."""
    expected, _ = without_commands()
    assert end.state == expected.state
    assert results(end, "phase", "outputs") == results(expected, "phase", "outputs")
    assert end.steps["search-release"]["decisions"] == {"case": 0}


def cancelled(end: End) -> None:
    """Check that running steps were aborted, others skipped, and `finally` has run. The first
    attempt of `prepare` fails, and is not repeated if the Command comes with its end."""
    assert (end.state["phase"], end.state["reason"]) == ("Failed", "Cancelled")
    assert end.state["progress"] == "9/9"
    outcomes = {key: (step["phase"], step.get("reason", "")) for key, step in end.steps.items()}
    assert outcomes.pop("search-clean-up") == ("Completed", "")
    assert outcomes.pop("search-alarm") in {("Completed", ""), ("Skipped", "NotTaken")}
    allowed = {
        ("Completed", ""),
        ("Completed", "DaemonEnded"),
        ("Failed", "Cancelled"),
        ("Skipped", "Stopped"),
    }
    if end.steps["search-prepare"].get("reason") == "JobFailed":
        allowed |= {("Failed", "JobFailed"), ("Skipped", "UpstreamFailed")}
    assert set(outcomes.values()) <= allowed


def check_no_job_twice(end: End) -> None:
    assert set(end.jobs.values()) <= {1}


Story = tuple[Callable[[int], Orders], Callable[[End], None]]

STORIES: Mapping[str, Story] = {
    "suspend and resume": (lambda state: suspend("SuspendFlow", state), unchanged),
    "abort and resume": (lambda state: suspend("AbortJob", state), succeeded),
    "cancel": (lambda state: give("TerminateJob", state=state), cancelled),
    "cancel and retry": (lambda state: give("TerminateJob", "RestartJob", state=state), succeeded),
    "resume": (lambda state: give("ResumeJob", state=state), unchanged),
    "retry": (lambda state: give("RestartJob", state=state), unchanged),
}
REFUSED = {"resume", "retry"}
"""Commands that are refused for a flow that is not suspended and has not failed."""


def check_story(story: str, states: Collection[int]) -> None:
    orders, ends = STORIES[story]
    for state in states:
        end = run_with(orders(state))
        check_no_job_twice(end)
        if story in REFUSED:
            assert len(end.refused) == 1
        (unchanged if end.refused else ends)(end)


@pytest.mark.long
def test_the_example_succeeds_without_commands() -> None:
    end, states = without_commands()
    assert end.state["phase"] == "Succeed"
    assert not end.refused
    assert states > 50
    check_no_job_twice(end)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.replace(" ", "-"))
def test_a_command_in_every_state(story: str) -> None:
    stride = min(STRIDE, SHARE)
    first = 1 + [*STORIES].index(story) * stride // len(STORIES)
    check_story(story, range(first, without_commands()[1] + 1, stride))
