"""Numbers and timeouts of a spec that are one reference to a param: `parallelism: $(params.n)`.
Whoever reads these fields reads them of a flow with its values (`with_param_values`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from jobflow.api.duration import parse_duration
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.traits import Setting, fields_of
from jobflow.core.cel.references import Reference, has_reference, parse_reference
from jobflow.core.text import shorten

S = TypeVar("S", bound=msgspec.Struct)
PERCENTAGE = re.compile(r"(\d{1,9})%", re.ASCII)
_MAX_SHOWN = 100
"""Characters of a value in a message."""
_REFERENCE = re.compile(r"\$\((params\.[^()$\s]*)\)")
_OF_VARS = re.compile(r"\$\((vars\.[^()$\s]+)\)")


def find_param_reference(text: str) -> Reference | None:
    """Return the reference to a param that is the whole text, or None."""
    found = _REFERENCE.fullmatch(text)
    return None if found is None else parse_reference(found[1])


def find_vars_reference(text: str) -> Reference | None:
    """Return the reference to `vars` that is the whole text, or None."""
    found = _OF_VARS.fullmatch(text)
    return None if found is None else parse_reference(found[1])


def to_seconds(value: Any) -> float:
    """Return the seconds of a timeout that vars give: the text of a duration, or a number. Raises
    TypeError or ValueError."""
    return parse_duration(f"{value:f}s" if type(value) in (int, float) else value)


def find_timeout_fault(value: Any) -> str | None:
    """Return a clause that says why a timeout may not have this value of vars, or None."""
    try:
        if to_seconds(value):
            return None
        why = "is not longer than 0s"
    except TypeError:
        why = "is neither a duration such as 2h nor a number of seconds"
    except ValueError as error:
        why = str(error)
    return f"gives {shorten(msgspec.json.encode(value).decode(), _MAX_SHOWN)}, which {why}"


def find_value(reference: Reference, params: Mapping[str, Any]) -> Any:
    """Return the value of a reference to a param, or UNSET; below a text with references, whose
    value is not known yet, that text."""
    value: Any = params
    for key in reference.keys:
        if isinstance(value, str) and has_reference(value):
            return value
        if isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 5:
            value = dict(enumerate(value)).get(int(key), UNSET)
        else:
            value = value.get(key, UNSET) if isinstance(value, Mapping) else UNSET
    return value


def params_of(flow: JobFlow) -> Mapping[str, Any]:
    """Return the values of the flow's params by name; the first of several with one name."""
    return {param.name: param.value for param in reversed(flow.spec.params or [])}


def fits(value: Any, setting: Setting) -> bool:
    if isinstance(value, str):
        is_share = setting.is_share and PERCENTAGE.fullmatch(value) is not None
        return setting.is_time or is_share
    return isinstance(value, int) and not (isinstance(value, bool) or setting.is_time)


def with_param_values(flow: JobFlow) -> JobFlow:
    """Return the flow with values in place of the references in its numbers and timeouts. One
    without a value that fits, which admission refuses, stays."""
    if not flow.spec.params:
        return flow
    spec = _resolve(flow.spec, params_of(flow))
    return flow if spec is flow.spec else msgspec.structs.replace(flow, spec=spec)


def _resolve(owner: S, params: Mapping[str, Any]) -> S:
    settings, below = _fields_with_settings(type(owner))
    changes: dict[str, Any] = {}
    for name, setting in settings:
        text = getattr(owner, name)
        if isinstance(text, str) and (reference := find_param_reference(text)) is not None:
            value = find_value(reference, params)
            if fits(value, setting):
                changes[name] = value
    for name in below:
        if (old := getattr(owner, name)) is None:
            continue
        if isinstance(old, list):
            new: Any = [_resolve(each, params) for each in old]
            if any(each is not other for each, other in zip(new, old, strict=True)):
                changes[name] = new
        elif (new := _resolve(old, params)) is not old:
            changes[name] = new
    return msgspec.structs.replace(owner, **changes) if changes else owner


@cache
def _fields_with_settings(
    struct: type[msgspec.Struct],
) -> tuple[list[tuple[str, Setting]], list[str]]:
    """Return the settings of a type by name, and the fields whose objects have some."""
    fields = fields_of(struct)
    settings = ((each.name, each.get(Setting)) for each in fields)
    below = ((each.name, each.struct) for each in fields)
    return (
        [(name, found) for name, found in settings if found is not None],
        [name for name, inner in below if inner and any(_fields_with_settings(inner))],
    )
