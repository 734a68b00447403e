"""The names and types of the outputs of a function, from its annotation or its source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

RESULT = "result"
"""The output of a function that returns no dict."""
# Types of values that become one output.
_SINGLE = frozenset({bool, int, float, str, list, tuple})
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Outputs:
    names: frozenset[str] | None = None
    """None if they are not known."""
    types: Mapping[str, Any] = field(default_factory=dict)
    """Types by name; "" is that of all other names."""

    def type_of(self, name: str) -> Any:
        """Return the annotation of an output, or None if it is not known."""
        return self.types.get(name, self.types.get(""))


def find_outputs(function: Callable[..., Any], definition: ast.FunctionDef) -> Outputs:
    """Return the outputs: the keys of the TypedDict that is the annotation, the keys of the dicts
    that the function returns, or `result`."""
    hint = _return_type(function)
    if is_typeddict(hint):
        keys = frozenset(hint.__required_keys__ | hint.__optional_keys__)
        try:
            return Outputs(keys, get_type_hints(hint))
        except Exception:  # its annotations may name what is missing
            return Outputs(keys)
    if (get_origin(hint) or hint) in _SINGLE:
        return Outputs(frozenset({RESULT}), {RESULT: hint})
    inner = get_args(hint) if get_origin(hint) in (dict, Mapping) else ()
    types = {"": inner[1]} if len(inner) == 2 else {}
    names: set[str] = set()
    for value in _returned(definition):
        for key in value.keys if isinstance(value, ast.Dict) else [None]:
            # A dict that is built in any other way may have any keys.
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return Outputs(None, types)
            names.add(key.value)
    return Outputs(frozenset(names) or None, types)


def _return_type(function: Callable[..., Any]) -> Any:
    """Return the annotation, without None of `X | None`; None if it cannot be evaluated."""
    found = annotation_of(function, "return")
    if get_origin(found) in (Union, UnionType):
        others = [each for each in get_args(found) if each is not NoneType]
        return others[0] if len(others) == 1 else None
    return found


def annotation_of(function: Callable[..., Any], name: str) -> Any:
    """Return the annotation of a parameter or of `return`; None if there is none, or it cannot be
    evaluated."""
    annotations = {key: hint for key, hint in function.__annotations__.items() if key == name}
    try:
        hints = get_type_hints(SimpleNamespace(__annotations__=annotations), function.__globals__)
    except Exception:  # it is any expression, with names that may be missing
        return None
    return hints.get(name)


def _returned(definition: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield all that a function returns, but None."""
    pending: list[ast.AST] = [*definition.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                yield node.value
        # The result of an inner function is not the result of this one.
        elif not isinstance(node, _INNER):
            pending += ast.iter_child_nodes(node)
