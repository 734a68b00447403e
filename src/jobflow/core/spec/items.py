"""What forEach goes over: its items, as they were written or decided. It evaluates nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from jobflow.api.flow_status import Decisions
from jobflow.api.jobflow import Step
from jobflow.core.json_values import copy_json
from jobflow.core.limits import MAX_RUNS


def get_items(step: Step, decided: Decisions | None) -> Sequence[Any] | None:
    """The items of a step with forEach, by index; None while `from` is not decided. With `count`
    an item is its index."""
    each = step.for_each
    if each is None:
        return None
    if each.items is not None:
        return _few(each.items)
    if each.from_ is not None:
        items = decided.items if decided is not None else None
        return items if items is None else _few(items)
    return range(min(max(each.count or 0, 0), MAX_RUNS))


def _few(items: list[Any]) -> list[Any]:
    """Asked for by every run, so not copied for nothing."""
    return items if len(items) <= MAX_RUNS else items[:MAX_RUNS]


def drop_null_keys(items: Sequence[Any]) -> list[Any]:
    """Items as they come back from a status: an API server drops the null-valued keys of maps that
    stand in a list from a merge patch. Nulls that are entries themselves stay."""
    root = copy_json({"": list(items)})
    work: list[Any] = [root]
    while work:
        node = work.pop()
        if isinstance(node, dict):
            for key in [key for key, value in node.items() if value is None]:
                del node[key]
        inner = node.values() if isinstance(node, dict) else node
        work += [value for value in inner if isinstance(value, dict | list)]
    made: list[Any] = root[""]
    return made


def get_item(step: Step, decided: Decisions | None, index: int | None) -> Any:
    """The item of one run; UNSET where there is none."""
    items = get_items(step, decided)
    if items is None or index is None or index >= len(items):
        return UNSET
    return items[index]
