"""Evaluation of the few forms of expressions and references that random flows have."""

import json
import re
from collections.abc import Mapping
from typing import Any

_NOT = re.compile(r"!\((.*)\)")
_COMPARED = re.compile(r"(?P<left>.+?) (?P<sign>==|>|/) (?P<right>.+)")
_PATH = re.compile(r"[a-z]+(?:\.\w+|\[[^\]]+\])*")
_KEY = re.compile(r"\.(\w+)|\[([^\]]+)\]")
_REFERENCE = re.compile(r"\$\(([^)]+)\)")


class NoValue(Exception):
    """An expression or a reference has no value."""


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """The value of `LITERAL`, `PATH`, `PATH == LITERAL`, `PATH > LITERAL`, `PATH / LITERAL`, or of
    `!(…)` of one of these; the context has JSON by variable."""
    if found := _NOT.fullmatch(text):
        return not truth(found[1], context)
    if _PATH.fullmatch(text) and text not in ("true", "false"):
        return _resolve_path(text, context)
    found = _COMPARED.fullmatch(text)
    if found is None:
        return json.loads(text)
    left, right = evaluate(found["left"], context), json.loads(found["right"])
    if found["sign"] == "==":
        return left == right
    if type(left) is not type(right) or (found["sign"] == "/" and not right):
        raise NoValue(text)
    return left > right if found["sign"] == ">" else left // right


def truth(text: str, context: Mapping[str, Any]) -> bool:
    value = evaluate(text, context)
    if not isinstance(value, bool):
        raise NoValue(f"{text} is no condition")
    return value


def items(text: str, context: Mapping[str, Any]) -> list[Any]:
    value = evaluate(text, context)
    if not isinstance(value, list) or len(value) > 1000:
        raise NoValue(f"{text} is no list of items")
    return value


def substitute(value: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: substitute(inner, context) for key, inner in value.items()}
    if isinstance(value, list):
        return [substitute(inner, context) for inner in value]
    if not isinstance(value, str):
        return value
    if reference := _REFERENCE.fullmatch(value):
        return _resolve_reference(reference[1], context)

    def rendered(found: re.Match[str]) -> str:
        value = _resolve_reference(found[1], context)
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

    return _REFERENCE.sub(rendered, value)


def _resolve_reference(path: str, context: Mapping[str, Any]) -> Any:
    value: Any = context
    for key in path.split("."):
        value = _get(value, key)
    return value


def _resolve_path(path: str, context: Mapping[str, Any]) -> Any:
    root = re.match(r"[a-z]+", path)
    assert root is not None
    value = _get(context, root[0])
    for name, key in _KEY.findall(path[root.end() :]):
        value = _get(value, name or json.loads(key))
    return value


def _get(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError) as error:
        raise NoValue(f"no {key}") from error
