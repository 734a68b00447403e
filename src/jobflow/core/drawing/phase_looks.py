"""How the phases of flows, steps and jobs are shown: the one table of icons, colours and priorities
for the terminal, the page, SVG, Mermaid and dot."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.volcano.job import JobPhase


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour as `#rrggbb`, on light and on dark ground."""

    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class PhaseLook:
    """The look of a phase."""

    name: str
    """In classes of style sheets: `completed`."""
    icon: str
    ascii_icon: str
    """The icon on a terminal that is not UTF-8."""
    style: str
    """On a terminal."""
    rank: int
    """Priority if there are too few lines: 0 is shown first."""
    text: Colour
    """The colour of texts and icons on the page, whose contrast is at least 4.5."""
    line: Colour | None = None
    """The colour of lines and bars in SVG, Mermaid and dot; None: that of steps without a phase."""


_LOOKS: Mapping[str, PhaseLook] = {
    StepPhase.COMPLETED: PhaseLook(
        "completed",
        "✔",
        "+",
        "green",
        3,
        Colour("#17774a", "#52c58d"),
        Colour("#2da44e", "#3fb950"),
    ),
    StepPhase.FAILED: PhaseLook(
        "failed", "✖", "x", "red", 0, Colour("#c02739", "#ff808b"), Colour("#cf222e", "#f85149")
    ),
    JobPhase.RUNNING: PhaseLook(
        "running", "●", "*", "cyan", 1, Colour("#1f5fd0", "#7fabff"), Colour("#0969da", "#58a6ff")
    ),
    JobPhase.PENDING: PhaseLook(
        "pending", "◌", "o", "yellow", 2, Colour("#855700", "#e0b04f"), Colour("#bf8700", "#d29922")
    ),
    StepPhase.WAITING: PhaseLook("waiting", "○", ".", "dim", 5, Colour("#5b6577", "#9da7b8")),
    StepPhase.SKIPPED: PhaseLook("skipped", "⊘", "-", "dim", 4, Colour("#646d7d", "#929cad")),
}
_SAME: Mapping[str, str] = {FlowPhase.SUCCEED: StepPhase.COMPLETED}
OTHER = PhaseLook("other", "◍", "~", "yellow", 1, Colour("#855700", "#e0b04f"))
"""The look of all other phases: Restarting, Completing, Aborting, Terminating."""
LOOKS: Collection[PhaseLook] = (*_LOOKS.values(), OTHER)


def look_of(phase: str) -> PhaseLook:
    """Return how a phase of a flow, step or job is shown."""
    return _LOOKS.get(_SAME.get(phase, phase), OTHER)


def style_of(phase: str) -> str:
    """Return the style of a phase on a terminal."""
    return look_of(phase).style


def icon_of(phase: str, *, ascii_only: bool = False) -> str:
    """Return the icon of a phase, which takes one column."""
    look = look_of(phase)
    return look.ascii_icon if ascii_only else look.icon


def class_of(phase: str) -> str:
    """Return the class of a phase in a style sheet; "" without a phase."""
    return look_of(phase).name if phase else ""
