"""The table of all steps: phase, times, attempts and reasons, in an order that the user chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobflow.api.flow.status import StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.explain.progress import message_of
from jobflow.page.flow_view import FlowView
from jobflow.page.panels.rows import Key, Place, Row, Rows
from jobflow.page.web.fragments import Fragment

_RANKS = (
    StepPhase.FAILED,
    "",  # every phase that is not named here, such as Restarting
    JobPhase.RUNNING,
    JobPhase.PENDING,
    StepPhase.WAITING,
    StepPhase.COMPLETED,
    StepPhase.SKIPPED,
)
_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, and its link, which sorts by it."""

    name: str
    title: str
    is_number: bool
    sort: str
    """The sort that its link sets; "" for the sort without one."""
    direction: str
    """`ascending` or `descending` if the table is sorted by it, else ""."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table."""

    place: Place
    reason: str
    message: str
    start: datetime | None
    end: datetime | None
    attempts: int
    node: str
    """The node of the pod that failed."""


DEFAULT = "phase"
"""The column by which a table is sorted: failed steps first, then those that run."""
TITLES: Mapping[str, str] = {
    "step": "Step",
    "phase": "Phase",
    "start": "Start",
    "duration": "Duration",
    "attempts": "Attempts",
    "reason": "Reason",
    "node": "Node",
}
_NUMBERS = frozenset({"duration", "attempts"})


def table_view(view: FlowView) -> Fragment:
    """Return the view of the table."""
    rows = Rows.of(view)
    name, is_descending = _sort(view.query.sort)
    keys = _keys(view.now)
    found = [
        Fragment(f"row:{row.path}", "step-row.html", _row(rows, row))
        for row in rows.shown(key=keys[name], is_reversed=is_descending)
    ]
    columns = tuple(
        _column(each, is_chosen=each == name, is_descending=is_descending) for each in TITLES
    )
    return Fragment(
        "table", "steps.html", columns, [Fragment("step-rows", "rows.html", None, found)]
    )


def _sort(text: str) -> tuple[str, bool]:
    """Return the column of a query, and whether the last value comes first."""
    name = text.removeprefix("-")
    return (name, text.startswith("-")) if name in TITLES else (DEFAULT, False)


def _column(name: str, *, is_chosen: bool, is_descending: bool) -> Column:
    other = f"-{name}" if is_chosen and not is_descending else name
    direction = ("descending" if is_descending else "ascending") if is_chosen else ""
    sort = "" if other == DEFAULT else other
    return Column(name, TITLES[name], name in _NUMBERS, sort, direction)


def _keys(now: datetime) -> Mapping[str, Key]:
    """Return the key of each column. Rows with the same key keep the order of the spec."""

    def duration(row: Row) -> timedelta:
        start, end = row.span
        return (end or now) - start if start is not None else timedelta()

    def reason(row: Row) -> tuple[bool, str]:
        found = row.step.condition.reason
        return not found, found

    return {
        "step": lambda row: row.path,
        "phase": lambda row: _RANKS.index(row.phase if row.phase in _RANKS else ""),
        "start": lambda row: row.span[0] or _LAST,
        "duration": duration,
        "attempts": lambda row: row.step.condition.attempts,
        "reason": reason,
        "node": lambda row: (not _node(row), _node(row)),
    }


def _row(rows: Rows, row: Row) -> TableRow:
    condition = row.step.condition
    start, end = row.span
    return TableRow(
        place=rows.place(row),
        reason=condition.reason,
        message=message_of(condition),
        start=start,
        end=end or (rows.view.at if start is not None else None),
        attempts=condition.attempts,
        node=_node(row),
    )


def _node(row: Row) -> str:
    failure = row.step.condition.failure
    return failure.node if failure is not None else ""
