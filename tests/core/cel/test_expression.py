"""CEL expressions: values, failures and faults."""

from typing import Any

import pytest

from jobflow.core.cel import expression as expressions
from jobflow.core.cel.budget import Budget
from jobflow.core.cel.expression import (
    EvaluationFailure,
    Expression,
    ExpressionFault,
    parse_expression,
)
from jobflow.core.cel.language.functions import FUNCTIONS

ITEMS = [{"phase": "Completed", "outputs": {"acc": acc}} for acc in (0.5, 0.9, 0.7)]
CONTEXT: dict[str, Any] = {
    "params": {"workers": 4, "name": "v12", "flags": ["a", "b"], "deep": {"x": {"y": 1}}},
    "steps": {
        "train": {"phase": "Completed", "outputs": {"acc": 0.9}, "attempts": 1},
        "a-b": {"phase": "Failed", "outputs": {}, "tasks": {"worker": {"Succeeded": 3}}},
        "search": {"items": ITEMS},
    },
    "index": 2,
    "item": {"lr": 0.1},
}


def parsed(text: str) -> Expression:
    found = parse_expression(text)
    assert isinstance(found, Expression), found
    return found


def value_of(text: str, context: dict[str, Any] = CONTEXT) -> Any:
    value = parsed(text).evaluate(context)
    assert not isinstance(value, EvaluationFailure), value.message
    return value


def failure_of(text: str, context: dict[str, Any] = CONTEXT) -> EvaluationFailure:
    value = parsed(text).evaluate(context)
    assert isinstance(value, EvaluationFailure), value
    return value


def fault_of(text: str) -> ExpressionFault:
    found = parse_expression(text)
    assert isinstance(found, ExpressionFault), found
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("params.workers > 3", True),
        ("params.workers * 2", 8),
        ('params.name.startsWith("v")', True),
        ('params.name.matches("^v[0-9]+$")', True),
        ('"b" in params.flags', True),
        ("params.deep.x.y == 1", True),
        ('steps.train.phase == "Completed" && steps.train.outputs.acc > 0.8', True),
        ('steps["a-b"].tasks["worker"].Succeeded == 3', True),
        ('has(steps["a-b"].outputs.acc)', False),
        ('has(steps["a-b"].outputs.acc) && steps["a-b"].outputs.acc > 1', False),
        ("index < 3 ? item.lr : 0.0", 0.1),
        ("[1, 2.5, null, 'x', {'a': [true]}]", [1, 2.5, None, "x", {"a": [True]}]),
        ("size(params.flags) + size('abc')", 5),
        ("string(params.workers) + 's'", "4s"),
        ("1 == 1.0 && 1 < 1.5", True),
        ("type(params.workers) == int", True),
        ('timestamp("2026-01-01T00:00:00Z") < timestamp("2027-01-01T00:00:00Z")', True),
        ('duration("90s").getMinutes()', 1),
        ("params . workers // how many\n > 3", True),
    ],
)
def test_expressions_have_values(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("steps.search.items.all(i, i.phase == 'Completed')", True),
        ("steps.search.items.exists(i, i.outputs.acc > 0.8)", True),
        ("steps.search.items.exists_one(i, i.outputs.acc > 0.6)", False),
        ("steps.search.items.map(i, i.outputs.acc)", [0.5, 0.9, 0.7]),
        ("steps.search.items.map(i, i.outputs.acc > 0.6, i.outputs.acc)", [0.9, 0.7]),
        ("steps.search.items.filter(i, i.outputs.acc > 0.6).size()", 2),
        ("steps.search.items.map(i, i.outputs.acc).max()", 0.9),
        ("steps.search.items.map(i, i.outputs.acc).min() < params.workers", True),
        ("params.flags.max() + params.flags.min()", "ba"),
        ("[1, 2].sum() == 3 && [].sum() == 0", True),
        (
            "steps.search.items.filter(i, i.outputs.acc == "
            "steps.search.items.map(j, j.outputs.acc).max())[0].outputs",
            {"acc": 0.9},
        ),
        ("[1, 2].map(x, [10, 20].map(y, x * y))", [[10, 20], [20, 40]]),
        ("[[1, 2], [3]].map(x, x.map(x, x + 1))", [[2, 3], [4]]),
        ("[1, 2].map(x, x) == [1, 2] && ![1].exists(x, x > 1)", True),
        ("{'b': 1, 'a': 2}.exists(k, k == 'a')", True),
        ("params.deep.all(k, k == 'x')", True),
        ("1 in [1, 2].map(x, x + 1)", False),
        ("-[1, 2].map(x, x)[1]", -2),
        ("(params.workers > 1 ? [1] : [2]).map(x, x + 1)", [2]),
        ("[1].map(index, index * 10)[0] + index", 12),
        ("'map(x, 1)' + string([1].map(x, x)[0]) // .map(y, y)", "map(x, 1)1"),
        ("params.workers > 3 || [1].map(x, x / 0) == []", True),
        ("params.workers < 3 ? [1].map(x, x / 0) : []", []),
        ("[1, 0].exists(x, 1 / x == 1)", True),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 2].all(x, 1 / x == 1)", False),
    ],
)
def test_macros_and_folds_have_values(text: str, value: Any) -> None:
    assert value_of(text) == value


