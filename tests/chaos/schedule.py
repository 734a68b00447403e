"""What happens when, drawn from a seed: the same seed gives the same schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from chaos.world import World

T = TypeVar("T")


@dataclass(frozen=True)
class Disturbance:
    """One event of a schedule."""

    lane: str
    number: int
    kind: Kind
    at: float
    """Seconds from the beginning of the schedule."""
    seconds: float
    """How long it lasts."""
    pick: float
    """From 0 to 1: chooses among the objects that exist then, and among variants."""

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:6.1f} s  {self.lane}: {self.kind.name}{lasts} ({self.pick:.2f})"

    def choose(self, among: Sequence[T]) -> T:
        return among[int(self.pick * len(among))]


Cause = Callable[["World", Disturbance], Awaitable[None]]
"""Causes a disturbance, and returns when it is over."""


@dataclass(frozen=True)
class Kind:
    """A kind of disturbance. `seconds`: the limits of how long one lasts."""

    name: str
    cause: Cause
    seconds: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Lane:
    """Disturbances that happen one after the other, beside those of other lanes."""

    kinds: Sequence[Kind]
    pauses: tuple[float, float]


def draw(seed: int, seconds: float, lanes: Mapping[str, Lane]) -> list[Disturbance]:
    """Return the schedule of a seed, in which each kind comes once before any comes twice."""
    drawn = [each for name, lane in lanes.items() for each in _draw(seed, seconds, name, lane)]
    return sorted(drawn, key=lambda each: each.at)


def _draw(seed: int, seconds: float, name: str, lane: Lane) -> Iterator[Disturbance]:
    dice = Random(f"{seed} {name}")
    deck: list[Kind] = []
    at, number = 0.0, 0
    while True:
        deck = deck or dice.sample(lane.kinds, len(lane.kinds))
        kind, number = deck.pop(), number + 1
        at += dice.uniform(*lane.pauses)
        lasts = dice.uniform(*kind.seconds)
        if at + lasts > seconds:
            return
        yield Disturbance(name, number, kind, at, lasts, dice.random())
        at += lasts
