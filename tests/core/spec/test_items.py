"""Decided items, as a status stores them."""

from typing import Any

import pytest
from msgspec import UNSET

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.step import Step
from jobflow.core.spec.items import drop_null_keys, get_item, name_item


def test_null_keys_are_dropped_and_null_entries_are_kept() -> None:
    inner: dict[str, Any] = {"a": None, "b": [None, {"c": None, "d": {"e": None}}], "": 0}
    items = [None, 1, [None], inner, {}]
    assert drop_null_keys(items) == [None, 1, [None], {"b": [None, {"d": {}}], "": 0}, {}]
    assert inner["a"] is None


def test_items_may_be_nested_deep() -> None:
    deep: Any = None
    for _ in range(5_000):
        deep = {"a": [deep]}
    (kept,) = drop_null_keys([deep])
    for _ in range(5_000):
        (kept,) = kept["a"]
    assert kept is None


@pytest.mark.parametrize(
    ("items", "name"),
    [
        (["eu"], "item 0 (eu)"),
        ([7], "item 0 (7)"),
        ([0], "item 0"),
        (["0"], "item 0"),
        (["x" * 25], "item 0"),
        (["a\nb"], "item 0"),
        ([{"a": 1}], "item 0"),
        ([], "item 0"),
    ],
)
def test_an_item_is_named_with_its_value_if_that_is_short(items: list[Any], name: str) -> None:
    assert name_item(Step(name="a", for_each=ForEach(items=items)), None, 0) == name


@pytest.mark.parametrize("index", [-1, 1, None])
def test_an_index_without_an_item_has_none(index: int | None) -> None:
    """A status that bypassed the CRD may have any index."""
    step = Step(name="a", for_each=ForEach(items=["eu"]))
    assert get_item(step, None, index) is UNSET
    assert name_item(step, None, index) == f"item {index}"


def test_an_item_beyond_64_bits_is_named() -> None:
    step = Step(name="a", for_each=ForEach(items=[2**70]))
    assert name_item(step, None, 0) == f"item 0 ({2**70})"
