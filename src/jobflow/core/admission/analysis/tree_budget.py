"""The budget of a review: the work that is left for a flow and all flows in it, and the values of
references that are known before anything runs, within it.

The controller judges each child flow again when it is created, so whatever the budget leaves
unjudged in one is judged then. The verdict warns of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cel.budget import MAX_STEPS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.references import (
    Reference,
    ReferenceRoom,
    ReferencesTooLargeError,
    find_references,
    replace_references,
)
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.text import join_names

MAX_PARSED = 131_072
"""Characters of the expressions that are parsed."""
TRIAL_STEPS = MAX_STEPS
"""Steps of the expressions that are tried."""
MAX_TRIED_ITEMS = 100_000
"""Items that trials of references look at."""
MAX_JUDGED_CHILDREN = 2_000
"""Child flows, as they are written, that are judged."""
MAX_CHILD_REFERENCES = 2 << 20
"""Bytes of JSON that the references in child flows may expand to."""
MAX_MERGED = 8 << 20
"""Bytes of JSON of the specs that layers are merged onto: 2,500 steps of 3 KiB, about a second."""
MAX_CHILD_TASKS = 100_000
"""Tasks of the templates that child flows run, counted in each flow."""


VALUE = 20
"""Effort of a JSON value in a step with options or in the rest of the spec."""
CHARACTER = 8
"""Effort of a character of an expression."""
REFERENCE, INSERTED_BYTE = 12, 0.01
"""Effort of a reference, and of a byte of its value."""
FLOW = 150
"""Effort of a child flow, besides its values."""
TASK = 2
"""Effort of a task of a template that stays as it is."""
SPEC_VALUE = 5
"""Effort of a JSON value in the spec of a JobTemplate."""
MERGED_VALUE = 2.5
"""Effort of a JSON value of a template onto which layers are merged."""


class TooMuchEffort(Exception):
    """The object takes more effort than its judge may spend."""


def encode_roughly(value: Any) -> bytes:
    """Return a value as JSON, roughly if it has half characters, as YAML may. Raises TooMuchEffort
    if it is nested too deep for that."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return ascii(value).encode()
    except RecursionError:
        raise TooMuchEffort from None


class TreeBudget:
    """The work that is left. A part that is spent stays so; flows are judged in order."""

    characters = MAX_PARSED
    trial_steps = TRIAL_STEPS
    children = MAX_JUDGED_CHILDREN
    merged = MAX_MERGED
    tasks = MAX_CHILD_TASKS

    def __init__(self, effort: float = math.inf) -> None:
        self.effort = effort
        """About microseconds of the machine of docs/performance.md. It is spent by counts, so that
        every machine agrees on what is too much; weights are the largest measured."""
        self.tried_items = MAX_TRIED_ITEMS
        self.references = ReferenceRoom(MAX_CHILD_REFERENCES)
        self.plain: dict[tuple[str, int, bool], Any] = {}
        """The specs of templates without layers, which flows with equal jobDefaults share."""
        self._unjudged: dict[str, None] = {}

    def spend(self, effort: float) -> None:
        """Raise TooMuchEffort if so much is not left."""
        self.effort -= effort
        if self.effort < 0:
            raise TooMuchEffort

    def leave_out(self, what: str, level: int) -> None:
        """Note what stays unjudged in a flow of a level: a noun in the plural."""
        self._unjudged[f"{what} of child flows" if level > 1 else what] = None

    @property
    def warning(self) -> str:
        """The parts that are not judged, or ""."""
        if not self._unjudged:
            return ""
        return (
            f"this flow is too large to be judged as a whole: some {join_names([*self._unjudged])} "
            "were not checked; each child flow is checked before it starts, and each job when "
            "the API server takes it"
        )


MAX_REFERENCED = 8 << 20
"""Bytes of JSON that all references of an outermost flow may expand to."""
_CONSTANT_ROOTS = frozenset({"params", "flow"})
"""Roots of references whose values are known before anything runs."""


class Constants:
    """The known values of one flow. Those of an outermost flow have room of their own, those of all
    its child flows share some."""

    def __init__(self, flow: JobFlow, budget: TreeBudget, level: int) -> None:
        scope = EvaluationScope(flow, lambda name: None)
        self._get = cache(lambda text: resolve_references(text, scope))
        self._budget, self._level = budget, level
        self._room = ReferenceRoom(MAX_REFERENCED) if level == 1 else budget.references

    def insert(
        self, written: Mapping[str, Any], most: int = MAX_REFERENCED
    ) -> tuple[Mapping[str, Any], bool, bool]:
        """Return JSON with the known values of its references, whether others are open, and whether
        these values have more than `most` bytes, or than there is room for in an outermost flow.
        """
        is_open = False
        left = min(most, self._room.left)
        room = ReferenceRoom(left)

        def value(reference: Reference) -> Any:
            nonlocal is_open
            text = f"$({reference.path})"
            if reference.root in _CONSTANT_ROOTS:
                found = self._get(text)
                if not isinstance(found, EvaluationFailure):
                    is_open = (
                        is_open or next(find_references(found, ""), None) is not None
                    )  # of a param of a child flow
                    return found
            is_open = True
            return text

        try:
            return replace_references(written, value, room), is_open, False
        except ReferencesTooLargeError:
            if self._level == 1 or left == most:
                return written, True, True
            self._budget.leave_out("references", self._level)
            return written, True, False
        finally:
            self._room.left -= left - max(room.left, 0)
