"""The budget of an evaluation, in steps and bytes, and the errors that end one.

A step takes less than half a microsecond: a node of the tree, an entry of a list that is compared,
64 characters of a text. Costs depend on the values alone, so they are the same on every machine.
"""

from __future__ import annotations

from datetime import timedelta

MAX_STEPS = 200_000
"""Steps of one evaluation."""
MAX_BYTES = 4_194_304
"""Bytes that one evaluation may create, whether it keeps them or not."""
_CHARACTERS = 64
"""Characters of a text that cost one step."""
COST_OF_ERROR = 12
"""Steps of an error that another operand may make irrelevant."""


class CelError(Exception):
    """An expression has no value; the message is a clause that says why."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing
        """Whether the reason is that something does not exist."""

    def bare(self) -> CelError:
        """Return a copy without the traceback, whose frames would refer to the error itself."""
        return CelError(self.message, missing=self.missing)


# no CelError, because `||` must not turn a spent budget into a value
class BudgetExceededError(Exception):
    """The budget is spent; no operand makes this irrelevant."""


class Budget:
    """Steps and bytes that are left. Every method raises BudgetExceededError if they run out."""

    __slots__ = ("bytes", "steps")

    def __init__(self, steps: int = MAX_STEPS, size: int = MAX_BYTES) -> None:
        self.steps = steps
        self.bytes = size

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceededError(
                f"it takes more than {MAX_STEPS:,} steps; remove a loop inside another loop, or "
                "loop over shorter lists of smaller values"
            )

    def allocate(self, size: int) -> None:
        """Take bytes, before a value of this size is created."""
        self.bytes -= size
        if self.bytes < 0:
            raise BudgetExceededError(
                f"it creates more than {MAX_BYTES >> 20} MiB of texts, lists and maps; create less"
            )

    def read(self, text: str | bytes) -> None:
        """Take the steps to read a text once."""
        # a short text costs too, because it is an object
        self.spend(2 + len(text) // _CHARACTERS)

    def add_text(self, length: int, *, wide: bool = False) -> None:
        """Take the cost of a new text; `wide`: it has characters beyond ASCII."""
        self.spend(3 + length // _CHARACTERS)
        self.allocate(64 + (4 * length if wide else length))

    def add_list(self, length: int) -> None:
        """Take the cost of a new list, without its entries."""
        self.spend(1 + length // 8)
        self.allocate(64 + 9 * length)

    def add_map(self, length: int) -> None:
        """Take the cost of a new map, without its keys and values."""
        self.spend(3 + 2 * length)
        self.allocate(240 + 110 * length)


MAX_PLAN_STEPS = MAX_STEPS
"""Steps of the expressions of one plan, without those of the last one that it starts."""
NEXT_PLAN_DELAY = timedelta(milliseconds=250)
"""Pause before the next plan evaluates the expressions that this one left out."""


class PlanBudget:
    """The steps that are left for the expressions of one plan."""

    def __init__(self, steps: int = MAX_PLAN_STEPS) -> None:
        self._left = steps
        self._last = Budget(0)

    @property
    def spent(self) -> bool:
        """Whether this plan may not start another evaluation."""
        return self._left + max(self._last.steps, 0) <= 0

    def share(self) -> Budget:
        """Return the budget of one more evaluation; the plan pays for the steps that it takes."""
        # all of its steps are taken, and those that the one before has left are given back
        self._left += max(self._last.steps, 0) - MAX_STEPS
        self._last = Budget()
        return self._last
