"""The state of a running program of an expression, and how it reads variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobflow.core.cel.language.budget import CelError, Work
from jobflow.core.cel.language.values import LEAST, MOST, TYPES, number_of, taken


class Frame:
    """The variables of one evaluation, those of its loops, and what is left of its budget."""

    __slots__ = ("slots", "values", "work")

    def __init__(self, values: Mapping[str, Any], slots: int, work: Work) -> None:
        self.values = values
        self.slots: list[Any] = [None] * slots
        self.work = work


Run = Callable[[Frame], Any]
Step = Callable[[Frame, Any], Any]
"""Takes the value of what is before it."""


def chained(first: Run, steps: Sequence[Step]) -> Run:
    """Return what takes one step after another of a value."""
    if not steps:
        return first

    def taken_of(frame: Frame) -> Any:
        value = first(frame)
        for step in steps:
            value = step(frame, value)
        return value

    return taken_of


def path(root: str, keys: Sequence[Any]) -> Run:
    """Return what reads a variable from outside, and what is under its keys."""

    def found(frame: Frame) -> Any:
        value = frame.values.get(root, frame)
        if value is frame:
            value = _type_named(root)
        elif value.__class__ is int and not LEAST <= value <= MOST:
            value = number_of(value)
        for key in keys:
            value = taken(value, key)
        return value

    return found


def bound_path(slot: int, keys: Sequence[Any]) -> Run:
    if not keys:
        return lambda frame: frame.slots[slot]

    def found(frame: Frame) -> Any:
        value = frame.slots[slot]
        for key in keys:
            value = taken(value, key)
        return value

    return found


def _type_named(name: str) -> Any:
    if name not in TYPES:
        raise CelError(f"there is no variable or function {name}")
    return TYPES[name]
