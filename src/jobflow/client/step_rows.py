"""One row per step of a flow, read from its status: phase, job, times and what to report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    JobRecord,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import TaskState
from jobflow.core.explain.progress import format_case, format_run_progress, message_of
from jobflow.core.names import format_job_name
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.step_times import StepTimes, times_of
from jobflow.core.text import join_names, printable
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.work import is_asked

_MAX_OUTPUTS = 60
"""Characters of outputs; longer ones are not shown."""
_START = 30
"""Characters at the beginning of a message by which it is found in another."""
_MAX_ITEM = 40
"""Characters of an item; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as it is now."""

    spec: Step
    condition: StepCondition
    job: str
    """The current or last job; all jobs of a forEach; "" before the first."""
    phase: str
    message: str
    attempts: int
    times: StepTimes
    pods: Mapping[str, TaskState] | None
    """Pods by task while the step runs."""
    outputs: str
    """`acc=0.9, epochs=3` if they are short; of a repeat those of its last run."""
    is_item: bool = False
    """Whether it is a row of `items`, whose step is `train/0`."""
    item: str = ""
    """The item, such as `eu-west`; "" if it is only a number."""
    items: Sequence[StepRow] = ()
    """A row for each item of forEach and for each run of repeat, if they were asked for."""

    @property
    def step(self) -> str:
        return self.spec.name

    @property
    def is_completed(self) -> bool:
        return self.phase == StepPhase.COMPLETED

    def duration(self, now: datetime) -> timedelta | None:
        """Time from its first job's start to its end or `now`; None before the first job."""
        return self.times.duration(now)

    def time_in_phase(self, now: datetime) -> timedelta | None:
        """The duration, or how long a Waiting step has waited."""
        since = self.condition.last_transition_time
        if self.phase == StepPhase.WAITING:
            return None if since is None else max(truncate_to_second(now) - since, timedelta())
        return self.duration(now)

    @property
    def with_reason(self) -> str:
        """`Reason: message`."""
        return with_reason(self.condition.reason, self.message)

    @property
    def runs(self) -> str:
        """`12/40 items done, 3 running, 1 failed`; "" for a step with one run."""
        return format_run_progress(self.spec, self.condition)

    @property
    def case(self) -> str:
        """`case 2 of 3: price-large`, if it has a switch."""
        return format_case(self.spec, self.condition)

    @property
    def result(self) -> str:
        """Everything to report of a Completed step."""
        return "; ".join(filter(None, (self.with_reason, self.case, self.runs, self.outputs)))


def with_reason(reason: str, message: str) -> str:
    """`Reason: message`, or the one that is not empty."""
    return ": ".join(filter(None, (reason, message)))


def without(message: str, told: Iterable[str]) -> str:
    """Return a message without the one of `told` that it ends with, and that is told below it. Long
    messages are cut, so it may have only the beginning of it."""
    whole = f": {message}"
    for each in filter(None, told):
        at = whole.find(f": {each[:_START]}")
        if at >= 0 and each.startswith(whole[at + 2 :].removesuffix("…")):
            return whole[2:at]
    return message


def format_outcomes(rows: Iterable[StepRow]) -> str:
    """`4 completed, 1 failed, 1 skipped`: steps that have ended. "" if all of them are Completed,
    because then the progress tells it."""
    phases = Counter(row.phase for row in rows)
    if not phases[StepPhase.FAILED] + phases[StepPhase.SKIPPED]:
        return ""
    ended = (StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED)
    return ", ".join(f"{phases[phase]} {phase.lower()}" for phase in ended if phases[phase])


def step_rows(flow: JobFlow, *, items: bool = False) -> list[StepRow]:
    """Return a row per step in spec order; the steps of `finally` last. With `items`, the rows of
    forEach and repeat have rows of their own."""
    flow = with_param_values(flow)
    conditions = flow.status.conditions or {}
    records = {record.name: record for record in flow.status.job_status_list or ()}
    waiting = StepCondition(phase=StepPhase.WAITING)
    keys = (format_job_name(flow.metadata.name, step.name) for step in flow.all_steps)
    rows = [
        _row(key, step, conditions.get(key, waiting), records, flow.status.start_time)
        for key, step in zip(keys, flow.all_steps, strict=True)
    ]
    if not items:
        return rows
    from jobflow.core.explain.item import list_item_waits  # imports the planner

    waits = list_item_waits(flow)
    return [
        replace(row, items=tuple(_item_rows(row, records, waits.get(row.step)))) for row in rows
    ]


