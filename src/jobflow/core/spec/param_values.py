"""Numbers and timeouts of a spec that are one reference to a param: `parallelism: $(params.n)`.

Whoever reads these fields reads them of a flow with its values (`with_param_values`): `plan` and
`explain` by their PlanContext, admission by its FlowFacts, and the functions that draw a flow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.core.cel.references import Reference, has_reference, parse_reference

_REFERENCE = re.compile(r"\$\((params\.[^()$\s]*)\)")
_TIMEOUT = "timeout"
_GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "for_each": ("forEach", ("count", "parallelism")),
    "retry": ("retry", ("limit",)),
    "repeat": ("repeat", ("max",)),
    "approval": ("approval", (_TIMEOUT,)),
}
"""Attribute of a step -> its field, and the numbers or the timeout in it."""


class Setting(NamedTuple):
    """A number or a timeout of a spec or a step that is set."""

    field: str
    """Its JSON path below the spec or the step: `forEach.count`."""
    value: int | str
    is_time: bool


def list_settings(owner: JobFlowSpec | Step) -> Iterator[Setting]:
    """Yield the settings of a step, or those of the flow itself."""
    if owner.timeout is not None:
        yield Setting(_TIMEOUT, owner.timeout, is_time=True)
    if isinstance(owner, JobFlowSpec):
        if owner.parallelism is not None:
            yield Setting("parallelism", owner.parallelism, is_time=False)
        return
    for attribute, (field, names) in _GROUPS.items():
        if (group := getattr(owner, attribute)) is not None:
            for name in names:
                if (value := getattr(group, name)) is not None:
                    yield Setting(f"{field}.{name}", value, is_time=name == _TIMEOUT)


def find_param_reference(text: str) -> Reference | None:
    """Return the reference to a param that is the whole text, or None."""
    found = _REFERENCE.fullmatch(text)
    return None if found is None else parse_reference(found[1])


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


def fits(value: Any, *, is_time: bool) -> bool:
    """Return whether a field may have this value of a param."""
    if is_time:
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool)


def with_param_values(flow: JobFlow) -> JobFlow:
    """Return the flow with values in place of the references in its numbers and timeouts. One
    without a value that fits, which admission refuses, stays."""
    if not flow.spec.params:
        return flow
    params = params_of(flow)
    spec = _resolve(flow.spec, ("parallelism", _TIMEOUT), params)
    for attribute in ("flows", "finally_"):
        steps: list[Step] = getattr(spec, attribute) or []
        found = [_resolve_step(step, params) for step in steps]
        if any(new is not old for new, old in zip(found, steps, strict=True)):
            spec = msgspec.structs.replace(spec, **{attribute: found})
    return flow if spec is flow.spec else msgspec.structs.replace(flow, spec=spec)


def _resolve_step(step: Step, params: Mapping[str, Any]) -> Step:
    step = _resolve(step, (_TIMEOUT,), params)
    for attribute, (_, names) in _GROUPS.items():
        if (group := getattr(step, attribute)) is not None:
            resolved = _resolve(group, names, params)
            if resolved is not group:
                step = msgspec.structs.replace(step, **{attribute: resolved})
    return step


def _resolve(owner: Any, names: tuple[str, ...], params: Mapping[str, Any]) -> Any:
    changes: dict[str, Any] = {}
    for name in names:
        text = getattr(owner, name)
        if isinstance(text, str) and (reference := find_param_reference(text)) is not None:
            value = find_value(reference, params)
            if fits(value, is_time=name == _TIMEOUT):
                changes[name] = value
    return msgspec.structs.replace(owner, **changes) if changes else owner
