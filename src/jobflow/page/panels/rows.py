"""The rows of timeline and table: steps, and in those that are open their runs or child steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.explain.progress import format_case, format_run_progress
from jobflow.core.names import format_job_name
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.step_times import StepTimes, times_of
from jobflow.core.timelines.rows import run_timelines
from jobflow.core.timelines.spans import runs_of
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline
from jobflow.core.work import work_of
from jobflow.page.flow_view import FlowView
from jobflow.page.web.filters import flow_path


@dataclass(frozen=True, slots=True)
class Row:
    """A step, a run of it, or a step of its child flow."""

    path: str
    """`train`, `sweep/3` or `train/fit`."""
    phase: str
    line: StepTimeline
    condition: RunCondition
    detail: str
    """`finally`, `daemon`, `flow`, `12/40 items`, `case 2 of 3`, joined by commas; "" for a run."""
    times: StepTimes
    level: int = 0
    link: str = ""
    """The page of the child flow that the step belongs to, where it is selected; "" for a step of
    this flow."""
    has_more: bool = False
    """Whether it has rows inside."""
    is_open: bool = False
    inside: tuple[Row, ...] = ()

    @property
    def name(self) -> str:
        """The name within the row above."""
        return self.path.rpartition("/")[2] if self.level else self.path


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a row that timeline and table share."""

    path: str
    name: str
    phase: str
    detail: str
    level: int
    link: str
    """The address of what the row shows."""
    is_here: bool
    """Whether the link selects a step of this page."""
    is_selected: bool
    is_critical: bool
    fold: str
    """The query that opens or closes the row; "" if it has nothing inside."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a flow at a moment."""

    view: FlowView
    found: Timeline | None
    """None if the flow has no times yet."""
    opened: frozenset[str]
    whole: bool = False
    """Whether `found` has also the time before the last retry."""
    steps: tuple[Row, ...] = field(default=())

    @classmethod
    def of(cls, view: FlowView, *, whole: bool = False) -> Rows:
        """Return the rows of a flow, without those that do not match the query. `whole`: with the
        time before the last retry."""
        found = timeline(view.flow, now=view.now, whole=whole)
        opened = {*filter(None, view.query.open.split(","))}
        parents = view.query.step.split("/")[:-1]
        opened |= {"/".join(parents[:depth]) for depth in range(1, len(parents) + 1)}
        rows = cls(view, found, frozenset(opened), whole)
        steps = _of_flow(rows, view.flow, found, "", "", 0)
        return replace(rows, steps=tuple(_matching(steps, view.query.q.strip().lower())))

    def shown(
        self,
        rows: Iterable[Row] | None = None,
        *,
        key: Key | None = None,
        is_reversed: bool = False,
    ) -> Iterator[Row]:
        """Yield all rows from top to bottom, sorted by a key on each level, if there is one."""
        level = self.steps if rows is None else rows
        for row in level if key is None else sorted(level, key=key, reverse=is_reversed):
            yield row
            yield from self.shown(row.inside, key=key, is_reversed=is_reversed)

    def place(self, row: Row) -> Place:
        """Return what timeline and table have in common."""
        is_open = row.path in self.opened
        others = self.opened - {row.path} if is_open else self.opened | {row.path}
        return Place(
            row.path,
            row.path if self.view.query.q and row.level else row.name,
            row.phase,
            row.detail,
            row.level,
            row.link or "?" + urlencode({"step": row.path}),
            not row.link,
            row.path == self.view.query.step,
            row.line.is_critical,
            "?" + urlencode({"open": ",".join(sorted(others))}) if row.has_more else "",
            is_open,
        )


Key = Callable[[Row], Any]
"""By which rows are sorted."""


def _of_flow(
    rows: Rows, flow: JobFlow, found: Timeline | None, prefix: str, link: str, level: int
) -> Iterator[Row]:
    conditions = flow.status.conditions or {}
    lines = {line.step: line for line in found.steps} if found is not None else {}
    last = {step.name for step in flow.spec.finally_ or ()}
    records = {record.name: record for record in flow.status.job_status_list or ()}
    for step in with_param_values(flow).all_steps:
        condition = conditions.get(
            format_job_name(flow.metadata.name, step.name), StepCondition(phase=StepPhase.WAITING)
        )
        phase = condition.phase or StepPhase.WAITING
        line = lines.get(step.name) or StepTimeline(step.name, phase, condition.attempts)
        row = Row(
            prefix + step.name,
            phase,
            replace(line, is_critical=line.is_critical and not level),
            condition,
            _describe(step, condition, is_last=step.name in last),
            times_of(condition, records, flow.status.start_time),
            level,
            link and f"{link}?{urlencode({'step': step.name, 'view': rows.view.query.view})}",
            bool(condition.runs) or _child(rows, condition) is not None,
            prefix + step.name in rows.opened,
        )
        yield replace(row, inside=tuple(_inside(rows, flow, found, step, row)))


def _inside(
    rows: Rows, flow: JobFlow, found: Timeline | None, step: Step, row: Row
) -> Iterator[Row]:
    """Yield the rows below an open one."""
    if not row.is_open or not isinstance(row.condition, StepCondition):
        return
    if not row.condition.runs:
        yield from _of_child(rows, row)
        return
    records = {record.name: record for record in flow.status.job_status_list or ()}
    lines = run_timelines(flow, found, step.name) if found is not None else ()
    for line, run in zip(lines, runs_of(row.condition), strict=False):
        path = f"{row.path}/{run.index or 0}"
        below = Row(
            path,
            line.phase,
            line,
            run,
            "",
            times_of(run, records),
            row.level + 1,
            row.link,
            _child(rows, run) is not None,
            path in rows.opened,
        )
        yield replace(below, inside=tuple(_of_child(rows, below)) if below.is_open else ())


def _of_child(rows: Rows, row: Row) -> Iterator[Row]:
    child = _child(rows, row.condition)
    if child is None:
        return
    link = flow_path(child.metadata.namespace, child.metadata.name)
    found = timeline(child, now=rows.view.now, whole=rows.whole)
    yield from _of_flow(rows, child, found, f"{row.path}/", link, row.level + 1)


def _child(rows: Rows, run: RunCondition) -> JobFlow | None:
    return rows.view.child(run.flow)


def _matching(rows: Iterable[Row], text: str) -> Iterator[Row]:
    """Yield the rows whose path has a text, with the rows above them."""
    for row in rows:
        inside = tuple(_matching(row.inside, text))
        if inside or text in row.path.lower():
            yield replace(row, inside=inside)


def until(row: Row) -> tuple[datetime | None, datetime | None]:
    """Return when a step or run started, and when it ended, as `jobflow get` counts its duration;
    each None if unknown. One that waits started with its first job."""
    line, condition = row.line, row.condition
    if row.phase != StepPhase.WAITING and row.times.start is not None:
        return row.times.start, row.times.until
    jobs = [span for span in line.spans if span.job]
    start = jobs[0].start if jobs else condition.create_time
    if start is None:
        return None, None
    if line.is_open:
        return start, None
    return start, line.end if jobs else condition.last_transition_time


def _describe(step: Step, condition: StepCondition, *, is_last: bool) -> str:
    parts = (
        "finally" if is_last else "",
        "daemon" if step.daemon else "",
        work.noun if (work := work_of(step)).has_steps else "",
        format_run_progress(step, condition, brief=True),
        format_case(step, condition),
    )
    return ", ".join(filter(None, parts))
