"""The creates that are tried while a quota or missing rights refuse them.

A full quota or a missing right refuses every vcjob of the flow, so only a few are tried: first
those that were never tried, in their start order, then those that were refused longest ago.
Every vcjob gets its turn, and a smaller one can be created even if another cannot. `Held`
says when the next try is made, and how many are tried at once.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.core.planning.decision import Continuation, Draft, StepDecision
from jobflow.core.planning.observed.view import Held
from jobflow.core.planning.waiting import postpone
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.timestamps import ceil_to_second


class Turn:
    """The vcjobs whose turn it is to be tried."""

    def __init__(
        self, held: Held, decisions: Iterable[StepDecision], now: datetime, most: int | None
    ) -> None:
        """`most`: the number of vcjobs that the flow has room for; None: any number."""
        self._held = held
        self._is_due = held.is_due(now)
        refused = {name: place for place, name in enumerate(held.tried)}
        names = [draft.name for decision in decisions for draft in decision.drafts]
        names.sort(key=lambda name: refused.get(name, -1))
        self._names = frozenset(names[: held.room][:most])

    def let_through(self, drafts: Iterable[Draft | Continuation]) -> list[Draft | Continuation]:
        """Return those that are tried now."""
        return [draft for draft in drafts if self._is_due and draft.name in self._names]

    def held_back(
        self, decision: StepDecision, drafts: Iterable[Draft | Continuation]
    ) -> StepDecision:
        """Return the decision with the reason why its step waits. `drafts`: its vcjobs, tried or
        not, so that a try alone does not change the condition."""
        retry_at = self._held.retry_at
        is_next = any(draft.name in self._names for draft in drafts)
        made = msgspec.structs.replace(decision, condition=self._refused(decision, is_next))
        if retry_at is None or self._is_due:
            return made
        wake_at = min(decision.wake_at or retry_at, retry_at)
        return msgspec.structs.replace(made, wake_at=wake_at)

    def _refused(self, decision: StepDecision, is_next: bool) -> StepCondition:
        condition, why, retry_at = decision.condition, self._held.message, self._held.retry_at
        if retry_at is not None:
            why = f"{why}; the flow's jobs are tried in turn"
        if under_way(condition):  # a forEach that has other items
            message = f"{condition.message}; the next waits: {why}"
            return msgspec.structs.replace(condition, message=shorten(message))
        until = ceil_to_second(retry_at) if retry_at is not None and is_next else None
        return postpone(
            condition,
            reason=StepReason.CREATE_REFUSED,
            message=shorten(why),
            next_attempt_time=None if condition.attempts else until,
        )


def under_way(condition: StepCondition) -> bool:
    """Whether the step, or any of its runs, has a vcjob that has not ended."""
    runs = condition.runs or (condition,)
    return any(run.phase not in (StepPhase.WAITING, *ENDED_STEP_PHASES) for run in runs)
