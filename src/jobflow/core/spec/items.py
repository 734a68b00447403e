"""The items of forEach, from the spec or from a decision in the status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from jobflow.api.flow.by_hand import ByHand
from jobflow.api.flow.control import to_number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import Decisions
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import Action
from jobflow.core.json_values import copy_json, walk
from jobflow.core.limits import MAX_RUNS
from jobflow.core.spec.param_values import PERCENTAGE

_SHORT = 24
"""Characters of an item that is named with its index."""


def takes_items(step: Step) -> bool:
    each = step.fan_out
    sources = (each.items, each.from_, each.count) if each is not None else ()
    return step.matches_items and all(source is None for source in sources)


def get_items(step: Step, decided: Decisions | None) -> Sequence[Any] | None:
    """Return at most MAX_RUNS items of a step; None without forEach, or before they are decided.
    With `count`, an item is its index."""
    for_each = step.fan_out
    if for_each is None:
        return None
    items = for_each.items
    if items is None and (for_each.from_ is not None or takes_items(step)):
        items = decided.items if decided is not None else None
        if items is None:
            return None
    if items is None:
        return range(min(max(to_number(for_each.count) or 0, 0), MAX_RUNS))
    return items if len(items) <= MAX_RUNS else items[:MAX_RUNS]


def count_of(share: int | str | None, total: int, *, up: bool) -> int | None:
    """Return a number of items, or the percentage of them that `5%` is, rounded up or down. None if
    it is not set, or a reference without a value, which admission refuses."""
    if not isinstance(share, str):
        return share
    if (found := PERCENTAGE.fullmatch(share)) is None:
        return None
    hundredths = int(found[1]) * total
    return -(-hundredths // 100) if up else hundredths // 100


def drop_null_keys(items: Sequence[Any]) -> list[Any]:
    """Return items as they are after a merge patch to a status: without keys of maps whose value is
    null, but with null entries of lists."""
    root = copy_json({"": list(items)})
    for _, inner in walk(root):
        for key in [key for key in inner if inner[key] is None] if isinstance(inner, dict) else ():
            del inner[key]
    made: list[Any] = root[""]
    return made


def get_item(step: Step, decided: Decisions | None, index: int | None) -> Any:
    """Return the item of a run, or UNSET if it has none."""
    items = get_items(step, decided)
    if items is None or index is None or not 0 <= index < len(items):
        return UNSET
    return items[index]


def name_item(step: Step, decided: Decisions | None, index: int | None) -> str:
    """Return `item 3 (eu)`: the index, and the item if it is short and not its index."""
    item = get_item(step, decided, index)
    if item is UNSET or isinstance(item, dict | list):
        return f"item {index}"
    text = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    is_short = 0 < len(text) <= _SHORT and text.isprintable() and text != str(index)
    return f"item {index} ({text})" if is_short else f"item {index}"


def read_bits(text: str) -> int:
    """Return the number in a field of decisions that has a bit for each item."""
    try:
        return int(text or "0", 16)
    except ValueError:  # somebody else wrote it: what it notes is decided once more
        return 0


def get_parallelism(flow: JobFlow, step: Step | None = None) -> int | None:
    """Return how many jobs of a flow, or items of a step, may be under way at once: what a user has
    set by hand, else what the spec says; None: any number."""
    if flow.status.by_hand and (order := _find_scaling(flow, step)) is not None:
        return order.parallelism
    if step is None:
        return to_number(flow.spec.parallelism)
    return to_number(step.for_each.parallelism) if step.for_each is not None else None


def describe_scaling(flow: JobFlow, step: Step | None = None) -> str:
    """Return `at most 4 at once, set by ann: at night` if a user has scaled a flow that has not
    ended, or a step of it, by hand."""
    if flow.final or (order := _find_scaling(flow, step)) is None:
        return ""
    comment = f": {order.comment}" if order.comment else ""
    return f"at most {order.parallelism} at once, set by {order.by or 'hand'}{comment}"


def _find_scaling(flow: JobFlow, step: Step | None) -> ByHand | None:
    name = "" if step is None else step.name
    orders = flow.status.by_hand or ()
    return next((o for o in orders if o.action == Action.SCALE_FLOW and o.step == name), None)
