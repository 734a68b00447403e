"""The steps of a flow, their items and runs, as rows of a table, a tree or a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    FlowPhase,
    JobRecord,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import TaskState
from jobflow.client.conditions import condition_of
from jobflow.core.explain.progress import format_case, format_run_progress, message_of
from jobflow.core.names import format_job_name
from jobflow.core.spec.items import describe_scaling, get_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.step_times import StepTimes, times_of
from jobflow.core.text import printable, shorten
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.work import ends_in_status

_MAX_ITEM = 40
"""Characters of an item; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step, an item of a forEach or a run of a repeat."""

    spec: Step
    """An item or a run is a step of its own, of which nothing but the name is known."""
    condition: StepCondition
    message: str
    times: StepTimes
    key: str = ""
    """The name of its jobs, without the index of an item."""
    index: int | None = None
    """Index of the item or run; None for a step."""
    value: Any = None
    """The value of an item; its index if it is only a number."""
    items: Sequence[StepRow] = ()
    """A row for each item of forEach and for each run of repeat, if they were asked for."""
    limit: str = ""
    """Until its end: how many of its items a user lets run at once."""

    @property
    def step(self) -> str:
        """`train`, or `train/0` for an item or a run."""
        return self.spec.name

    @property
    def phase(self) -> str:
        """It is Waiting before the controller has written it."""
        return self.condition.phase or StepPhase.WAITING

    @property
    def is_completed(self) -> bool:
        return self.phase == StepPhase.COMPLETED

    @property
    def _is_for_each(self) -> bool:
        return self.spec.fan_out is not None

    @property
    def _last(self) -> RunCondition:
        return self.condition.last_run or self.condition

    @property
    def attempts(self) -> int:
        """The attempts of its only or last run; 0 for the items of a forEach together."""
        return 0 if self._is_for_each else self._last.attempts

    @property
    def pods(self) -> Mapping[str, TaskState] | None:
        """Pods by task while its job runs."""
        has_pods = self.condition.is_alive and not self._is_for_each
        return self.condition.task_status_count if has_pods else None

    @property
    def job(self) -> str:
        """The current or last job or child flow; `train-0 … 39` of a forEach; "" if none."""
        if ends_in_status(self.spec):
            return ""
        indices = [run.index for run in self.condition.runs or () if run.index is not None]
        if self.spec.repeat is not None or not indices:
            return self.condition.job or self.condition.flow
        last = f" … {max(indices)}" if len(indices) > 1 else ""
        return f"{self.key}-{min(indices)}{last}"

    @property
    def values(self) -> Mapping[str, Any]:
        """The outputs; of a repeat those of its last run."""
        return (self.condition if self._is_for_each else self._last).outputs or {}

    @property
    def outputs(self) -> str:
        """`acc=0.9, epochs=3`."""
        text = self.values.get("text")
        # a text that ends the message says how the step failed, which is shown already
        if isinstance(text, str):
            if message_of(self.condition).endswith(f": {' '.join(text.split())}"):
                return ""
        return format_outputs(self.values)

    @property
    def item(self) -> str:
        """The item, such as `eu-west`; "" if it is only a number."""
        text = "" if self.value == self.index else format_value(self.value)
        return shorten(text, _MAX_ITEM)

    @property
    def runs(self) -> str:
        """`12/40 items done, 3 running, 1 failed`; "" for a step with one run."""
        return ", ".join(filter(None, (format_run_progress(self.spec, self.condition), self.limit)))

    @property
    def case(self) -> str:
        """`case 2 of 3: price-large`, if it has a switch."""
        return format_case(self.spec, self.condition)

    @property
    def with_reason(self) -> str:
        """`Reason: message`."""
        return with_reason(self.condition.reason, self.message)

    @property
    def result(self) -> str:
        """Everything to report of a Completed step but its outputs."""
        return "; ".join(filter(None, (self.with_reason, self.case, self.runs)))

    def duration(self, now: datetime) -> timedelta | None:
        """Time from its first job's start to its end or `now`; None before the first job."""
        return self.times.duration(now)

    def time_in_phase(self, now: datetime) -> timedelta | None:
        """The duration, or how long a Waiting step has waited."""
        if self.phase != StepPhase.WAITING:
            return self.duration(now)
        # whole seconds, as the times of a status
        since = self.condition.last_transition_time
        return None if since is None else max(truncate_to_second(now) - since, timedelta())


