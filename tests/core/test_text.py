"""Text for messages."""

from datetime import timedelta

import pytest

from jobflow.core.text import format_go_duration, join_names, shorten


def test_long_lists_of_names_and_long_texts_are_shortened() -> None:
    assert join_names([]) == ""
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b"], last="or") == "a or b"
    assert join_names(["a", "b", "c"]) == "a, b and c"
    assert join_names(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert join_names(["a", "b", "c"], total=999) == "a, b, c and 996 more"
    assert shorten("x" * 256) == "x" * 256
    assert shorten("x" * 257) == "x" * 255 + "…"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0, "0s"), (3, "3s"), (90, "1m30s"), (7200, "2h0m0s"), (3661.5, "1h1m1s")],
)
def test_durations_have_the_format_of_go(seconds: float, text: str) -> None:
    assert format_go_duration(timedelta(seconds=seconds)) == text
