"""The runs of a step: attempts, items of a forEach or runs of a repeat, and the child flow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobflow.api.flow.status import ENDED_STEP_PHASES, JobRecord, RunCondition, StepPhase
from jobflow.client.step_rows import StepRow, run_indices, run_rows, step_row, step_rows
from jobflow.core.explain.progress import message_of
from jobflow.core.names import format_job_name
from jobflow.core.spec.step_times import times_of
from jobflow.core.text import format_count
from jobflow.core.timelines.spans import Attempts
from jobflow.page.flow_view import SelectedStep
from jobflow.page.step.values import value_text
from jobflow.page.web.fragments import Fragment

PAGE = 50
"""Items on a page."""
MAX_CHILD_STEPS = 30
_MAX_ITEM = 60
_FAILED = "failed"
_MAX_DIGITS = 10


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A vcjob of a step."""

    number: int
    job: str
    phase: str
    start: datetime | None
    end: datetime | None
    reason: str
    """Why it failed, if that is known: of the last attempt."""
    node: str


def attempts(selected: SelectedStep) -> Fragment | None:
    """Return the attempts of a step or an item; None if it has none."""
    if selected.has_many_runs:
        return None
    key = format_job_name(selected.flow.metadata.name, selected.step.name)
    run = selected.run
    records = Attempts(selected.flow).of_run(key, run)
    rows = tuple(_attempt(record, number, run) for number, record in enumerate(records, 1))
    return Fragment("step-attempts", "step-attempts.html", rows) if rows else None


def _attempt(record: JobRecord, number: int, run: RunCondition) -> AttemptRow:
    failure = run.failure if record.name == run.job else None
    is_last = record.name == run.job and run.phase in ENDED_STEP_PHASES
    end = times_of(run, {record.name: record}).until if is_last else record.end_timestamp
    reason = ""
    if failure is not None:
        code = f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
        reason = ", ".join(filter(None, (failure.reason, code, failure.message)))
    return AttemptRow(
        number,
        record.name,
        record.state or StepPhase.WAITING,
        record.start_timestamp,
        end,
        reason,
        failure.node if failure is not None else "",
    )


# ------------------------------------------------------------------ items


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item of a forEach or a run of a repeat."""

    step: str
    index: int
    item: str
    phase: str
    start: datetime | None
    end: datetime | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ItemPages:
    """The items that are shown, and their total."""

    step: str
    noun: str
    first: int
    last: int
    total: int
    all: int
    failed: int
    only_failed: bool
    page: int
    pages: int


def items(selected: SelectedStep) -> list[Fragment]:
    """Return the items of a step, a page of them; nothing for another step."""
    if not selected.has_many_runs:
        return []
    flow, row = selected.flow, step_row(selected.flow, selected.step)
    only_failed, wanted = _read_query(selected.view.query.items, row.step)
    runs = row.condition.runs or ()
    every = run_indices(row)
    failed = sorted(run.index or 0 for run in runs if run.phase == StepPhase.FAILED)
    listed = failed if only_failed else every
    pages = max((len(listed) + PAGE - 1) // PAGE, 1)
    page = min(max(wanted, 1), pages)
    shown = listed[(page - 1) * PAGE : page * PAGE]
    first = (page - 1) * PAGE + 1 if shown else 0
    heading = ItemPages(
        step=row.step,
        noun="run" if selected.step.repeat is not None else "item",
        first=first,
        last=first + len(shown) - 1 if shown else 0,
        total=len(listed),
        all=len(every),
        failed=len(failed),
        only_failed=only_failed,
        page=page,
        pages=pages,
    )
    rows = [
        Fragment(f"item:{each.index}", "step-item.html", _item(row.step, each))
        for each in run_rows(flow, row, shown)
    ]
    return [
        Fragment("step-items", "step-items.html", heading),
        Fragment("item-rows", "item-rows.html", bool(rows), rows),
    ]


def _read_query(text: str, step: str) -> tuple[bool, int]:
    """Return whether only failed items are shown, and the number of the page."""
    name, _, rest = text.partition(":")
    which, _, page = rest.partition(":")
    if name != step:
        return False, 1
    is_number = page.isascii() and page.isdigit() and len(page) < _MAX_DIGITS
    return which == _FAILED, int(page) if is_number else 1


def _item(step: str, row: StepRow) -> ItemRow:
    has_ended = row.phase in ENDED_STEP_PHASES
    end = row.times.until if has_ended else None
    return ItemRow(
        step=step,
        index=row.index or 0,
        item="" if row.value == row.index else value_text(row.value, _MAX_ITEM),
        phase=row.phase,
        # without its end, the time of an item that has ended would go on
        start=row.times.start if end is not None or not has_ended else None,
        end=end,
        reason=row.condition.reason,
        message=message_of(row.condition),
    )


# ------------------------------------------------------------------ the child flow


@dataclass(frozen=True, slots=True)
class ChildStep:
    """A step of a child flow."""

    name: str
    phase: str
    detail: str


@dataclass(frozen=True, slots=True)
class Child:
    """The child flow that a step runs."""

    namespace: str
    name: str
    phase: str
    progress: str
    steps: tuple[ChildStep, ...]
    more: str
    problem: str
    """Why its steps are not shown."""


def child(selected: SelectedStep) -> Fragment | None:
    """Return the tree of the child flow of a step or an item; None if it runs none."""
    name = selected.run.flow
    if not name or selected.has_many_runs:
        return None
    namespace, live = selected.flow.metadata.namespace, selected.view.step
    flow = live.child(name) if live is not None else None
    if flow is None:
        gone = Child(namespace, name, "", "", (), "", f"JobFlow {name} is not there any more.")
        return Fragment("step-child", "step-child.html", gone)
    rows = step_rows(flow)
    steps = tuple(
        ChildStep(row.step, row.phase, row.with_reason or row.runs)
        for row in rows[:MAX_CHILD_STEPS]
    )
    more = len(rows) - len(steps)
    shown = Child(
        namespace,
        name,
        flow.status.state.phase or "Pending",
        flow.status.progress,
        steps,
        format_count(more, "more step") if more > 0 else "",
        "",
    )
    return Fragment("step-child", "step-child.html", shown)
