"""How much the expressions of one plan may take together, so that no flow holds up all others.

Each decision has the budget of one evaluation (`cel_values.MAX_WORK`). A flow decides how many come
at once: when those of a plan have taken their part, the others are left to the next one, a moment
later. Decisions are stored by then, so every plan makes progress.
"""

from __future__ import annotations

from datetime import timedelta

from jobflow.core.cel.language.budget import MAX_WORK, Work

MAX_PLAN_WORK = MAX_WORK
"""Steps at most; the steps of the last decision come on top."""
LATER = timedelta(milliseconds=250)
"""Until what is left over is gone on with."""


class Allowance:
    """What is left for the expressions of one plan."""

    def __init__(self, work: int = MAX_PLAN_WORK) -> None:
        self._left = work
        self._last = Work(0)

    @property
    def spent(self) -> bool:
        """Whether nothing further is decided by expressions in this plan."""
        self._settle()
        return self._left <= 0

    def share(self) -> Work:
        """The budget of one more decision; what it takes is taken off."""
        self._settle()
        self._last = Work()
        self._left -= MAX_WORK
        return self._last

    def _settle(self) -> None:
        """Give back what the last decision has left over."""
        self._left += max(self._last.left, 0)
        self._last = Work(0)
