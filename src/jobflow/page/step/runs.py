"""The runs of a step: attempts, items of a forEach or runs of a repeat, and the child flow."""

from typing import Any

from jobflow.api.flow.status import ENDED_STEP_PHASES, JobRecord, RunCondition, StepPhase
from jobflow.client.conditions import read_index
from jobflow.client.step_rows import StepRow, records_of, run_indices, run_rows, step_row, step_rows
from jobflow.core.explain.progress import message_of
from jobflow.core.names import format_job_name
from jobflow.core.spec.step_times import times_of
from jobflow.core.text import format_count
from jobflow.core.timelines.spans import Attempts
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment, value_text

PAGE = 50
"""Items on a page."""
MAX_CHILD_STEPS = 30
_MAX_ITEM = 60


def attempts(selected: SelectedStep) -> Fragment | None:
    """Return the attempts of a step or an item; None if it has none."""
    if selected.has_many_runs:
        return None
    key = format_job_name(selected.flow.metadata.name, selected.step.name)
    run = selected.run
    records = Attempts(selected.flow).of_run(key, run)
    # the records of the first ones may have been dropped, and child flows have only one
    first = max(run.attempts - len(records), 0) + 1
    unrecorded = [
        (each.attempt, JobRecord(state=StepPhase.FAILED, end_timestamp=each.time))
        for each in run.failed_attempts or ()
        if each.attempt < first
    ]
    rows = [_attempt(record, n, run) for n, record in (*unrecorded, *enumerate(records, first))]
    return Fragment("step-attempts", "step-attempts.html", rows) if rows else None


def _attempt(record: JobRecord, number: int, run: RunCondition) -> dict[str, Any]:
    is_current = record.name == run.job != ""
    is_last = is_current and run.phase in ENDED_STEP_PHASES
    before = next((each for each in run.failed_attempts or () if each.attempt == number), None)
    failure, reason = before or (run.failure if is_current else None), ""
    if failure is not None:
        code = f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
        code = f"signal {failure.signal}" if failure.signal else code
        reason = ", ".join(filter(None, (failure.reason, code, failure.message)))
    return {
        "number": number,
        "job": record.name,
        "phase": record.state or StepPhase.WAITING,
        "start": record.start_timestamp,
        "end": times_of(run, {record.name: record}).until if is_last else record.end_timestamp,
        "reason": reason,
        "node": failure.node if failure is not None else "",
    }


def items(selected: SelectedStep) -> list[Fragment]:
    """Return the items of a step, a page of them; nothing for another step."""
    if not selected.has_many_runs:
        return []
    records = records_of(selected.flow)
    row = step_row(selected.flow, selected.step, records)
    name, _, rest = selected.view.query.items.partition(":")
    which, _, number = rest.partition(":")
    is_of_step = name == row.step  # else of one that was selected before
    only_failed = is_of_step and which == "failed"
    wanted = (read_index(number) or 1) if is_of_step else 1
    every = run_indices(row)
    runs = row.condition.runs or ()
    failed = sorted(run.index or 0 for run in runs if run.phase == StepPhase.FAILED)
    listed = failed if only_failed else every
    pages = max((len(listed) + PAGE - 1) // PAGE, 1)
    page = min(max(wanted, 1), pages)
    start = (page - 1) * PAGE
    shown = listed[start : start + PAGE]
    heading = {
        "step": row.step,
        "noun": "run" if selected.step.repeat is not None else "item",
        "first": start + 1 if shown else 0,
        "last": start + len(shown),
        "total": len(listed),
        "all": len(every),
        "failed": len(failed),
        "only_failed": only_failed,
        "page": page,
        "pages": pages,
    }
    rows = [
        Fragment(f"item:{each.index}", "step-item.html", _item(row.step, each))
        for each in run_rows(row, shown, records)
    ]
    return [
        Fragment("step-items", "step-items.html", heading),
        Fragment("item-rows", "item-rows.html", bool(rows), rows),
    ]


def _item(step: str, row: StepRow) -> dict[str, Any]:
    has_ended = row.phase in ENDED_STEP_PHASES
    end = row.times.until if has_ended else None
    return {
        "step": step,
        "index": row.index,
        "item": "" if row.value == row.index else value_text(row.value, _MAX_ITEM),
        "phase": row.phase,
        # without its end, the time of an item that has ended would go on
        "start": row.times.start if end is not None or not has_ended else None,
        "end": end,
        "reason": row.condition.reason,
        "message": message_of(row.condition),
    }


def child(selected: SelectedStep) -> Fragment | None:
    """Return the steps of the child flow of a step or an item; None if it runs none."""
    name = selected.run.flow
    if not name or selected.has_many_runs:
        return None
    watches = selected.view.page.step
    flow = watches.child(name) if watches is not None else None
    shown: dict[str, Any] = {
        "namespace": selected.flow.metadata.namespace,
        "name": name,
        "progress": "",
        "steps": [],
        "more": "",
        "problem": f"JobFlow {name} is not there any more.",
    }
    if flow is not None:
        rows = step_rows(flow)
        more = len(rows) - MAX_CHILD_STEPS
        shown |= {
            "progress": flow.status.progress,
            "steps": [
                {"name": row.step, "phase": row.phase, "detail": row.with_reason or row.runs}
                for row in rows[:MAX_CHILD_STEPS]
            ],
            "more": format_count(more, "more step") if more > 0 else "",
            "problem": "",
        }
    return Fragment("step-child", "step-child.html", shown)
