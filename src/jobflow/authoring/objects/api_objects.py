"""Objects of the API in flows and jobs: classes that know the names of their fields only."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any, Self

from jobflow.core.suggest import Suggester, did_you_mean


class Fields:
    """An object of the API. Its fields have the names of the API in snake_case; fields that are
    None are not set."""

    def __new__(cls, **fields: Any) -> Self:
        """Raises TypeError for a field that does not exist."""
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]
        for name in fields.keys() - known.keys():
            guess = did_you_mean(Suggester([*known]).nearest(name))
            raise TypeError(f"{cls.__name__} has no field {name}{guess}")
        return super().__new__(cls)


def make_class(module: str, name: str, fields: str) -> Any:
    """Return the class of objects with these fields, separated by spaces, as one of `module`."""
    made = make_dataclass(
        name,
        [(field, Any, None) for field in fields.split()],
        bases=(Fields,),
        frozen=True,
        kw_only=True,
        eq=False,
    )
    made.__module__ = module  # since Python 3.12 the namespace cannot say it
    return made
