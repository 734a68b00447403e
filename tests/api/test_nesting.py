"""The nesting depth of values, which does not depend on the interpreter's recursion limit."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.nesting import cut, is_deeper, way_beyond

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


def value_at(value: Any, path: list[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


@given(VALUES, st.integers(1, 6))
def test_the_depth_of_a_text_and_of_its_value_are_the_same(value: Any, limit: int) -> None:
    deeper = depth_of(value) > limit
    for raw in (
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=False, indent=1).encode(),
    ):
        assert is_deeper(raw, limit) == deeper
    assert (way_beyond(value, limit) is not None) == deeper


@given(VALUES, st.integers(1, 6))
def test_the_path_leads_to_a_value_that_is_too_deep(value: Any, limit: int) -> None:
    path = way_beyond(value, limit)
    if path is not None:
        assert len(path) == limit
        assert isinstance(value_at(value, path), dict | list)


@given(VALUES, VALUES, st.integers(1, 6))
def test_a_cut_text_has_the_depth_and_keeps_values_different(
    first: Any, second: Any, limit: int
) -> None:
    cut_first, cut_second = (cut(msgspec.json.encode(value), limit) for value in (first, second))
    assert not is_deeper(cut_first, limit)
    assert depth_of(json.loads(cut_first)) == min(limit, depth_of(first))
    assert (cut_first == cut_second) == (msgspec.json.encode(first) == msgspec.json.encode(second))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [1, 100, 5_000])
def test_extreme_depths_are_supported(limit: int) -> None:
    deep = b'{"a":[' * 100_000 + b"1" + b"]}" * 100_000
    assert is_deeper(deep, limit)
    assert not is_deeper(cut(deep, limit), limit)
    value: Any = 1
    for _ in range(200_000):
        value = [value]
    assert way_beyond(value, limit) == [0] * limit


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[" * 9, b"]" * 9, b'["' * 9, b'{"a\\', b'"\\'])
def test_malformed_json_stays_malformed(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(cut(raw, 3))
