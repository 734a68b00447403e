"""At most one process leads, and only its writes are stored, regardless of faults of processes and
network."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.laws.effort_of_laws import tries
from support.time.fault_plan import Life, Mishap, Stretch, Weather
from support.time.simulated_processes import Simulation, simulate

CALM = 90.0
"""No fault starts after this time."""
END = CALM + 60.0
"""Enough time for a lease to expire, and for another process to claim it and write."""

times = st.floats(0.0, 60.0)
stretches = st.lists(
    st.builds(Stretch, times, st.floats(0.1, 25.0), st.sampled_from(Weather)), max_size=4
).map(tuple)
mishaps = st.lists(
    st.builds(
        Mishap,
        times,
        st.sampled_from(["pause", "suspend", "stop", "kill", "start", "wall", "freeze"]),
        st.floats(0.0, 30.0),
    ),
    max_size=4,
).map(tuple)
lives = st.lists(st.builds(Life, stretches, mishaps, st.floats(0.98, 1.02)), min_size=2, max_size=3)
seeds = st.integers(0, 2**32)


def check_end(world: Simulation) -> None:
    """No write was late, and the remaining processes have a leader."""
    assert world.latecomers() == []
    alive = [process.identity for process in world.survivors]
    assert (world.final in alive) if alive else (world.final is None)


@tries(16)
@given(lives, seeds)
@example([Life(mishaps=(Mishap(20, "pause", 30),)), Life()], 2)
@example([Life(mishaps=(Mishap(20, "suspend", 30),)), Life()], 2)
@example([Life((Stretch(20, 25, Weather.REQUESTS_LOST),)), Life()], 2)
@example([Life((Stretch(20, 25, Weather.ANSWERS_LOST),)), Life()], 2)
@example([Life((Stretch(20, 25, Weather.SLOW),)), Life()], 2)
@example([Life((Stretch(10, 25, Weather.SLOW),), (Mishap(20, "stop"),)), Life()], 2)
@example([Life(mishaps=(Mishap(20, "wall", -1e6), Mishap(40, "wall", 1e6))), Life()], 2)
@example([Life(mishaps=(Mishap(20, "freeze"),)), Life(mishaps=(Mishap(20, "freeze"),))], 2)
def test_one_process_leads_and_only_its_writes_are_stored(lives: list[Life], seed: int) -> None:
    world = simulate(*lives, until=END, seed=seed)
    assert world.trespasses() == []
    check_end(world)


@tries(8)
@given(
    st.lists(
        st.builds(Life, stretches, st.just(()), st.floats(0.98, 1.02)), min_size=2, max_size=3
    ),
    st.lists(times, min_size=1, max_size=3),
    seeds,
)
def test_a_deleted_lease_is_safe(lives: list[Life], deleted_at: list[float], seed: int) -> None:
    # all have seen the lease before, because another process cannot know that it existed
    lives = [
        Life(tuple(Stretch(s.at + 1, s.seconds, s.weather) for s in life.stretches), (), life.rate)
        for life in lives
    ]
    deletions = tuple(Mishap(at + 2, "delete") for at in deleted_at)
    lives[0] = Life(lives[0].stretches, deletions, lives[0].rate)
    check_end(simulate(*lives, until=END, seed=seed))


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_leader_is_replaced_within_the_lease_duration(seed: int) -> None:
    killed = Life(mishaps=(Mishap(20.0, "kill"),))
    world = simulate(killed, Life(mishaps=()), until=60, seed=seed)
    (_, first), *rest = world.leaders
    if first == "process-0":
        (at, second) = rest[0]
        assert second == "process-1"
        assert 20 < at <= 20 + world.timing.lease + world.timing.look + 0.1
    check_end(world)


def simulate_led_by(first: str, *lives: Life, until: float) -> Simulation:
    """Return a simulation in which this process leads first."""
    for seed in range(100):
        world = simulate(*lives, until=until, seed=seed)
        if world.leaders[0][1] == first:
            return world
    raise AssertionError(f"{first} never leads")


def test_a_released_lease_is_claimed_at_the_next_read() -> None:
    world = simulate_led_by("process-0", Life(mishaps=(Mishap(20.0, "stop"),)), Life(), until=30)
    at, second = world.leaders[1]
    assert second == "process-1"
    assert 20 < at <= 20 + world.timing.look + 0.5
    assert world.trespasses() == []


def test_an_unreachable_server_ends_the_term_before_another_starts() -> None:
    cut = Life((Stretch(20, 30, Weather.REQUESTS_LOST),))
    world = simulate_led_by("process-0", cut, Life(), until=80)
    assert [name for _, name in world.leaders] == ["process-0", "process-1"]
    last = max(write.at for write in world.server.landed if write.writer == "process-0")
    assert last < world.leaders[1][0]


def test_a_process_that_wakes_up_late_writes_nothing() -> None:
    for kind in ("pause", "suspend"):
        sleeper = Life(mishaps=(Mishap(20.0, kind, 25.0),))
        world = simulate_led_by("process-0", sleeper, Life(), until=80)
        assert [name for _, name in world.leaders] == ["process-0", "process-1"]
        assert max(write.at for write in world.server.landed if write.writer == "process-0") < 21
