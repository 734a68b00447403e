"""Attributes that are computed when they are first read, and then kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class derived(Generic[T]):  # noqa: N801 - a decorator, as functools.cached_property is
    """`functools.cached_property` without the lock that Python 3.11 takes at each first read: an
    object that one task reads needs none, and ten of them are a tenth of a small review."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
