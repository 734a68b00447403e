"""Argo's own examples are converted, checked and run in virtual time."""

from collections.abc import Sequence

import pytest

from support.argo.examples import VERSION, examples, find_folder
from support.argo.outcome import Outcome, convert_example
from support.argo.page import PAGE, page, run_all

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def outcomes() -> Sequence[Outcome]:
    if find_folder() is None:
        pytest.skip("Argo's examples are not here: set ARGO_EXAMPLES to their folder")
    return run_all()


def test_most_examples_are_converted_and_run(outcomes: Sequence[Outcome]) -> None:
    whole = [each for each in outcomes if each.is_whole]
    clean = [each for each in whole if each.is_clean]
    ran = [each for each in whole if each.runs]
    assert len(outcomes) > 190
    assert len(whole) / len(outcomes) > 0.60
    assert len(clean) / len(whole) > 0.98
    assert len(ran) / len(whole) > 0.95


def test_examples_with_gaps_are_still_flows(outcomes: Sequence[Outcome]) -> None:
    faulty = [each.example.name for each in outcomes if not each.is_clean]
    assert len(faulty) <= 3, faulty


def test_no_key_of_an_example_is_unknown(outcomes: Sequence[Outcome]) -> None:
    unknown = [
        (each.example.name, path)
        for each in outcomes
        for _, path, message in each.gaps
        if "is not known to this command" in message
    ]
    assert unknown == []


def test_the_page_has_these_shares(outcomes: Sequence[Outcome]) -> None:
    if VERSION not in str(find_folder()):
        pytest.skip(f"the page is about {VERSION}")
    assert PAGE.read_text() == page(outcomes), "write it: python -m support.argo.page"


def test_the_conversion_is_the_same_each_time(outcomes: Sequence[Outcome]) -> None:
    for example in examples()[:20]:
        texts = [[*convert_example(example).texts.values()] for _ in range(2)]
        assert texts[0] == texts[1]
