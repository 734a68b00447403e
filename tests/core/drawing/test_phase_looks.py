"""The table of the looks of phases."""

from itertools import chain

import pytest

from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.drawing.phase_looks import LOOKS, OTHER, PhaseLook, class_of, look_of


def luminance(colour: str) -> float:
    """The relative luminance by the definition of WCAG 2."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    ]
    return sum(part * each for part, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_texts_can_be_read_on_the_grounds_of_the_page(look: PhaseLook) -> None:
    assert contrast(look.text.light, "#f6f7f9") >= 4.5
    assert contrast(look.text.dark, "#1c222d") >= 4.5


def test_phases_of_steps_differ_by_icon_also_without_colours() -> None:
    looks = [look_of(phase) for phase in (*StepPhase, JobPhase.RUNNING, JobPhase.PENDING)]
    assert len({look.icon for look in looks}) == len({look.ascii_icon for look in looks}) == 6
    assert OTHER not in looks


def test_every_phase_has_a_look() -> None:
    assert {look_of(phase) for phase in chain(FlowPhase, StepPhase, JobPhase)} == set(LOOKS)
    assert look_of("Succeed") is look_of("Completed")
    assert (class_of("Restarting"), class_of("")) == ("other", "")
