"""The functions of lists, maps and texts: values, failures and bounds."""

import re
import tracemalloc
from typing import Any

import pytest

from jobflow.core.cel.budget import Budget
from jobflow.core.cel.expression import (
    EvaluationFailure,
    Expression,
    ExpressionFault,
    parse_expression,
)
from support.paths import ROOT

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
FUNCTION_TABLE = re.findall(
    r"^\|.*\| `(.+?)` \| `(.+?)` \|$",
    REFERENCE.partition("**Further functions**")[2].partition("**The best of a list**")[0],
    re.MULTILINE,
)
THOUSAND = list(range(1000))


def evaluate(text: str, context: dict[str, Any] | None = None, budget: Budget | None = None) -> Any:
    found = parse_expression(text)
    assert isinstance(found, Expression), found
    return found.evaluate(context or {}, budget)


def failure_of(text: str, context: dict[str, Any] | None = None) -> EvaluationFailure:
    value = evaluate(text, context)
    assert isinstance(value, EvaluationFailure), value
    return value


@pytest.mark.parametrize(("text", "value"), FUNCTION_TABLE)
def test_a_function_has_the_value_in_the_reference(text: str, value: str) -> None:
    assert evaluate(text) == evaluate(value)


def test_the_reference_has_an_example_of_each_further_function() -> None:
    further = {"get", "range", "product", "json", "flatten", "distinct", "sort", "split", "join"}
    shown = " ".join(text for text, _ in FUNCTION_TABLE)
    assert further <= set(re.findall(r"\w+(?=\()", shown))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("get([7], 0, 1)", 7),
        ("get([7], 1, 'none')", "none"),
        ("get({'a': null}, 'a', 1)", None),
        ("get({1: 2}, 1.0, 0)", 2),
        ("range(0)", []),
        ("range(-1)", []),
        ("product([], [1])", []),
        ("product(product([1], [2]), [3])", [[[1, 2], 3]]),
        ('json(\'{"a": [1.5, null, "x"]}\').a', [1.5, None, "x"]),
        ("json('18446744073709551616')", 2.0**64),
        ("[[[1]], [[2]]].flatten(2)", [1, 2]),
        ("[[1]].flatten(0)", [[1]]),
        ("[].flatten()", []),
        ("[1, 1.0, 1u, true, '1', null, null].distinct()", [1, True, "1", None]),
        ("[[1, {'a': 2}], [1.0, {'a': 2u}], [1, {}]].distinct()", [[1, {"a": 2}], [1, {}]]),
        ("[0.5, -0.0, 0].distinct()", [0.5, -0.0]),
        ("[{'a': 1, 'b': 2}, {'b': 2, 'a': 1}].distinct().size()", 1),
        ("[0.0 / 0.0, 0.0 / 0.0].distinct().size()", 2),
        ("[2.5, 1, 3u].sort()", [1, 2.5, 3]),
        ("['b', 'a', ''].sort()", ["", "a", "b"]),
        ("[].sort()", []),
        ("['a', 'b'].join()", "ab"),
        ("'%s'.format([{'b': [1, null], 'a': 'x'}])", "{a: x, b: [1, null]}"),
        ("'\u00c4Z'.lowerAscii()", "\u00c4z"),
    ],
)
def test_further_functions_have_values(text: str, value: Any) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("get('a', 'b', 1)", "a text has no entries, so there is no 'b'"),
        ("get({}, 'a')", "get does not take a map and a text"),
        ("range(1.5)", "range does not take a decimal number"),
        ("json('{')", "json takes a text of JSON: "),
        (f"json('{'[' * 101}{']' * 101}')", "it looks at a value that is nested deeper than 100"),
        ("[1].flatten(-1)", "flatten takes a number of levels from 0"),
        ("[1, 'a'].sort()", "sort compares a list of numbers or a list of texts"),
        ("[1].join()", "join takes a list of texts; write list.map(x, string(x)).join(…)"),
        ("'%s'.format([])", "format has no value for '%s': 0 are given"),
        ("'%5d'.format([1])", "format does not know '%5'; write %s, %d, %.2f or %%"),
        ("'%d'.format([1.5])", "%d does not take a decimal number"),
    ],
)
def test_further_functions_say_what_they_do_not_take(text: str, message: str) -> None:
    assert failure_of(text).message.startswith(message)


def test_there_is_no_optional_syntax() -> None:
    assert isinstance(parse_expression("params.?x"), ExpressionFault)


@pytest.mark.parametrize(
    "text",
    [
        "range(9223372036854775807)",
        "range(100000).map(i, range(100000))",
        "product(range(1000), range(1000))",
        "range(1000).map(i, range(1000)).flatten()",
        "s.split('')",
        "s.replace('', s)",
        "l.map(i, s).join(s)",
        "l.map(i, s).distinct()",
        "l.map(i, s + string(i)).sort()",
        "s.replace('x', '%s').format(l.map(i, s))",
        "'%s%s'.format([l.map(i, s), l.map(i, s)])",
        "json('[' + s.replace('x', '{},') + '0]')",
    ],
)
def test_a_large_result_is_refused_before_it_is_made(text: str) -> None:
    tracemalloc.start()
    try:
        failure = failure_of(text, {"l": THOUSAND, "s": "x" * 60_000})
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert failure.message.startswith(("it takes more than", "gives ", "it creates more"))


def test_distinct_takes_linear_time_for_numbers_with_equal_hashes() -> None:
    same_hash = [2.0 ** (61 * power) for power in range(16)]
    budgets = []
    for count in (100, 1000):
        pairs = [[a, b] for a in same_hash for b in same_hash] * (count // 100)
        budgets.append(Budget())
        assert len(evaluate("l.distinct()", {"l": pairs}, budgets[-1])) == 256
    spent = [Budget().steps - budget.steps for budget in budgets]
    assert spent[1] < 11 * spent[0]
