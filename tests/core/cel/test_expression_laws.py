"""Expressions: laws of any text and any context."""

import string
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.core.cel.expression import (
    EvaluationFailure,
    Expression,
    ExpressionFault,
    parse_expression,
)
from support.laws.effort_of_laws import tries

WORDS = st.sampled_from(
    """a b x y steps params "a" 'b' 1 2.5 0x1F 1u true null in && || == != < > + - * / % ! ? : . , (
    ) [ ] { } size has map filter all exists matches max string duration r'\\' b'x' ''' // " ' ~ é
    """.split()
)
TEXTS = st.text(max_size=40) | st.lists(WORDS, max_size=25).map(" ".join)
TEXTS |= st.lists(WORDS, max_size=25).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=15,
)
NAMES = st.sampled_from(["a", "b", "x", "y", "steps", "params"])
CONTEXTS = st.dictionaries(NAMES, JSON, max_size=4)


@tries(200)
@given(TEXTS, CONTEXTS)
@example("\ud800", {})
@example("a.map(a, a)", {"a": [1]})
def test_any_text_is_an_expression_or_a_fault_and_gives_json_or_a_failure(
    text: str, context: dict[str, Any]
) -> None:
    found = parse_expression(text)
    if isinstance(found, ExpressionFault):
        assert found.message
        assert found.at is None or 0 <= found.at <= len(text)
        return
    value = found.evaluate(context)
    if not isinstance(value, EvaluationFailure):
        msgspec.json.encode(value)
        assert found.evaluate(context) == value


@given(st.lists(st.integers(-9, 9) | st.floats(-9, 9), min_size=1, max_size=6))
def test_folds_equal_those_of_python(numbers: list[float]) -> None:
    for name, fold in {"max": max, "min": min, "sum": sum}.items():
        found = parse_expression(f"l.{name}()")
        assert isinstance(found, Expression)
        assert found.evaluate({"l": numbers}) == fold(numbers)


@given(st.text(string.ascii_letters + "_.[]()'\" -", max_size=30))
def test_mentions_have_the_right_positions(text: str) -> None:
    found = parse_expression(text)
    if isinstance(found, Expression):
        for mention in found.mentions:
            assert text.startswith(mention.root, mention.at)
