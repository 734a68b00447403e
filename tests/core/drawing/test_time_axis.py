"""Round times on the axis of a timeline."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.drawing.svg import ticks
from jobflow.core.text import format_duration


@pytest.mark.parametrize(
    ("seconds", "most", "labels"),
    [
        (0, 5, "0s"),
        (1, 5, "0s"),
        (5, 6, "0s 1s 2s 3s 4s"),
        (75, 6, "0s 15s 30s 45s 1m"),
        (3600, 4, "0s 15m 30m 45m"),
        (86400 * 40, 5, "0s 8d 16d 24d 32d"),
    ],
)
def test_times_are_round(seconds: int, most: float, labels: str) -> None:
    found = ticks(timedelta(seconds=seconds), most)
    assert " ".join(format_duration(tick) for tick, _ in found) == labels


@given(st.integers(0, 10**9), st.floats(0.1, 100))
def test_there_are_not_too_many_and_all_are_within(seconds: int, most: float) -> None:
    found = [*ticks(timedelta(seconds=seconds), most)]
    assert 1 <= len(found) <= max(most, 1) + 1
    assert found[0] == (timedelta(), 0.0)
    assert all(0 <= share < 1 for _, share in found)
