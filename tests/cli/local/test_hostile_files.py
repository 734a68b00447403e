"""Any file is answered, within work that follows from its size."""

import time
from functools import partial

import pytest

from support.laws.counted_work import lines_run
from support.laws.hostile_files import hostile_files
from support.sandbox.command_line import Result, jobflow

COMMANDS = ("lint", "migrate", "convert")
CASES = [(command, shape) for shape in hostile_files() for command in COMMANDS]
SMALL = 8_000
MEGABYTE = 1_000_000
SECONDS = 10
CALIBRATION = 40_000_000
"""Additions that take about a second on the machine that SECONDS is meant for."""


def answer(command: str, text: str) -> Result:
    """Return the answer of a command to a file. An exception of the command is one here."""
    found = jobflow(command, "-", stdin=text)
    assert found.code in (0, 1, 2)
    assert found.out or found.err
    return found


@pytest.mark.parametrize(("command", "shape"), CASES)
@pytest.mark.sampled(13, ci=8)
def test_twice_the_file_is_at_most_three_times_the_work(command: str, shape: str) -> None:
    make = hostile_files()[shape]
    answer(command, make(10))  # imports what the command needs
    once, twice = (lines_run(partial(answer, command, make(size))) for size in (SMALL, 2 * SMALL))
    assert twice < 3 * once + 20_000


@pytest.mark.long
@pytest.mark.sampled(40, ci=40)
@pytest.mark.parametrize(("command", "shape"), CASES)
def test_a_megabyte_takes_at_most_ten_seconds_of_cpu(command: str, shape: str) -> None:
    text = hostile_files()[shape](MEGABYTE)
    bound = SECONDS * calibrated() * max(1, len(text) / MEGABYTE)
    begin = time.process_time()
    answer(command, text)
    assert time.process_time() - begin < bound


def calibrated() -> float:
    """Return the CPU seconds of a fixed amount of work."""
    begin = time.process_time()
    total = 0
    for each in range(CALIBRATION):
        total += each
    return time.process_time() - begin
