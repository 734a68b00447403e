"""The values of references that are known before anything runs."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.analysis.tree_budget import TreeBudget
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.references import (
    Reference,
    ReferenceRoom,
    ReferencesTooLargeError,
    find_references,
    replace_references,
)
from jobflow.core.cel.scope import EvaluationScope, resolve_references

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
