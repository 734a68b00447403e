"""Which references have a value before anything has run. It looks at no steps.

Params and the items of forEach are known then; outputs are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.cel.expression import Failure
from jobflow.core.cel.references import Reference
from jobflow.core.cel.scope import Seen, with_values
from jobflow.core.cel.variables import Mention
from jobflow.core.spec.items import items_of

BUDGET = 100_000
"""Items that are looked at, for all references of a flow."""
_ANYWHERE = -1
"""Of a param, which is the same in every step."""


def mention_of(reference: Reference) -> Mention:
    """A reference as an expression would say it."""
    return Mention(reference.root, reference.keys, 0)


class Items:
    """Tries references to params and to items."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._left = BUDGET
        self._told: dict[tuple[int, str], str | None] = {}

    def fault(self, position: int, reference: Reference) -> str | None:
        """What is wrong with a reference in a patch of the step at `position`, in a clause."""
        if reference.root == "params":
            position = _ANYWHERE
        elif reference.root != "item" or not reference.keys:
            return None
        key = (position, reference.path)
        if key not in self._told:
            self._told[key] = self._untold(position, reference)
        return self._told[key]

    def _untold(self, position: int, reference: Reference) -> str | None:
        if position == _ANYWHERE:
            return self._missing(reference, Seen(self._outline.flow, lambda name: None))
        return self._of_items(position, reference)

    def _of_items(self, position: int, reference: Reference) -> str | None:
        step = self._outline.steps[position]
        if step.for_each is not None and step.for_each.items is None:
            if step.for_each.from_ is None and step.for_each.count is not None:
                return "with count an item is a number, and nothing is taken of it; write $(item)"
            return None
        items: Sequence[Any] = items_of(step, None) or ()
        for at, item in enumerate(items):
            self._left -= 1
            if self._left < 0:
                return None
            seen = Seen(self._outline.flow, lambda name: None, index=at, item=item)
            if self._missing(reference, seen) is not None:
                return f'items[{at}] has no "{".".join(reference.keys)}"'
        return None

    def _missing(self, reference: Reference, seen: Seen) -> str | None:
        value = with_values(f"$({reference.path})", seen)
        return value.message.partition(": ")[2] if isinstance(value, Failure) else None
