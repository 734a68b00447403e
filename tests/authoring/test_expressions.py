"""Expressions in Python: the CEL that they write has the value that Python would compute."""

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.authoring import Expr, Flow, cel, choose, failure, index, item, last, outputs, var
from jobflow.authoring.objects.expressions import reference_to, to_cel
from jobflow.core.cel.expression import Expression, parse_expression

flow = Flow("f")
a = flow.step("a")
dotted = flow.step("a.b-c")
VALUES = {"a": 3, "b": -2, "c": 0}


def numbers() -> st.SearchStrategy[str]:
    leaf = st.sampled_from([*VALUES, "1", "-4"])
    signs = st.sampled_from(["{} + {}", "{} - {}", "{} * {}", "({} - {})", "-({} + {})"])
    return st.recursive(
        leaf, lambda inner: st.builds(str.format, signs, inner, inner), max_leaves=5
    )


def conditions() -> st.SearchStrategy[str]:
    signs = st.sampled_from(
        [
            "({} < {})",
            "({} <= {})",
            "({} == {})",
            "({} != {})",
            "({} > {})",
            "(({}) / 2 >= ({}) / 3)",
        ]
    )
    leaf = st.builds(str.format, signs, numbers(), numbers())
    joins = st.sampled_from(["({} & {})", "{} & {}", "({} | {})", "no({} | {})", "no({}) & {}"])
    return st.recursive(
        leaf, lambda inner: st.builds(str.format, joins, inner, inner), max_leaves=5
    )


@given(st.one_of(numbers(), conditions()))
def test_an_expression_has_the_value_that_python_computes(text: str) -> None:
    written = eval(text, {name: flow.params[name] for name in VALUES} | {"no": lambda x: ~x})
    expected = eval(text, VALUES | {"no": lambda x: not x})
    if isinstance(written, Expr):
        parsed = parse_expression(to_cel(written))
        assert isinstance(parsed, Expression), parsed
        assert parsed.evaluate({"params": VALUES}) == expected


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (a.outputs.accuracy > flow.params.goal, 'steps["a"].outputs.accuracy > params.goal'),
        (dotted.items[0].outputs["x-y"], 'steps["a.b-c"].items[0].outputs["x-y"]'),
        ((item.a == "x") & ~a.outputs.ok, 'item.a == "x" && !steps["a"].outputs.ok'),
        (a.items.map(lambda i: i.outputs.n).max(), 'steps["a"].items.map(i, i.outputs.n).max()'),
        (a.item.phase == "Failed", 'steps["a"].item.phase == "Failed"'),
        (cel.has(last.outputs) & (last.index > 1), "has(last.outputs) && last.index > 1"),
        (cel("a || b") & (index > 0), "(a || b) && index > 0"),
        (item.is_in(["a", 'b"']), 'item in ["a", "b\\""]'),
        (choose(failure.reason == "OOMKilled", 2, 1), 'failure.reason == "OOMKilled" ? 2 : 1'),
        (1 - item, "1 - item"),
        (item["in"], 'item["in"]'),
        (item / 2, "double(item) / double(2)"),
        (cel.get(a.outputs, "n", None), 'get(steps["a"].outputs, "n", null)'),
        (item + {"a": [1.5, True]}["a"], "item + [1.5, true]"),
    ],
)
def test_an_expression_is_written_in_cel(expr: Expr, text: str) -> None:
    assert to_cel(expr) == text
    assert repr(expr) == f"Expr({text})"


@pytest.mark.parametrize(
    ("expr", "reference"),
    [
        (item, "$(item)"),
        (item.rate, "$(item.rate)"),
        (flow.params.list[0], "$(params.list.0)"),
        (dotted.outputs.x, "$(steps.a.b-c.outputs.x)"),
        (a.failure.exitCode, "$(steps.a.failure.exitCode)"),
        (a.job, "$(steps.a.job)"),
        (dotted.item.outputs.x, "$(steps.a.b-c.item.outputs.x)"),
        (a.item.failure.exitCode, "$(steps.a.item.failure.exitCode)"),
        (a.item.phase, "$(steps.a.item.phase)"),
        (a.item, None),
        (var.x, "$(vars.x)"),
        (a.items, None),
        (a.attempts, None),
        (flow.params, None),
        (item["a.b"], None),
        (item["a b"], None),
        (item[index], None),
        (item + 1, None),
        (outputs.x, None),
    ],
)
def test_a_plain_value_is_a_reference(expr: Expr, reference: str | None) -> None:
    assert reference_to(expr) == reference


def test_an_f_string_has_references() -> None:
    assert f"model-{item.name}-{index}.json" == "model-$(item.name)-$(index).json"


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: item > 1 & index > 2, "1 is no condition"),  # type: ignore[operator]
        (lambda: item.a + 1 & item.b, "item.a + 1 is no condition"),
        (lambda: 1 < item < 3, "has no value before the flow runs"),
        (lambda: item == 1 and index == 2, "has no value before the flow runs"),
        (lambda: not item, "has no value before the flow runs"),
        (lambda: 1 in item, "has no value"),
        (lambda: [*item], "use for_each="),
        (lambda: len(item), "write x.size()"),
        (lambda: f"{item + 1}", "which is computed"),
        (lambda: f"{item:.2f}", "cannot be formatted"),
        (lambda: item[1](), "is not a function"),
        (lambda: item + a, "write step.outputs.NAME"),
        (lambda: item + {1, 2}, "cannot contain a set"),
        (lambda: item == float("nan"), "no number of JSON"),
        (lambda: item + 2**63, "larger than 64 bits"),
        (lambda: item.map(lambda item: item), "give the parameter another name"),
        (lambda: item.map(lambda x, y: x), "has one parameter"),
        (lambda: bool(a), "step a is neither true nor false"),
    ],
)
def test_a_mistake_is_an_error_at_once(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as error:
        mistake()
    assert message in str(error.value)


def test_tools_that_look_into_objects_find_no_entries() -> None:
    """Copies, pickles and the display of notebooks ask for names with underscores."""
    assert not hasattr(item, "_repr_html_")
    assert repr(copy.deepcopy(item.x)) == repr(pickle.loads(pickle.dumps(item.x))) == "Expr(item.x)"


@pytest.mark.parametrize(
    ("write", "advice"),
    [
        (
            lambda: a.items.maxBy(lambda each: each.outputs.loss),
            'maxBy takes no function: write maxBy("outputs.loss"), the path of a value',
        ),
        (
            lambda: a.items.min(lambda each: -each.outputs.loss),
            'min takes no function: write minBy("outputs.accuracy"), the path of a value',
        ),
        (
            lambda: cel.sort(lambda each: each),
            "sort takes no function; those that do are all, exists, existsOne, exists_one, "
            "filter, map",
        ),
    ],
)
def test_a_function_where_none_can_be_has_advice(write: Callable[[], Expr], advice: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(advice)}$"):
        write()
