"""Requests of a flow, instructions of Python and functions of a plan do not grow unnoticed:
`python -m bench counts` and `python -m bench functions`."""

import pytest
from bench import counts, functions
from bench.counts import Count


@pytest.mark.long
def test_no_count_is_over_the_stored_one_by_more_than_a_tenth() -> None:
    found = list(counts.counted())
    assert [count for count in found if count.is_over] == []
    assert {count.what for count in found} == set(counts.stored())


def test_a_plan_in_mid_flight_walks_through_few_functions() -> None:
    walked = {phase: len(found) for phase, found in functions.walked()}
    assert all(0 < count <= functions.MOST for count in walked.values()), walked


@pytest.mark.parametrize(
    ("value", "stored", "is_judged", "is_over"),
    [
        (110, 100, True, False),
        (111, 100, True, True),
        (111, 100, False, False),
        (1, None, True, True),
    ],
)
def test_a_count_fails_over_a_tenth(
    value: float, stored: float | None, is_judged: bool, is_over: bool
) -> None:
    assert Count("plan", "instructions", value, stored, is_judged).is_over is is_over


def test_what_fails_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert not counts.show(
        [Count("a", "instructions", 111, 100, True), Count("b", "instructions", 1, 1, False)]
    )
    _, over, other = capsys.readouterr().out.splitlines()
    assert over.split() == "a 111 100 1.11 instructions over the limit".split()
    assert other.split() == "b 1 1 1.00 instructions not judged".split()
