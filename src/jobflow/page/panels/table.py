"""The table of all steps: phase, times, attempts and reasons, in an order that the user chooses."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jobflow.api.flow.status import StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.explain.progress import message_of
from jobflow.page.flow_view import FlowView
from jobflow.page.panels.rows import Key, Row, Rows
from jobflow.page.web.fragments import Fragment

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


def table_view(view: FlowView) -> Fragment:
    rows, sort = Rows.of(view), view.query.sort
    name, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if name not in TITLES:
        name, is_descending = DEFAULT, False
    key = _keys(view.now)[name]
    found = [
        Fragment(f"row:{row.path}", "step-row.html", _row(rows, row))
        for row in rows.shown(key=key, is_reversed=is_descending)
    ]
    direction = "descending" if is_descending else "ascending"
    columns = []
    for each, title in TITLES.items():
        other = f"-{each}" if each == name and not is_descending else each
        column = {
            "name": each,
            "title": title,
            "is_number": each in _NUMBERS,
            "sort": "" if other == DEFAULT else other,  # the link has no sort for the default
            "direction": direction if each == name else "",
        }
        columns.append(column)
    body = Fragment("step-rows", "rows.html", None, found)
    return Fragment("table", "steps.html", columns, [body])


def _keys(now: datetime) -> Mapping[str, Key]:
    """Return the key of each column. Rows with the same key keep the order of the spec."""

    def duration(row: Row) -> timedelta:
        start, end = row.span
        return (end or now) - start if start is not None else timedelta()

    def reason(row: Row) -> tuple[bool, str]:
        found = row.step.condition.reason
        return not found, found  # rows without a reason come last

    return {
        "step": lambda row: row.path,
        "phase": lambda row: _RANKS.index(row.phase if row.phase in _RANKS else ""),
        "start": lambda row: row.span[0] or _LAST,
        "duration": duration,
        "attempts": lambda row: row.step.condition.attempts,
        "reason": reason,
        "node": lambda row: (not _node(row), _node(row)),
    }


def _row(rows: Rows, row: Row) -> dict[str, Any]:
    condition = row.step.condition
    start, end = row.span
    return {
        "place": rows.place(row),
        "reason": condition.reason,
        "message": message_of(condition),
        "start": start,
        "end": end or (rows.view.at if start is not None else None),
        "attempts": condition.attempts,
        "node": _node(row),
    }


def _node(row: Row) -> str:
    failure = row.step.condition.failure
    return failure.node if failure is not None else ""
