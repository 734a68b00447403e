"""What the query of a page asks of logs."""

import pytest

from jobflow.page.logs.feed import MAX_LINES, TAIL, read_selection


@pytest.mark.parametrize(
    ("tail", "lines"),
    [
        ("", TAIL),
        ("7", 7),
        ("99999", MAX_LINES),
        ("100000", MAX_LINES),
        ("1" + "0" * 5000, MAX_LINES),
        ("-1", TAIL),
        ("²", TAIL),
        ("all", TAIL),
    ],
)
def test_a_number_of_lines_is_at_most_the_maximum(tail: str, lines: int) -> None:
    assert read_selection({"tail": tail}, None).tail == lines
