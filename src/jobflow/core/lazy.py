"""Attributes that are computed at the first read, and then kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - a decorator, like functools.cached_property
    """`functools.cached_property` without the lock that Python 3.11 takes at each first read, a
    tenth of a small review. The object must be used by one thread only."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
