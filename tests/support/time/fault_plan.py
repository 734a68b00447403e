"""Faults of a simulated process (`simulated_processes`): network, pauses, crashes, clocks."""

from dataclasses import dataclass
from enum import Enum, auto


class Weather(Enum):
    """Faults of a process's requests."""

    FINE = auto()
    SLOW = auto()
    """Each direction takes up to eight seconds."""
    REQUESTS_LOST = auto()
    ANSWERS_LOST = auto()
    ERRORS_BEFORE = auto()
    ERRORS_AFTER = auto()
    """Executed, but answered by a 500."""
    MIXED = auto()


@dataclass(frozen=True)
class Stretch:
    """Network faults from `at` on, for `seconds`."""

    at: float
    seconds: float
    weather: Weather


@dataclass(frozen=True)
class Mishap:
    """An event of a process: `pause` (SIGSTOP), `suspend` (the loop's clock stops too), `stop`
    (SIGTERM), `kill`, `start` (a new process), `wall` (its wall clock jumps), `freeze` (its wall
    clock stops)."""

    at: float
    kind: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Life:
    """The faults of one process. `rate`: how fast its clocks run."""

    stretches: tuple[Stretch, ...] = ()
    mishaps: tuple[Mishap, ...] = ()
    rate: float = 1.0

    def weather(self, now: float) -> Weather:
        for stretch in self.stretches:
            if stretch.at <= now < stretch.at + stretch.seconds:
                return stretch.weather
        return Weather.FINE
