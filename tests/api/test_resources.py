"""The base of all types of the API."""

import pytest

from jobflow.api.resources import Struct


class Point(Struct):
    x: int = 0


def test_types_take_arguments_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        Point(1)  # type: ignore[call-arg]


def test_types_are_frozen() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Point().x = 1  # type: ignore[misc]
