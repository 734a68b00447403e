"""What befalls a simulated process (`simulated`): the weather of its network, pauses, crashes, how
fast its clocks run. It decides nothing; a run reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Weather(Enum):
    """How a process's requests fare."""

    FINE = auto()
    SLOW = auto()
    """Both ways take up to eight seconds."""
    REQUESTS_LOST = auto()
    ANSWERS_LOST = auto()
    ERRORS_BEFORE = auto()
    ERRORS_AFTER = auto()
    """Carried out, answered by a 500."""
    MIXED = auto()


@dataclass(frozen=True)
class Stretch:
    """Weather from `at` on, for `seconds`."""

    at: float
    seconds: float
    weather: Weather


@dataclass(frozen=True)
class Mishap:
    """Something that happens to a process: `pause` (as SIGSTOP), `suspend` (the loop's clock stands
    still too), `stop` (SIGTERM), `kill`, `start` (again, as a new process), `wall` (its wall clock
    jumps), `freeze` (it stands still)."""

    at: float
    kind: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Life:
    """All that befalls one process. `rate`: how fast its clocks run."""

    stretches: tuple[Stretch, ...] = ()
    mishaps: tuple[Mishap, ...] = ()
    rate: float = 1.0

    def weather(self, now: float) -> Weather:
        for stretch in self.stretches:
            if stretch.at <= now < stretch.at + stretch.seconds:
                return stretch.weather
        return Weather.FINE
