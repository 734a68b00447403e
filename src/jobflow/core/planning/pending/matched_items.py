"""The start of a step with `items: Matching`: when its items are known, and which they are.

It may begin once every matched target has begun, so that its items are known. The targets may still
run. Which of its items may start is decided for each of them (`started/item_states.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jobflow.api.flow.status import Decisions
from jobflow.core.planning.context import PlanContext
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import Requirement, StepEnd, TargetState
from jobflow.core.text import format_count

_ENDS_AFTER_ITEMS = (StepEnd.COMPLETED, StepEnd.FAILED, StepEnd.TOLERATED)
"""Ends of steps whose items may have run. The items of a skipped step did not."""


def with_known_lists(
    ctx: PlanContext, need: Requirement, reaches: Sequence[TargetState]
) -> list[TargetState]:
    """Return the states of a step's targets, in which those whose items are known count as met. All
    items must be known before the step begins, with strategy `any` too.

    A target must have begun before this plan: only then all that it depends on has ended, which
    expressions of the step may use, and a fault of the step's items cannot keep the target from
    starting."""
    found = list(reaches)
    for place, target in enumerate(need.targets):
        if target not in need.matched:
            continue
        end, is_known = ctx.progress.ends[target], _known_items(target, ctx) is not None
        if end in _ENDS_AFTER_ITEMS and is_known:
            found[place] = TargetState.MET
        elif end is None and not (is_known and ctx.observed[target].started):
            return [TargetState.NOT_YET] * len(found)
        elif end is None:
            found[place] = TargetState.MET
    return found


def _known_items(target: int, ctx: PlanContext) -> Sequence[Any] | None:
    """Return the items of a target, None if they are not known. A target that ended before one of
    its items began has only those that its spec lists, whether its decisions were stored or not."""
    items = get_items(ctx.steps[target], ctx.standing[target].decisions)
    end = ctx.progress.ends[target]
    began = end in (None, StepEnd.COMPLETED) or ctx.standing[target].runs
    return items if began or get_items(ctx.steps[target], None) is not None else None


def given_items(position: int, ctx: PlanContext) -> Sequence[Any] | None:
    """Return the items of the first matched target that has some; None without any."""
    return next((items for _, items in _lists(position, ctx)), None)


def find_mismatch(position: int, decided: Decisions | None, ctx: PlanContext) -> str:
    """Return how the number of the step's items differs from that of a target, or ""."""
    if position not in ctx.layout.matching:
        return ""
    items = get_items(ctx.steps[position], decided)
    for name, others in _lists(position, ctx):
        if items is not None and len(others) != len(items):
            own = format_count(len(items), "item")
            return f"it has {own} and {name} has {len(others):,}; items: Matching needs as many"
    return ""


def _lists(position: int, ctx: PlanContext) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the items of each matched target that was taken and whose items are known, by name."""
    need = ctx.layout.needs[position]
    for target in need.targets:
        if target in need.matched and ctx.progress.ends[target] is not StepEnd.NOT_TAKEN:
            if (items := _known_items(target, ctx)) is not None:
                yield ctx.graph.names[target], items