COMPARES = "compares a list of numbers or a list of texts"


@pytest.mark.parametrize(
    ("text", "message", "missing"),
    [
        ("steps.train.outputs.loss > 1", "there is no 'loss'", True),
        ("params.flags[7]", "index out of bounds: 7", True),
        ("[].max()", "an empty list has no max", True),
        ("[1, 'a'].max()", f"max {COMPARES}", False),
        ("['a'].sum()", "sum adds up a list of numbers", False),
        ("nothing", "there is no variable or function nothing", False),
        ("strange(1)", "there is no variable or function strange", False),
        ("string([1])", "string does not take a list", False),
        ("params.workers / 0", "division by zero", False),
        ("params.workers.map(x, x)", "map goes over a list or a map, not a whole number", False),
        ("[1].all(x, x)", "the test of a loop gives a whole number, not true or false", False),
        ("[1].map(x, x / 0)", "division by zero", False),
        ("[0, 0].exists(x, 1 / x == 1)", "division by zero", False),
        ("1.0 / 0.0", "gives inf, which JSON cannot hold", False),
        ("{1: 2}", "gives a map whose keys are not texts", False),
        ("duration('1h')", "gives a duration; give a text, number, list or map", False),
        ("[duration('1h')]", "gives a duration; give a text, number, list or map", False),
    ],
)
def test_an_expression_without_a_value_has_a_message(
    text: str, message: str, missing: bool
) -> None:
    assert failure_of(text) == EvaluationFailure(message, missing=missing)


LARGE_PATTERN = "the pattern of matches is too large; use fewer repetitions"


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "is empty", None),
        ("  \n", "is empty", None),
        ("x" * 1025, "has 1,025 characters; at most 1,024 are allowed", None),
        ("[" * 17 + "]" * 17, "nests brackets deeper than 16", 16),
        ("1 +", "is not a CEL expression: it ends too early", 3),
        ("a == 1 &&\nb ==", "is not a CEL expression: it ends too early", 14),
        ("a = 1", "is not a CEL expression: unexpected '='", 2),
        ("a ? b", "is not a CEL expression: it ends too early", 5),
        ("a\u200b == 1", "has the invisible character U+200B; remove it", 1),
        ("if == 1", "is not a CEL expression: if is a reserved word", 0),
        ("18446744073709551616", "is not a CEL expression: a number of more than 64 bits", 0),
        ("'a\\q'", "is not a CEL expression: unknown escape \\q in a text; write \\\\q", 0),
        ("has(a)", "has takes a name with a key, as in has(params.x)", 0),
        ("a.all(1, true)", "write all as in params.list.all(x, x > 1)", 2),
        (
            "params.x.matches(params.y)",
            'the pattern of matches must be a literal text, as in params.x.matches("^v[0-9]+$")',
            9,
        ),
        (r"x.matches('(\\pL{9}){9}')", LARGE_PATTERN, 2),
        ("a.matches('[')", "the pattern of matches is not a regular expression", 2),
        (f"a.matches('{'x' * 257}')", LARGE_PATTERN, 2),
    ],
)
def test_an_invalid_expression_is_a_fault(text: str, message: str, at: int | None) -> None:
    assert fault_of(text) == ExpressionFault(message, at)


