"""The variables and functions that an expression names."""

import pytest

from jobflow.core.cel.expression import Expression, parse_expression


def parsed(text: str) -> Expression:
    found = parse_expression(text)
    assert isinstance(found, Expression), found
    return found


def mentioned(text: str) -> dict[str, int]:
    """Return the position of each variable with its literal keys; `…` if a computed key follows."""
    return {
        ".".join((each.root, *each.keys)) + ("…" if each.open else ""): each.at
        for each in parsed(text).mentions
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", {"a": 0}),
        ("a.b.c", {"a.b.c": 0}),
        ('  a["b c"].d', {"a.b c.d": 2}),
        ("a['b'][r'c\\d'][0]", {"a.b.c\\d.0": 0}),
        ("a[b.c].d", {"a…": 0, "b.c": 2}),
        ("a['\\x41']", {"a.A": 0}),
        ("a.b.size()", {"a.b": 0}),
        ("a.size() > b", {"a": 0, "b": 11}),
        ("size(a)", {"a": 5}),
        ("'a' + \"b\" + '''c\"d''' + r'e\\' + b", {"b": 32}),
        ("'it\\'s a' + b", {"b": 12}),
        ("a // b\n+ c", {"a": 0, "c": 9}),
        ("true && null == a", {"a": 16}),
        ("0x1F + 1e5 + a", {"a": 13}),
        ("a.all(x, x.y == b)", {"a": 0, "b": 16}),
        ("a.map(x, x) + x", {"a": 0, "x": 14}),
        ("a.map(x, b.filter(y, y == x).map(z, z))", {"a": 0, "b": 9}),
        ("a.existsOne(x, x > 0)", {"a": 0}),
        ("a.filter(b, b.c)[0].d", {"a": 0}),
        ("{'k': a, b: 1}", {"a": 6, "b": 9}),
        ("has(a.b)", {"a.b": 4}),
        ("a in b", {"a": 0, "b": 5}),
        ("a-b", {"a": 0, "b": 2}),
        ("[a, b.c]", {"a": 1, "b.c": 4}),
        ("c ? a : b", {"c": 0, "a": 4, "b": 8}),
    ],
)
def test_an_expression_lists_its_variables(text: str, found: dict[str, int]) -> None:
    assert mentioned(text) == found


def test_an_expression_lists_its_function_calls() -> None:
    calls = parsed("size(a) > 1 && a.startsWith('b').foo() || a.all(x, bar(x))").calls
    assert calls == (("size", 0), ("startsWith", 17), ("foo", 33), ("all", 44), ("bar", 51))
