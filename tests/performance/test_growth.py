"""Growth: exponents between sizes, and a measurement of each quantity. No time is compared."""

import pytest
from bench import growth
from bench.growth import SIZES, Growth


@pytest.mark.parametrize(
    ("values", "exponent"), [([2, 8, 32], 1.0), ([3, 3, 3], 0.0), ([1, 16, 256], 2.0)]
)
def test_the_exponent_is_that_of_the_smallest_and_the_largest_size(
    values: list[float], exponent: float
) -> None:
    assert Growth("plan", "ms", 250, values).exponent == pytest.approx(exponent)


def test_a_quantity_is_printed_with_its_sizes_and_its_exponent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    growth.show([Growth("plan, steps", "ms", 250, [1.0, 4.0, 16.0])])
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["base", *(f"{size}x" for size in SIZES), "exponent"]
    assert line.split() == "plan, steps 250 1.00 4.00 16.00 1.00 ms".split()


@pytest.mark.parametrize("row", growth.times(), ids=lambda row: row[0].replace(" ", "-"))
def test_all_that_is_timed_runs(row: tuple[str, int, growth.MakeWork]) -> None:
    _, base, work = row
    work(min(base, 60))()
