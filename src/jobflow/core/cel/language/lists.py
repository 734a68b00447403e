"""Functions that look into lists and maps, or make lists."""

from collections.abc import Callable, Sequence
from typing import Any

from jobflow.api.nesting import MAX_DEPTH
from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language.values import (
    NUMBERS,
    check_int,
    get_entry,
    make_depth_error,
    normalize_number,
)

_NUMBER, _PAIR = 32, 82
"""Bytes of a number, and of a list of two entries."""


def cost_of_list(budget: Budget, entries: list[Any]) -> None:
    """Take steps for each entry, and for its text."""
    budget.spend(1 + 2 * len(entries))
    # texts that differ only at their end are read to the end
    budget.spend(sum([len(each) for each in entries if each.__class__ is str]) // 64)


def cost_of_path(budget: Budget, entries: list[Any], path: str) -> None:
    """Take steps for each entry and each key, and for the texts under the path."""
    budget.read(path)
    keys = path.split(".")
    budget.spend((3 + 2 * len(keys)) * (1 + len(entries)))
    ranks = [_follow(each, keys) for each in entries]
    budget.spend(sum([len(each) for each in ranks if each.__class__ is str]) // 64)


def get_or_default(budget: Budget, value: Any, key: Any, default: Any) -> Any:
    """Return the entry of a map or a list, or the default if it does not exist. Raises CelError."""
    budget.spend(1)
    if key.__class__ is str:
        budget.read(key)
    try:
        return get_entry(value, key)
    except CelError as error:
        # an index that is no number is a mistake, and no entry that may be missing
        if not error.missing:
            raise
        return default


def add_up(entries: list[Any]) -> Any:
    """Return the sum of a list of numbers. Raises CelError."""
    if not all(type(each) in NUMBERS for each in entries):
        raise CelError("sum adds up a list of numbers")
    total = sum([normalize_number(each) if each.__class__ is int else each for each in entries])
    return total if isinstance(total, float) else check_int(total)


def find_best(name: str, best: Callable[..., Any], entries: list[Any]) -> Any:
    """Return the largest or smallest entry, by the function `best`. Raises CelError."""
    if not entries:
        raise CelError(f"an empty list has no {name}", missing=True)
    _check_comparable(name, entries)
    value = best(entries)
    return normalize_number(value) if value.__class__ is int else value


def find_best_by(name: str, best: Callable[..., Any], entries: list[Any], path: str) -> Any:
    """Return the first entry with the largest or smallest value under a path. Raises CelError."""
    # items that failed have no outputs, and so not the path
    keys = path.split(".")
    ranked = [(rank, each) for each in entries if (rank := _follow(each, keys)) is not None]
    if not ranked:
        shown = path if len(path) <= 40 else path[:39] + "…"
        raise CelError(f"no entry of the list has {shown!r}", missing=True)
    _check_comparable(name, [rank for rank, _ in ranked])
    return best(ranked, key=lambda each: each[0])[1]


def _follow(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return None if value != value else value  # NaN cannot be ranked


def _check_comparable(name: str, values: Sequence[Any]) -> None:
    if not all(type(each) in NUMBERS for each in values):
        if not all(each.__class__ is str for each in values):
            raise CelError(f"{name} compares a list of numbers or a list of texts")


def make_range(budget: Budget, count: int) -> list[int]:
    count = max(count, 0)
    budget.add_list(count)
    budget.allocate(_NUMBER * count)
    return list(range(count))


def make_pairs(budget: Budget, one: list[Any], other: list[Any]) -> list[Any]:
    count = len(one) * len(other)
    budget.add_list(count)
    budget.spend(len(one) + count)
    budget.allocate(_PAIR * count)
    return [[a, b] for a in one for b in other]


def flatten(budget: Budget, entries: list[Any], depth: int = 1) -> list[Any]:
    """Return the entries, those of lists in their place, `depth` levels deep. Raises CelError."""
    if depth < 0:
        raise CelError("flatten takes a number of levels from 0")
    for _ in range(depth):
        budget.spend(1 + len(entries))
        # `flatten(9)` of a flat list costs one round
        if not any(each.__class__ is list for each in entries):
            break
        budget.add_list(sum([len(each) if each.__class__ is list else 1 for each in entries]))
        flat: list[Any] = []
        for each in entries:
            flat += each if each.__class__ is list else (each,)
        entries = flat
    return entries


def sort(budget: Budget, entries: list[Any]) -> list[Any]:
    """Return the entries from the smallest to the largest. Raises CelError."""
    comparisons = len(entries).bit_length()  # of one entry, at most
    budget.add_list(len(entries))
    budget.spend((2 + comparisons // 4) * len(entries))
    length = sum([len(each) for each in entries if each.__class__ is str])
    budget.spend(comparisons * length // 64)
    _check_comparable("sort", entries)
    return sorted([normalize_number(each) if each.__class__ is int else each for each in entries])


def distinct(budget: Budget, entries: list[Any]) -> list[Any]:
    """Return the first of each group of equal entries, in time linear in their size."""
    budget.add_map(len(entries))
    first: dict[Any, Any] = {}
    for each in entries:
        # comparing each with each would be quadratic
        first.setdefault(_make_identity(budget, each, 1), each)
    return [*first.values()]


def _make_identity(budget: Budget, value: Any, depth: int) -> Any:
    """Return a key of a dict that two values share if `is_equal` holds for them."""
    kind = value.__class__
    budget.spend(3)
    if kind is str or kind is bytes:
        budget.read(value)
        return value
    if kind in NUMBERS:
        number = normalize_number(value) if kind is int else value
        if number != number:
            return object()  # NaN equals nothing
        # as text, whose hashes differ from process to process: nobody can choose equal ones
        whole = isinstance(number, int) or number.is_integer()
        return ("number", str(int(number)) if whole else repr(number))
    if kind is not list and kind is not dict:
        return (kind, value)
    if depth >= MAX_DEPTH:
        raise make_depth_error()
    budget.add_map(len(value))
    if kind is list:
        return (list, *[_make_identity(budget, each, depth + 1) for each in value])
    return frozenset(
        [(key, _make_identity(budget, each, depth + 1)) for key, each in value.items()]
    )
