"""The big example with each Command at every state of the flow and its jobs. It always ends as
documented, `finally` runs, and no job is created twice.

Time leaps (`leaping_loop`) and jobs end at once (`fast_volcano`). `make test` tries some of the
states, others for each Command; `make test-long` tries all.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

import pytest
import yaml

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
"""Seconds in which anything that was to start would have started."""


def suspend(action: str, state: int) -> Orders:
    """Suspend it there, see that nothing starts, resume it."""

    async def orders(watched: Watched) -> None:
        await watched.until(lambda: watched.changes >= state)
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


def give(*actions: str, state: int) -> Orders:
    async def orders(watched: Watched) -> None:
        await watched.until(lambda: watched.changes >= state)
        for number, action in enumerate(actions):
            if number:
                await watched.ended()
            await watched.order(action, f"command-{number}")

    return orders


def ended(watched: Watched) -> bool:
    return watched.flow is not None and watched.flow.final


def run_with(orders: Orders | None) -> End:
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for each in objects:
        each["metadata"]["namespace"] = NAMESPACE

    async def carried() -> End:
        async with cluster() as world:
            await world.apply(*objects)

            async def connect() -> Dying:
                return Dying.at(world.server.url)

            return (await lives(connect, NAMESPACE, Tale(objects, orders), NEVER)).end

    return in_leaps(carried())


@cache
def undisturbed() -> tuple[End, int]:
    states = 0

    async def orders(watched: Watched) -> None:
        nonlocal states
        await watched.ended()
        states = watched.changes

    return run_with(orders), states


def come_to(end: End, *names: str) -> Mapping[str, Any]:
    return {
        key: (picked(step, names), [picked(run, names) for run in step["runs"]])
        for key, step in end.steps.items()
    }


def picked(of: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(of.get(name) for name in names)


def as_ever(end: End) -> None:
    """To the last attempt as if there had been no Command."""
    wanted, _ = undisturbed()
    assert (end.state, end.steps, end.jobs) == (wanted.state, wanted.steps, wanted.jobs)


def succeeded(end: End) -> None:
    """Check for the same results, with any number of attempts."""
    wanted, _ = undisturbed()
    assert end.state == wanted.state
    assert come_to(end, "phase", "outputs") == come_to(wanted, "phase", "outputs")
    assert end.steps["search-release"]["decisions"] == {"case": 0}


def cancelled(end: End) -> None:
    """Check that running steps were aborted, others skipped, and `finally` has run."""
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
    assert set(outcomes.values()) <= allowed


def nothing_twice(end: End) -> None:
    assert set(end.jobs.values()) <= {1}


Story = tuple[Callable[[int], Orders], Callable[[End], None]]

STORIES: Mapping[str, Story] = {
    "suspend and resume": (lambda state: suspend("SuspendFlow", state), as_ever),
    "abort and resume": (lambda state: suspend("AbortJob", state), succeeded),
    "cancel": (lambda state: give("TerminateJob", state=state), cancelled),
    "cancel and retry": (lambda state: give("TerminateJob", "RestartJob", state=state), succeeded),
    "resume": (lambda state: give("ResumeJob", state=state), as_ever),
    "retry": (lambda state: give("RestartJob", state=state), as_ever),
}
REFUSED = {"resume", "retry"}
"""Commands that are refused for a flow that is not suspended and has not failed."""


def goes(story: str, states: Collection[int]) -> None:
    orders, ends = STORIES[story]
    for state in states:
        end = run_with(orders(state))
        nothing_twice(end)
        if story in REFUSED:
            assert len(end.refused) == 1
        (as_ever if end.refused else ends)(end)


def test_undisturbed_it_succeeds() -> None:
    end, states = undisturbed()
    assert end.state["phase"] == "Succeed"
    assert not end.refused
    assert states > 50
    nothing_twice(end)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.replace(" ", "-"))
def test_at_some_states(story: str) -> None:
    first = 1 + 4 * [*STORIES].index(story)
    goes(story, range(first, undisturbed()[1] + 1, SHARE))


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.replace(" ", "-"))
def test_at_every_state(story: str) -> None:
    goes(story, range(1, undisturbed()[1] + 1))
