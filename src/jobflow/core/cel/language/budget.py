"""The budget of an evaluation: steps and bytes, the same on every machine, and what ends one."""

from __future__ import annotations

from datetime import timedelta

MAX_STEPS = 200_000
"""Steps of one evaluation. A step takes less than half a microsecond: a node of the tree, an entry
of a list that is compared, 64 characters of a text."""
MAX_BYTES = 4_194_304
"""Bytes that one evaluation may make, whether they are kept or not."""
_CHARACTERS = 64
"""Characters of a text that take one step."""
_FAILURE = 12
"""Steps that an error takes which another operand makes irrelevant."""


class CelError(Exception):
    """An expression has no value; the message is a clause that says why."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing
        """Whether it is because something does not exist."""

    def bare(self) -> CelError:
        """Return it without its traceback, which would hold what holds the error."""
        return CelError(self.message, missing=self.missing)


class BudgetExceededError(Exception):
    """The budget is spent. Nothing in an expression can make this irrelevant."""


class Budget:
    """The budget of one evaluation: steps and bytes, the same on every machine."""

    __slots__ = ("left", "room")

    def __init__(self, budget: int = MAX_STEPS, room: int = MAX_BYTES) -> None:
        self.left = budget
        self.room = room

    def spend(self, steps: int) -> None:
        """Take steps. Raises TooMuchError if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetExceededError(
                f"it takes more than {MAX_STEPS:,} steps; remove a loop inside another loop, or "
                "loop over shorter lists of smaller values"
            )

    def make(self, size: int) -> None:
        """Take bytes before something of this size is made. Raises TooMuchError."""
        self.room -= size
        if self.room < 0:
            raise BudgetExceededError(
                f"it creates more than {MAX_BYTES >> 20} MiB of texts, lists and maps; create less"
            )

    def read(self, text: str | bytes) -> None:
        """Take the steps to read a text once."""
        self.spend(2 + len(text) // _CHARACTERS)

    def write(self, characters: int, *, wide: bool = False) -> None:
        """Take the bytes of a text of this length; `wide`: it has characters beyond ASCII."""
        self.spend(3 + characters // _CHARACTERS)
        self.make(64 + (4 * characters if wide else characters))

    def entries(self, count: int) -> None:
        """Take the bytes of a list of this length, without its entries."""
        self.spend(1 + count // 8)
        self.make(64 + 9 * count)

    def pairs(self, count: int) -> None:
        """Take the bytes of a map of this size, without its keys and values."""
        self.spend(3 + 2 * count)
        self.make(240 + 110 * count)

    def failed(self) -> None:
        """Take the steps of an error that another operand makes irrelevant."""
        self.spend(_FAILURE)


MAX_PLAN_STEPS = MAX_STEPS
"""Steps at most; the steps of the last decision come on top."""
NEXT_PLAN_DELAY = timedelta(milliseconds=250)
"""Until what is left over is gone on with."""


class PlanBudget:
    """What is left for the expressions of one plan."""

    def __init__(self, work: int = MAX_PLAN_STEPS) -> None:
        self._left = work
        self._last = Budget(0)

    @property
    def spent(self) -> bool:
        """Whether nothing further is decided by expressions in this plan."""
        self._settle()
        return self._left <= 0

    def share(self) -> Budget:
        """The budget of one more decision; what it takes is taken off."""
        self._settle()
        self._last = Budget()
        self._left -= MAX_STEPS
        return self._last

    def _settle(self) -> None:
        """Give back what the last decision has left over."""
        self._left += max(self._last.left, 0)
        self._last = Budget(0)
