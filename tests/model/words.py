"""Evaluation of the few forms of expressions and references that random flows have."""

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.traits import Setting, walk

_SETTINGS = [
    path.replace("[]", "").split(".") for path, field in walk(JobFlowSpec) if field.get(Setting)
]
"""The numbers and timeouts of a spec that may refer to a param, by their JSON names."""
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
        return _value_or_nothing(reference[1], context)

    def rendered(found: re.Match[str]) -> str:
        value = _value_or_nothing(found[1], context)
        if value is None and found[1].startswith("last."):
            return ""
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

    return _REFERENCE.sub(rendered, value)


def with_params(flow: JobFlow) -> JobFlow:
    """Return the flow with the values of params in the numbers and timeouts that refer to one."""
    context = {"params": {param.name: param.value for param in flow.spec.params or ()}}
    spec = msgspec.to_builtins(flow.spec)
    for *parents, name in _SETTINGS:
        owners = [spec]
        for parent in parents:
            found = [owner[parent] for owner in owners if owner.get(parent) is not None]
            is_list = bool(found) and isinstance(found[0], list)
            owners = list(chain.from_iterable(found)) if is_list else found
        for owner in owners:
            if name in owner and "$(vars." not in str(owner[name]):
                owner[name] = substitute(owner[name], context)
    return msgspec.structs.replace(flow, spec=msgspec.convert(spec, JobFlowSpec))


def _value_or_nothing(path: str, context: Mapping[str, Any]) -> Any:
    """Return the value of a reference, or None for one to the run before without a value."""
    try:
        return _resolve_reference(path, context)
    except NoValue:
        if path.startswith("last.") and "last" in context:
            return None
        raise


def _resolve_reference(path: str, context: Mapping[str, Any]) -> Any:
    value: Any = context
    for key in path.split("."):
        value = _get(value, int(key) if isinstance(value, list) and key.isdigit() else key)
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
