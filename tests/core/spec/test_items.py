"""Decided items, as a status stores them."""

from typing import Any

from jobflow.core.spec.items import drop_null_keys


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
