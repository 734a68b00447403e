"""Names of the outputs of a function, as far as its annotation or its source tells them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

RESULT = "result"
"""The output of a function that returns no dict."""
_SINGLE = frozenset({bool, int, float, str, list, tuple})
"""Types of values that become one output."""
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def find_output_names(
    function: Callable[..., Any], definition: ast.FunctionDef
) -> frozenset[str] | None:
    """Return the names of the outputs, or None if they are not known: the keys of the TypedDict
    that is the annotation, the keys of the dicts that it returns, or `result`."""
    hint = _return_type(function)
    if is_typeddict(hint):
        return frozenset(hint.__required_keys__ | hint.__optional_keys__)
    if (get_origin(hint) or hint) in _SINGLE:
        return frozenset({RESULT})
    return _literal_keys(definition)


def _return_type(function: Callable[..., Any]) -> Any:
    """Return the annotation, without None of `X | None`; None if it cannot be evaluated."""
    annotations = {key: hint for key, hint in function.__annotations__.items() if key == "return"}
    try:
        hint = get_type_hints(SimpleNamespace(__annotations__=annotations), function.__globals__)
    except Exception:  # it is any expression, with names that may be missing
        return None
    found = hint.get("return")
    if get_origin(found) in (Union, UnionType):
        others = [each for each in get_args(found) if each is not NoneType]
        return others[0] if len(others) == 1 else None
    return found


def _literal_keys(definition: ast.FunctionDef) -> frozenset[str] | None:
    names: set[str] = set()
    for value in _returned(definition):
        keys = value.keys if isinstance(value, ast.Dict) else [None]
        for key in keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            names.add(key.value)
    return frozenset(names) or None


def _returned(definition: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield all that a function returns, but None."""
    pending: list[ast.AST] = [*definition.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                yield node.value
        elif not isinstance(node, _INNER):
            pending += ast.iter_child_nodes(node)
