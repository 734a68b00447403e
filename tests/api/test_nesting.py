"""Nesting depth, independent of the interpreter's recursion limit."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.schema.nesting import cut, is_deeper, way_beyond

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab{}[]"\\é\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('a"{[\\'), inner, max_size=3)
    ),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    parts = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if parts is None else 1 + max(map(depth_of, parts), default=0)


def at(value: Any, way: list[Any]) -> Any:
    for key in way:
        value = value[key]
    return value


@given(VALUES, st.integers(1, 6))
def test_the_depth_of_a_text_and_of_its_value_are_the_same(value: Any, most: int) -> None:
    deeper = depth_of(value) > most
    for raw in (
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=False, indent=1).encode(),
    ):
        assert is_deeper(raw, most) == deeper
    assert (way_beyond(value, most) is not None) == deeper


@given(VALUES, st.integers(1, 6))
def test_the_path_leads_to_a_value_that_is_too_deep(value: Any, most: int) -> None:
    way = way_beyond(value, most)
    if way is not None:
        assert len(way) == most
        assert isinstance(at(value, way), dict | list)


@given(VALUES, VALUES, st.integers(1, 6))
def test_a_cut_text_has_the_depth_and_keeps_values_different(
    one: Any, other: Any, most: int
) -> None:
    short, shorter = (cut(msgspec.json.encode(value), most) for value in (one, other))
    assert not is_deeper(short, most)
    assert depth_of(json.loads(short)) == min(most, depth_of(one))
    assert (short == shorter) == (msgspec.json.encode(one) == msgspec.json.encode(other))


@pytest.mark.parametrize("most", [1, 100, 5_000])
def test_extreme_depths(most: int) -> None:
    deep = b'{"a":[' * 100_000 + b"1" + b"]}" * 100_000
    assert is_deeper(deep, most)
    assert not is_deeper(cut(deep, most), most)
    value: Any = 1
    for _ in range(200_000):
        value = [value]
    assert way_beyond(value, most) == [0] * most


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[" * 9, b"]" * 9, b'["' * 9, b'{"a\\', b'"\\'])
def test_malformed_json_stays_malformed(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(cut(raw, 3))
