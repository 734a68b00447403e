"""How the phases of flows, steps and jobs are shown: icon, colour and priority."""

from dataclasses import dataclass

from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.volcano.job import JobPhase


@dataclass(frozen=True, slots=True)
class PhaseLook:
    icon: str
    ascii_icon: str
    """The icon on a terminal that is not UTF-8."""
    style: str
    rank: int
    """Priority if there are too few lines: 0 is shown first."""


_LOOKS: dict[str, PhaseLook] = {
    StepPhase.COMPLETED: PhaseLook("✔", "+", "green", 3),
    FlowPhase.SUCCEED: PhaseLook("✔", "+", "green", 3),
    StepPhase.FAILED: PhaseLook("✖", "x", "red", 0),
    StepPhase.SKIPPED: PhaseLook("⊘", "-", "dim", 4),
    StepPhase.WAITING: PhaseLook("○", ".", "dim", 5),
    JobPhase.PENDING: PhaseLook("◌", "o", "yellow", 2),
    JobPhase.RUNNING: PhaseLook("●", "*", "cyan", 1),
}
_TRANSIENT = PhaseLook("◍", "~", "yellow", 1)
"""Restarting, Completing, Aborting, Terminating."""


def look_of(phase: str) -> PhaseLook:
    """Return how a phase of a flow, step or job is shown."""
    return _LOOKS.get(phase, _TRANSIENT)


def style_of(phase: str) -> str:
    """Return the style of a phase."""
    return look_of(phase).style


def icon_of(phase: str, *, ascii_only: bool = False) -> str:
    """Return the icon of a phase, which takes one column."""
    look = look_of(phase)
    return look.ascii_icon if ascii_only else look.icon
