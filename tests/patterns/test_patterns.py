"""Patterns of other workflow engines run as the documentation of these engines says."""

import asyncio
from collections.abc import Mapping
from statistics import median

import pytest

from support.patterns.page import PAGE, lines_of, page
from support.patterns.pattern import Pattern, patterns
from support.patterns.runs import PatternRun, run_patterns
from support.sandbox.command_line import jobflow
from support.selected_cases import selected_cases

PATTERNS = patterns()


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, PatternRun]:
    """Run the patterns of the selected tests."""
    chosen = selected_cases(request, "pattern")
    return asyncio.run(run_patterns(chosen, tmp_path_factory.mktemp("logs")))


@pytest.mark.sampled(3)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_a_pattern(pattern: Pattern, runs: Mapping[str, PatternRun]) -> None:
    run = runs[pattern.name]
    assert (run.flow.status.state.phase, run.phases()) == (pattern.phase, pattern.steps), run.flow
    with_jobs = {name for name in pattern.steps if run.begun.get(name)}
    for before, after in pattern.pairs():
        assert max(run.ended[before]) < min(run.begun[after]), f"{before} < {after}"
    for step in with_jobs | set(pattern.jobs):
        assert len(run.begun.get(step, ())) == pattern.jobs.get(step, 1), step
    for step, outputs in pattern.outputs.items():
        assert run.outputs(step) == outputs
    if pattern.flow_outputs is not None:
        assert run.flow.status.outputs == pattern.flow_outputs
    if pattern.at_once is not None:
        assert run.at_once() == pattern.at_once


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)
def test_a_pattern_has_no_faults(pattern: Pattern) -> None:
    answer = jobflow("lint", pattern.path)
    assert (answer.code, answer.err) == (0, "")


def test_the_page_has_the_patterns_of_the_folder() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m support.patterns.page"


def test_there_are_enough_patterns_and_they_are_short() -> None:
    compared = [(lines_of(each), each.lines) for each in PATTERNS if each.lines]
    assert len(PATTERNS) >= 86
    assert median(ours / theirs for ours, theirs in compared) <= 1