def with_reason(reason: str, message: str) -> str:
    """`Reason: message`, or the one that is not empty."""
    return ": ".join(filter(None, (reason, message)))


def step_rows(flow: JobFlow, *, items: bool = False) -> list[StepRow]:
    """Return a row per step in spec order; the steps of `finally` last. With `items`, the rows of
    forEach and repeat have rows of their own."""
    flow = with_param_values(flow)
    records = records_of(flow)
    rows = [step_row(flow, step, records) for step in flow.all_steps]
    if not items:
        return rows
    from jobflow.core.explain.item import list_item_waits  # imports the planner

    waits = list_item_waits(flow)
    return [
        replace(row, items=[*run_rows(row, run_indices(row), records, waits.get(row.step))])
        for row in rows
    ]


def run_indices(row: StepRow) -> list[int]:
    """Return the indices of the runs of a step, and of its items that have not started. These wait,
    unless their step has ended."""
    found = {run.index or 0 for run in row.condition.runs or ()}
    if row.phase not in ENDED_STEP_PHASES:
        found.update(range(len(get_items(row.spec, row.condition.decisions) or ())))
    return sorted(found)


def records_of(flow: JobFlow) -> Mapping[str, JobRecord]:
    """Return the records of the jobs of a flow by their names."""
    return {record.name: record for record in flow.status.job_status_list or ()}


def step_row(flow: JobFlow, step: Step, records: Mapping[str, JobRecord]) -> StepRow:
    condition = condition_of(flow, step.name)
    message = message_of(condition)
    if step.fan_out is not None and condition.runs and condition.is_alive:
        message = message.partition("; ")[2]  # before it the counts of items, which `runs` shows
    times = times_of(condition, records, flow.status.start_time)
    key = format_job_name(flow.metadata.name, step.name)
    has_ended = condition.phase in ENDED_STEP_PHASES
    limit = "" if has_ended else printable(describe_scaling(flow, step))
    return StepRow(step, condition, printable(message), times, key, limit=limit)


def run_rows(
    row: StepRow,
    indices: Iterable[int],
    records: Mapping[str, JobRecord],
    waits: Callable[[int], str] | None = None,
) -> Iterator[StepRow]:
    """Yield `train/0`, `train/1` and so on: the runs or items of a step with these indices. `waits`
    says why an item has not started."""
    runs = {run.index or 0: run for run in row.condition.runs or ()}
    items = get_items(row.spec, row.condition.decisions) or ()
    for index in indices:
        if (run := runs.get(index)) is None:
            message = waits(index) if waits is not None else ""
            run = RunCondition(phase=StepPhase.WAITING, message=message)
        # so that a row of a run is read as that of a step
        condition = StepCondition(**{name: getattr(run, name) for name in run.__struct_fields__})
        yield StepRow(
            Step(name=f"{row.step}/{index}"),
            condition,
            printable(message_of(run)),
            times_of(run, records),
            index=index,
            value=items[index] if index < len(items) else index,
        )


def format_outputs(outputs: Mapping[str, Any]) -> str:
    """Return `accuracy=0.9, model=a`."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in outputs.items())


def format_value(value: Any) -> str:
    """Return a text as it is, other values as JSON."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def outputs_of(flow: JobFlow, step: str | None = None, index: int | None = None) -> dict[str, Any]:
    """Return the outputs of the flow, and by name those of all steps or of one; of its items all
    or one."""
    return {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "phase": flow.status.state.phase or FlowPhase.PENDING,
        "outputs": flow.status.outputs or {},
        "steps": {
            row.step: _of_step(row, index) for row in step_rows(flow) if step in (None, row.step)
        },
    }


def _of_step(row: StepRow, index: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"phase": row.phase, "outputs": row.values}
    if row.spec.has_runs:
        indices = run_indices(row) if index is None else [index]
        found["items"] = [
            {
                "index": item.index,
                # a run of a repeat has no value but its index
                **({} if row.spec.fan_out is None else {"value": item.value}),
                "phase": item.phase,
                "outputs": item.values,
            }
            for item in run_rows(row, indices, {})
        ]
    return found
