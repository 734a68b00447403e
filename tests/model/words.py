"""Expressions and references of the few forms that random flows have, worked out by hand."""

import json
import re
from collections.abc import Mapping
from typing import Any

_NOT = re.compile(r"!\((.*)\)")
_COMPARED = re.compile(r"(?P<left>.+?) (?P<sign>==|>|/) (?P<right>.+)")
_PATH = re.compile(r"[a-z]+(?:\.\w+|\[[^\]]+\])*")
_KEY = re.compile(r"\.(\w+)|\[([^\]]+)\]")
_REFERENCE = re.compile(r"\$\(([^)]+)\)")


class Trouble(Exception):
    """An expression or a reference has no value."""


def worked_out(text: str, context: Mapping[str, Any]) -> Any:
    """The value of `LITERAL`, `PATH`, `PATH == LITERAL`, `PATH > LITERAL`, `PATH / LITERAL`, or of
    `!(…)` of one of these; the context has JSON by variable."""
    if found := _NOT.fullmatch(text):
        return not truth(found[1], context)
    if _PATH.fullmatch(text) and text not in ("true", "false"):
        return _looked_up(text, context)
    found = _COMPARED.fullmatch(text)
    if found is None:
        return json.loads(text)
    left, right = worked_out(found["left"], context), json.loads(found["right"])
    if found["sign"] == "==":
        return left == right
    if type(left) is not type(right) or (found["sign"] == "/" and not right):
        raise Trouble(text)
    return left > right if found["sign"] == ">" else left // right


def truth(text: str, context: Mapping[str, Any]) -> bool:
    value = worked_out(text, context)
    if not isinstance(value, bool):
        raise Trouble(f"{text} is no condition")
    return value


def items(text: str, context: Mapping[str, Any]) -> list[Any]:
    value = worked_out(text, context)
    if not isinstance(value, list) or len(value) > 1000:
        raise Trouble(f"{text} is no list of items")
    return value


def filled_in(value: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: filled_in(inner, context) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled_in(inner, context) for inner in value]
    if not isinstance(value, str):
        return value
    if whole := _REFERENCE.fullmatch(value):
        return _referred(whole[1], context)

    def written(found: re.Match[str]) -> str:
        value = _referred(found[1], context)
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

    return _REFERENCE.sub(written, value)


def _referred(path: str, context: Mapping[str, Any]) -> Any:
    value: Any = context
    for key in path.split("."):
        value = _inside(value, key)
    return value


def _looked_up(path: str, context: Mapping[str, Any]) -> Any:
    root = re.match(r"[a-z]+", path)
    assert root is not None
    value = _inside(context, root[0])
    for name, key in _KEY.findall(path[root.end() :]):
        value = _inside(value, name or json.loads(key))
    return value


def _inside(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError) as error:
        raise Trouble(f"no {key}") from error
