"""The rows of timeline and table: steps, and in those that are open their runs or child steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.client.step_rows import StepRow, records_of, run_rows, step_rows
from jobflow.core.explain.progress import format_run_progress
from jobflow.core.reasons import StepReason
from jobflow.core.timelines.timeline import StepTimeline, Timeline, run_timelines, timeline
from jobflow.core.work import work_of
from jobflow.page.flow_view import FlowView
from jobflow.page.web.fragments import flow_path


@dataclass(frozen=True, slots=True)
class Row:
    """A step, a run of it, or a step of its child flow."""

    path: str
    """`train`, `sweep/3` or `train/fit`."""
    step: StepRow
    line: StepTimeline
    detail: str = ""
    """`finally`, `daemon`, `flow`, `12/40 items`, `case 2 of 3`, joined by commas; "" for a run."""
    level: int = 0
    link: str = ""
    """The page of the child flow that has the step; "" for a step of this flow."""
    inside: tuple[Row, ...] | None = None
    """The rows inside, none unless it is open; None if it never has any."""

    @property
    def phase(self) -> str:
        return self.step.phase

    @property
    def name(self) -> str:
        """The name within the row above."""
        return self.path.rpartition("/")[2] if self.level else self.path

    @property
    def span(self) -> tuple[datetime | None, datetime | None]:
        """When it started, and when it ended, as `jobflow get` counts its duration; each None if
        unknown. One that waits started with its first job."""
        times, condition = self.step.times, self.step.condition
        if self.phase != StepPhase.WAITING and times.start is not None:
            return times.start, times.until
        jobs = [span for span in self.line.spans if span.job]
        start = jobs[0].start if jobs else condition.create_time
        if start is None or self.line.is_open:
            return start, None
        return start, self.line.end if jobs else condition.last_transition_time


Key = Callable[[Row], Any]


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
        # the rows above a selected item or child step are open too, or nobody would see it
        parents = view.query.step.split("/")[:-1]
        opened |= {"/".join(parents[:depth]) for depth in range(1, len(parents) + 1)}
        rows = cls(view, found, frozenset(opened), whole)
        steps = rows._of_flow(view.flow, found)
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
            yield from self.shown(row.inside or (), key=key, is_reversed=is_reversed)

    def place(self, row: Row) -> Place:
        is_open = row.path in self.opened
        others = self.opened - {row.path} if is_open else self.opened | {row.path}
        return Place(
            path=row.path,
            name=row.path if self.view.query.q and row.level else row.name,
            phase=row.phase,
            detail=row.detail,
            level=row.level,
            link=row.link or "?" + urlencode({"step": row.path}),
            is_here=not row.link,
            is_selected=row.path == self.view.query.step,
            is_critical=row.line.is_critical and not row.level,
            fold="" if row.inside is None else "?" + urlencode({"open": ",".join(sorted(others))}),
            is_open=is_open,
        )

    def _of_flow(
        self, flow: JobFlow, found: Timeline | None, above: Row | None = None
    ) -> Iterator[Row]:
        """Yield the rows of a flow; `above`: the row of the step that runs it."""
        lines = {line.step: line for line in found.steps} if found is not None else {}
        last = {step.name for step in flow.spec.finally_ or ()}
        # a step of a child flow is selected on the page of that flow
        page = flow_path(flow.metadata.namespace, flow.metadata.name) if above is not None else ""
        for step in step_rows(flow):
            name, level = step.step, 0
            if above is not None:
                name, level = f"{above.path}/{name}", above.level + 1
            # before the flow has started there are no lines
            line = lines.get(step.step) or StepTimeline(
                step.step, step.phase, attempts=step.condition.attempts
            )
            query = urlencode({"step": step.step, "view": self.view.query.view})
            link = f"{page}?{query}" if page else ""
            parts = (
                "finally" if step.step in last else "",
                "daemon" if step.spec.daemon else "",
                work.noun if (work := work_of(step.spec)).has_steps else "",
                format_run_progress(step.spec, step.condition, brief=True),
                step.case,
                _reused(step),
            )
            row = Row(name, step, line, ", ".join(filter(None, parts)), level, link)
            if not step.condition.runs:
                yield self._with_child(row)
                continue
            runs = self._runs(flow, found, row) if name in self.opened else ()
            yield replace(row, inside=tuple(runs))

    def _runs(self, flow: JobFlow, found: Timeline | None, row: Row) -> Iterator[Row]:
        lines = run_timelines(flow, found, row.step.step) if found is not None else ()
        indices = [run.index or 0 for run in row.step.condition.runs or ()]
        runs = run_rows(row.step, indices, records_of(flow))
        for line, run in zip(lines, runs, strict=False):
            path = f"{row.path}/{run.index}"
            below = Row(path, run, line, _reused(run), row.level + 1, row.link)
            yield self._with_child(below)

    def _with_child(self, row: Row) -> Row:
        # also when it is closed: only then the row can be opened
        child = self.view.child(row.step.condition.flow)
        if child is None:
            return row
        if row.path not in self.opened:
            return replace(row, inside=())
        found = timeline(child, now=self.view.now, whole=self.whole)
        return replace(row, inside=tuple(self._of_flow(child, found, row)))


def _reused(row: StepRow) -> str:
    return "reused" if row.condition.reason == StepReason.REUSED else ""


def _matching(rows: Iterable[Row], text: str) -> Iterator[Row]:
    for row in rows:
        inside = tuple(_matching(row.inside or (), text))
        if inside or text in row.path.lower():
            yield row if row.inside is None else replace(row, inside=inside)