THOUSAND = list(range(1000))
LARGE = [{"phase": "Completed", "outputs": {"acc": i, "notes": "x" * 50}} for i in THOUSAND]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("l.map(x, x.outputs.acc)", 1000),
        ("l.filter(x, x.outputs.acc >= 500)", 500),
        ("l.filter(x, x.outputs.acc < l.size() - 1)", 999),
        ("l.filter(x, x.phase == 'Completed').map(x, x.outputs.acc)", 1000),
    ],
)
def test_lists_of_a_thousand_entries_are_evaluated(text: str, size: int) -> None:
    assert len(value_of(text, {"l": LARGE})) == size


@pytest.mark.parametrize(
    "text",
    [
        "l.map(x, l.map(y, x))",
        "l.all(x, l.all(y, l.all(z, true)))",
        "l.map(x, l)",
        "l" + ".map(x, [x, x])" * 16,
        "+".join(["s"] * 500),
        "size(" + "+".join(["l"] * 400) + ")",
        "l.exists(x, s.matches('(.*)(.*)(.*)(.*)y'))",
        "l.exists(x, s.matches('\\\\w+\\\\d{5}$'))",
        "l.exists(x, l.map(y, y).map(y, y) == [x])",
    ],
)
def test_hostile_expressions_are_stopped(text: str) -> None:
    failure = failure_of(text, {"l": THOUSAND, "s": "x" * 60_000})
    assert failure.message.startswith(("it takes more than", "gives more than", "it creates more"))


TRIALS = [
    {"name": "a", "outputs": {"acc": 0.7}},
    {"name": "b", "outputs": {"acc": 0.9}},
    {"name": "c", "outputs": {}},
    {"name": "d", "outputs": {"acc": 0.9}},
    {"name": "e"},
    7,
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("l.maxBy('outputs.acc').name", "b"),
        ("l.minBy('outputs.acc').name", "a"),
        ("l.maxBy('name').name", "e"),
        ("[{'n': 1}, {'n': 1.5}].maxBy('n').n", 1.5),
        ("[{'n': 1, 'm': 1}, {'n': 1, 'm': 2}].minBy('n').m", 1),
        ("[{'n': 0.0 / 0.0, 'm': 1}, {'n': 1, 'm': 2}].minBy('n').m", 2),
    ],
)
def test_max_by_and_min_by_compare_the_values_at_a_path(text: str, value: Any) -> None:
    """Entries without the path are ignored; the first of several is returned."""
    assert value_of(text, {"l": TRIALS}) == value


@pytest.mark.parametrize(
    ("text", "message", "missing"),
    [
        ("[].maxBy('a.b')", "no entry of the list has 'a.b'", True),
        ("[{'a': 1}].minBy('b')", "no entry of the list has 'b'", True),
        ("[{'a': 1}, {'a': 'x'}].maxBy('a')", f"maxBy {COMPARES}", False),
        ("[{'a': true}].maxBy('a')", f"maxBy {COMPARES}", False),
        ("{'a': 1}.maxBy('a')", "maxBy does not take a map and a text", False),
    ],
)
def test_max_by_and_min_by_without_a_value_have_a_message(
    text: str, message: str, missing: bool
) -> None:
    assert failure_of(text) == EvaluationFailure(message, missing=missing)


def test_max_by_takes_linear_time() -> None:
    budgets = []
    for count in (100, 1000):
        budgets.append(Budget())
        entries = [{"outputs": {"acc": number}} for number in range(count)]
        best = parsed("l.maxBy('outputs.acc').outputs.acc").evaluate({"l": entries}, budgets[-1])
        assert best == count - 1
    spent = [Budget().steps - budget.steps for budget in budgets]
    assert spent[1] < 10 * spent[0]


