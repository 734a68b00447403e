"""Conditions and expressions of Argo in CEL."""

import pytest

from jobflow.core.cel.language.parser import RESERVED
from jobflow.migrate.expressions.cel import (
    condition_to_cel,
    expression_to_ref,
)
from jobflow.migrate.expressions.cel import (
    test_to_cel as to_test,
)
from jobflow.migrate.expressions.values import Kind, Ref, Text, UnsupportedExpression

VALUES: dict[str, Text] = {
    "a": (Ref("params.a", "params.a"),),
    "text": (Ref('steps["x"].outputs.text', kind=Kind.TEXT, or_else='get(o, "text", %s)'),),
    "number": (Ref("index", kind=Kind.NUMBER),),
    "status": (Ref("words", kind=Kind.PHASE, raw='steps["x"].phase'),),
    "list": (Ref("params.list", kind=Kind.LIST),),
    "five": ("5",),
    "mixed": ("v", Ref("params.a", "params.a")),
}


def resolve(keys: tuple[str, ...]) -> Text:
    name = ".".join(keys)
    if name not in VALUES:
        raise UnsupportedExpression(f"{name} is unknown")
    return VALUES[name]


@pytest.mark.parametrize(
    ("condition", "cel"),
    [
        ("{{a}} == heads", 'string(params.a) == "heads"'),
        ("{{text}} == heads", 'steps["x"].outputs.text == "heads"'),
        ("'{{text}}' != 'not it'", 'steps["x"].outputs.text != "not it"'),
        ("{{a}} == 1", 'string(params.a) == "1"'),
        ("{{a}} == true", 'string(params.a) == "true"'),
        ("{{a}} > 1.5", "double(params.a) > 1.5"),
        ("{{number}} >= 2", "index >= 2"),
        ("{{a}} < {{text}}", 'double(params.a) < double(steps["x"].outputs.text)'),
        ("{{five}} == 5", "true"),
        ("{{five}} > 6", "false"),
        ("false", "false"),
        ("{{a}}", 'string(params.a) == "true"'),
        ("!{{a}}", '!(string(params.a) == "true")'),
        ("{{status}} == Succeeded", 'steps["x"].phase == "Completed"'),
        ("{{status}} != Error", 'steps["x"].phase != "Failed"'),
        ("{{text}} =~ '^he'", 'steps["x"].outputs.text.matches("^he")'),
        ("{{text}} !~ ta", '!steps["x"].outputs.text.matches("ta")'),
        ("{{a}} in ('x', 'y')", 'string(params.a) in ["x", "y"]'),
        (
            "({{a}} == x && {{text}} == y) || {{number}} == 1",
            'string(params.a) == "x" && steps["x"].outputs.text == "y" || index == 1',
        ),
        ("{{a}} == x && ({{a}} == y || {{a}} == z)",
         'string(params.a) == "x" && (string(params.a) == "y" || string(params.a) == "z")'),
        ("{{mixed}} == v1", '("v" + string(params.a)) == "v1"'),
        ("{{= a == 'true'}}", 'string(params.a) == "true"'),
    ],
)  # fmt: skip
def test_a_condition(condition: str, cel: str) -> None:
    assert condition_to_cel(condition, resolve) == cel


@pytest.mark.parametrize(
    ("expression", "cel"),
    [
        ("asInt(a) * 10", "int(params.a) * 10"),
        ("text ?? 'none'", 'get(o, "text", "none")'),
        ("a == 'x' ? text : 'y'", 'string(params.a) == "x" ? steps["x"].outputs.text : "y"'),
        ("jsonpath(a, '$.b[0].c')", "json(params.a).b[0].c"),
        ("jsonpath(list, '$[*].name')", "params.list.map(x, x.name)"),
        ("jsonpath(a, '$.l[?(@.n==\"x\" && @.m>2)].v')",
         'json(params.a).l.filter(x, x.n == "x" && x.m > 2).map(x, x.v)'),
        ("jsonpath(a, '$.l[1:3]')", "range(2).map(x, json(params.a).l[1 + x])"),
        ("filter([1, 3], {# > 1})", "[1, 3].filter(i, i > 1)"),
        ("map(list, {#.name})", "params.list.map(i, i.name)"),
        ("any(list, {# == 'a'})", 'params.list.exists(i, i == "a")'),
        ("len(list) > 2 && 'a' in list", 'size(params.list) > 2 && "a" in params.list'),
        ("sprig.lower(sprig.trim(a))", "string(params.a).trim().lowerAscii()"),
        ("sprig.replace('a', 'b', text)", 'steps["x"].outputs.text.replace("a", "b")'),
        ("text contains 'x' or not (text startsWith 'y')",
         'steps["x"].outputs.text.contains("x") || !steps["x"].outputs.text.startsWith("y")'),
        ("text matches 'a|b'", 'steps["x"].outputs.text.matches("a|b")'),
        ("a + 'x'", 'string(params.a) + "x"'),
        ("{'k': a, l: 1}", '{"k": params.a, "l": 1}'),
        ("fromJSON(text).key['other-key']",
         'json(steps["x"].outputs.text).key["other-key"]'),
        ("sprig.max(asInt(a), 3)", "[int(params.a), 3].max()"),
    ],
)  # fmt: skip
def test_an_expression(expression: str, cel: str) -> None:
    assert expression_to_ref(expression, resolve).cel == cel


@pytest.mark.parametrize(
    "expression",
    ["now()", "a == nil", "sprig.b64dec(a)", "unknown", "a ?? 'x'", "a[", "((a)", "a ===", "'", "#"]
    + ["(" * 200, "!" * 200],
)
def test_what_has_no_equal_is_said(expression: str) -> None:
    with pytest.raises(UnsupportedExpression):
        to_test(expression, resolve)


def test_a_reserved_word_of_cel_is_quoted() -> None:
    assert "in" in RESERVED
    assert expression_to_ref("jsonpath(a, '$.in.x')", resolve).cel == 'json(params.a)["in"].x'