def _item_rows(
    row: StepRow, records: Mapping[str, JobRecord], waits: Callable[[int], str] | None
) -> Iterator[StepRow]:
    """Yield `train/0`, `train/1` and so on. Items that have not started wait, unless their step has
    ended."""
    runs = {run.index or 0: run for run in row.condition.runs or ()}
    items = get_items(row.spec, row.condition.decisions) or ()
    not_started = range(len(items)) if row.phase not in ENDED_STEP_PHASES else ()
    for index in sorted({*runs, *not_started}):
        message = waits(index) if waits is not None else ""
        run = runs.get(index) or RunCondition(phase=StepPhase.WAITING, message=message)
        condition = StepCondition(**{name: getattr(run, name) for name in run.__struct_fields__})
        item = items[index] if index < len(items) else index
        made = _row("", Step(name=f"{row.step}/{index}"), condition, records)
        text = "" if item == index else _short(_value(item))
        yield replace(made, is_item=True, item=text)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_ITEM else text[: _MAX_ITEM - 1] + "…"


def _jobs(key: str, step: Step, condition: StepCondition) -> str:
    """`train-0 … 39` of a forEach, else the current or last job or child flow; "" for an
    approval."""
    if is_asked(step):
        return ""
    indices = [run.index for run in condition.runs or () if run.index is not None]
    if step.repeat is not None or not indices:
        return condition.job or condition.flow
    last = f" … {max(indices)}" if len(indices) > 1 else ""
    return f"{key}-{min(indices)}{last}"


def _row(
    key: str,
    step: Step,
    condition: StepCondition,
    records: Mapping[str, JobRecord],
    since: datetime | None = None,
) -> StepRow:
    last = condition.last_run or condition
    is_for_each = step.fan_out is not None
    message = message_of(condition)
    if is_for_each and condition.runs and _is_running(condition):
        message = message.partition("; ")[2]  # before it the counts of items, which `runs` shows
    return StepRow(
        spec=step,
        condition=condition,
        job=_jobs(key, step, condition),
        phase=condition.phase or StepPhase.WAITING,
        message=printable(message),
        attempts=0 if is_for_each else last.attempts,
        times=times_of(condition, records, since),
        pods=condition.task_status_count if _is_running(condition) and not is_for_each else None,
        outputs=_outputs_beside(message, (condition if is_for_each else last).outputs or {}),
    )


def _is_running(condition: StepCondition) -> bool:
    return condition.phase not in ENDED_STEP_PHASES and condition.phase != StepPhase.WAITING


def _outputs_beside(message: str, outputs: Mapping[str, Any]) -> str:
    """Return outputs, but not a text that ends the message: it says how the step failed."""
    text = outputs.get("text")
    is_known = isinstance(text, str) and message.endswith(f": {' '.join(text.split())}")
    return format_outputs({} if is_known else outputs)


def format_outputs(outputs: Mapping[str, Any]) -> str:
    """Return `accuracy=0.9, model=a`, or "" if that is too long."""
    text = ", ".join(f"{name}={_value(value)}" for name, value in outputs.items())
    return text if len(text) <= _MAX_OUTPUTS else ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def requested_hours(flow: JobFlow) -> str:
    """`1.25 core hours, 2.5 GiB hours and 0.5 GPU hours`: requests of all finished jobs."""
    conditions = (flow.status.conditions or {}).values()
    hours = [hours for each in conditions if (hours := each.requested_hours) is not None]
    totals = {
        unit: sum(float(getattr(each, field) or 0) for each in hours)
        for unit, field in (("core", "cpu"), ("GiB", "memory"), ("GPU", "gpu"))
    }
    return join_names(
        [
            f"{total:.4f}".rstrip("0").rstrip(".") + f" {unit} hours"
            for unit, total in totals.items()
            if total >= 0.00005
        ]
    )
