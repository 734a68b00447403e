"""Free-form values of a flow nest at most a hundred levels deep."""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from jobflow.api.jobflow import JobFlow, JobFlowSpec
from jobflow.core.admission.validate import Known, validate_flow

MOST = 100


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = {"a": value}
    return value


def open_places(kind: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The ways through types to what may hold any JSON; `[]` is an item, `{}` a value of a map."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        yield way
    elif origin in (list, dict):
        yield from open_places(arguments[-1], (*way, "[]" if origin is list else "{}"))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            yield from open_places(hints[field.name], (*way, field.encode_name))
    else:
        for each in arguments:
            yield from open_places(each, way)


def made(way: tuple[str, ...], value: Any) -> Any:
    for word in reversed(way):
        value = [value] if word == "[]" else {"a": value} if word == "{}" else {word: value}
    return value


PLACES = sorted(open_places(JobFlowSpec))


def test_free_form_values_are_found() -> None:
    words = {".".join(way) for way in PLACES}
    assert {"params.[].value", "flows.[].patch.jobSpec.{}", "finally.[].patch.spec.{}"} <= words


@pytest.mark.parametrize("way", PLACES, ids=".".join)
def test_a_place_that_may_hold_any_json_is_not_too_deep(way: tuple[str, ...]) -> None:
    around = len(way) + 1
    for depth, found in ((MOST - around, []), (MOST - around + 1, ["Too long"])):
        flow = msgspec.convert({"spec": made(way, nested(depth))}, JobFlow)
        verdict = validate_flow(flow, Known())
        reported = [each.message[:8] for each in verdict.violations if "nested" in each.detail]
        assert reported == found