def test_the_size_of_a_result_is_limited() -> None:
    assert failure_of("[a, a]", {"a": [0] * 40_000}).message == "gives more than 65,536 values"
    failure = failure_of("s + s", {"s": "x" * 40_000})
    assert failure.message == "gives a text of 80,000 characters"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_nested_too_deep_cannot_be_compared() -> None:
    assert value_of("x", {"x": nested(90)}) == nested(90)
    for depth in (100, 1000, 100_000):
        failure = failure_of("x == x", {"x": nested(depth)})
        assert failure.message == "it looks at a value that is nested deeper than 100"


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
        (2**70, float(2**70)),
        (-(2**70), -float(2**70)),
    ],
)
def test_numbers_of_more_than_64_bits_are_doubles(number: int, value: float) -> None:
    assert value_of("x", {"x": number}) == value
    assert type(value_of("x", {"x": number})) is type(value)


def test_the_first_entry_of_a_map_that_is_not_json_is_in_the_message() -> None:
    assert failure_of("{'a': 0.0 / 0.0, 'b': 1.0 / 0.0}").message.startswith("gives nan, ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, object(), "\ud800", b"x"])
def test_a_value_that_is_no_json_is_a_failure(value: object) -> None:
    assert isinstance(parsed("x").evaluate({"x": value}), EvaluationFailure)


@pytest.mark.parametrize(
    "value", [3, 2**64, -(2**70), {"deep": [2**64]}, "\u00e9\u0007", ["\u00e9\n"], {"\u00e9\n": 1}]
)
def test_a_loop_gives_the_values_of_its_entries(value: object) -> None:
    plain = value_of("x.y", {"x": {"y": value}})
    (mapped,) = value_of("l.map(x, x.y)", {"l": [{"y": value}]})
    assert repr(mapped) == repr(plain)
    assert isinstance(parsed("l.map(x, x.y)").evaluate({"l": [{"y": "\ud800"}]}), EvaluationFailure)


def test_a_shared_entry_costs_as_much_each_time() -> None:
    """Items that have not started are one shared object."""
    entry = {"phase": "Waiting", "outputs": {"acc": 1}}
    one, many = [entry] * 50, [dict(entry) for _ in range(50)]
    for text, value in {
        "l.all(x, x.phase == 'Waiting')": True,
        "l.exists(x, x.phase == 'Running')": False,
        "l.map(x, x.outputs.acc)": [1] * 50,
        "l.filter(x, x.outputs.acc > 1)": [],
        "l.exists_one(x, x.phase == 'Waiting')": False,
    }.items():
        budgets = [Budget(), Budget()]
        assert [
            parsed(text).evaluate({"l": entries}, budget)
            for entries, budget in zip((one, many), budgets, strict=True)
        ] == [value, value]
        assert budgets[0].steps == budgets[1].steps < Budget().steps


def test_parsed_expressions_are_cached() -> None:
    assert parse_expression("params.remembered") is parse_expression("params.remembered")


def test_expressions_that_are_too_long_are_not_cached() -> None:
    before = expressions.parse_cached.cache_info().currsize
    assert isinstance(parse_expression("1" * (expressions.MAX_LENGTH + 1)), ExpressionFault)
    assert expressions.parse_cached.cache_info().currsize == before


TIME = "'2026-01-01T00:00:00Z'"
ARGUMENTS = (
    "", "'a'", "'a.b'", "'1'", "'1h'", TIME, "1", "1.5", "true", "[1]", "x, true", "1, 2",
    "'a', 'b'", "[1], [2]", "{'a': 1}, 'a', 2",
)  # fmt: skip
RECEIVERS = (
    "", "'a'.", "[1].", "['a'].", "[{'a': 1}].", f"timestamp({TIME}).", "duration('1h').",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS - {"has"}))
def test_every_known_function_can_be_called(name: str) -> None:
    calls = [f"{receiver}{name}({argument})" for receiver in RECEIVERS for argument in ARGUMENTS]
    found = [each for call in calls if isinstance(each := parse_expression(call), Expression)]
    values = [each.evaluate({}) for each in found]
    assert any(
        not isinstance(value, EvaluationFailure) or "; give a text" in value.message
        for value in values
    )
