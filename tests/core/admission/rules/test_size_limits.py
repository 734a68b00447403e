"""Free-form values of a flow nest at most a hundred levels deep."""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.core.admission.validate import Known, validate_flow

MAX_DEPTH = 100


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = {"a": value}
    return value


def free_form_paths(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths to fields that hold any JSON; `[]` is an item, `{}` a value of a map."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        yield path
    elif origin in (list, dict):
        yield from free_form_paths(arguments[-1], (*path, "[]" if origin is list else "{}"))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            yield from free_form_paths(hints[field.name], (*path, field.encode_name))
    else:
        for each in arguments:
            yield from free_form_paths(each, path)


def value_at(path: tuple[str, ...], value: Any) -> Any:
    for word in reversed(path):
        value = [value] if word == "[]" else {"a": value} if word == "{}" else {word: value}
    return value


PATHS = sorted(free_form_paths(JobFlowSpec))


def test_free_form_fields_are_found() -> None:
    words = {".".join(path) for path in PATHS}
    assert {"params.[].value", "flows.[].patch.jobSpec.{}", "finally.[].patch.spec.{}"} <= words


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_the_depth_of_free_form_values_is_limited(path: tuple[str, ...]) -> None:
    levels = len(path) + 1
    for depth, found in ((MAX_DEPTH - levels, []), (MAX_DEPTH - levels + 1, ["Too long"])):
        flow = msgspec.convert({"spec": value_at(path, nested(depth))}, JobFlow)
        verdict = validate_flow(flow, Known())
        reported = [each.message[:8] for each in verdict.violations if "nested" in each.detail]
        assert reported == found
