"""Expressions: what holds of any text, any context, and of all that goes over lists."""

from __future__ import annotations

import re
import string
from typing import Any

import cel
import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.core import expressions
from jobflow.core.cel_words import split
from jobflow.core.cel_work import ERRORS
from jobflow.core.expressions import Expression, Failure, Fault, expression
from laws import tries

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
    found = expression(text)
    if isinstance(found, Fault):
        assert found.message
        assert found.at is None or 0 <= found.at <= len(text)
        return
    value = found.evaluate(context)
    if not isinstance(value, Failure):
        msgspec.json.encode(value)
        assert found.evaluate(context) == value


@tries(200)
@given(TEXTS)
def test_words_and_what_is_between_them_are_the_text(text: str) -> None:
    behind = 0
    for word in split(text):
        assert word.at >= behind
        assert text[word.at : word.end] == word.text
        between = text[behind : word.at]
        assert not between.strip() or between.lstrip().startswith("//")
        behind = word.end


# ------------------------------------------------- the same as the library by itself

NUMBERS = st.integers(-3, 9).map(str)
VARIABLES = st.sampled_from(["a", "b", "m.k", "m['k']", "s", "x", "y"])


def _loops(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions around others: lists, comparisons, and loops over them."""
    macro = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    name = st.sampled_from(["x", "y", "a"])
    sign = st.sampled_from(["+", "-", "==", "<", "&&", "||", "in"])
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.builds("({} {} {})".format, inner, sign, inner),
        st.builds("{}.{}({}, {})".format, inner, macro, name, inner),
        st.builds("l.{}({}, {})".format, macro, name, inner),
        st.builds("l.map({}, {}, {})".format, name, inner, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("size({})".format, inner),
        st.builds("!{}".format, inner),
        st.builds("{{'k': {}}}".format, inner),
    )


EXPRESSIONS = st.recursive(NUMBERS | VARIABLES, _loops, max_leaves=8)
GIVEN = {"a": 2, "b": True, "m": {"k": [1, 2]}, "s": "text", "l": [3, 1, 2], "x": [1], "y": 0}


@tries(400)
@given(EXPRESSIONS)
@example("l.map(x, l.map(y, x + y))")
@example("[a, l.filter(x, x > 1)]")
@example("[1, l.map(x, x)].exists(y, y == 1)")
def test_what_goes_over_lists_gives_what_the_library_gives(text: str) -> None:
    """Where the library gives nothing, neither do we; its own errors in loops differ in words."""
    found = expression(text)
    if not isinstance(found, Expression):
        return
    value = found.evaluate(GIVEN)
    try:
        alone = cel.compile(text).execute(GIVEN)
    except ERRORS:
        assert isinstance(value, Failure), value
        return
    assert value == alone, (value, alone)


WRITTEN = re.compile(r"""(?<!\w)("[^"\n]*"|'[^'\n]*')""")


@tries(400)
@given(EXPRESSIONS | TEXTS, st.sampled_from(["'k'", '"zz"', "''", '"a b"']))
@example("steps['a'].tasks['b'].Failed == l.filter(x, x != 'c').size() || s == 'text'", "'long'")
@example("m[s]['k'].all(x, x in ['k']) && 'k' in m && a.b['c'][0].d", '"zz"')
@example("m.exists(x, x == 'k') ? m['k'] : ['no', \"y\"].map(y, y + 'k')", "'k'")
@example("x.'a'", "'b'")
@example("'a'()", "'b'")
def test_an_expression_is_read_as_if_it_were_the_first_of_its_form(text: str, other: str) -> None:
    """`m['a']` after `m['b']`: the same words at the same places, the same value or fault."""
    second = WRITTEN.sub(lambda found: other, text)
    alone = _after("", second)
    found = _after(text, second)
    assert found == alone
    if isinstance(found, Expression) and isinstance(alone, Expression):
        assert found.evaluate(GIVEN) == alone.evaluate(GIVEN)


def _after(first: str, second: str) -> Expression | Fault:
    """The second expression as it is read where only the first one was before."""
    expressions.parsed.cache_clear()
    expressions.form_of.cache_clear()
    expression(first)
    return expression(second)


@tries(200)
@given(JSON)
@example(2**70)
@example([2**70, {"k": -(2**70)}])
@example(["\ud800"])
@example({"\ud800": 1})
def test_what_is_taken_along_a_way_is_what_the_library_takes(value: Any) -> None:
    """In a loop `m.k` is not evaluated, and `(m.k)` is."""
    found, alone = expression("l.map(x, m.k)"), expression("l.map(x, (m.k))")
    assert isinstance(found, Expression) and isinstance(alone, Expression)
    given = {"l": [1], "m": {"k": value}}
    assert _told(found.evaluate(given)) == _told(alone.evaluate(given))


def _told(value: Any) -> Any:
    """JSON that tells numbers apart by their types; the order of a map's keys is not the library's
    to keep."""
    return value if isinstance(value, Failure) else msgspec.json.encode(value, order="sorted")


@given(st.lists(st.integers(-9, 9) | st.floats(-9, 9), min_size=1, max_size=6))
def test_folds_are_those_of_numbers(numbers: list[float]) -> None:
    for name, fold in {"max": max, "min": min, "sum": sum}.items():
        found = expression(f"l.{name}()")
        assert isinstance(found, Expression)
        assert found.evaluate({"l": numbers}) == fold(numbers)


@given(st.text(string.ascii_letters + "_.[]()'\" -", max_size=30))
def test_mentions_stand_where_they_say(text: str) -> None:
    found = expression(text)
    if isinstance(found, Expression):
        for mention in found.words.mentions:
            assert text.startswith(mention.root, mention.at)
