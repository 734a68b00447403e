"""The steps that a retry would run again, and how long their completed jobs ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.core.names import format_place
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.restart import Again, find_runs_again
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.children import goes_on
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.spec.items import get_items
from jobflow.core.text import format_count
from jobflow.core.timelines.spans import Attempts, State, runs_of, spans_of_job


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """A step, or one item or repeat of it, that a retry runs again."""

    place: str
    """`train`, `train/3`, or `train/3/fit` in a child flow."""
    phase: str
    """Its phase now."""
    count: str
    """`2 of 12 items`, if not all items of a step run again; else ""."""
    lost: timedelta | None
    """How long the jobs ran of what has completed in it; None if nothing has."""


def list_runs_again(
    flow: JobFlow, children: Mapping[str, JobFlow], now: datetime, *, tolerated: bool = False
) -> list[RunsAgain]:
    """Return what a retry of an ended flow would run again, in the order of the spec, with the
    steps of child flows that are retried with it. `children`: the flows below it, by name;
    `tolerated`: tolerated failures run again too."""
    return [*_List(flow, children, now, tolerated=tolerated)]


def sum_lost(found: Sequence[RunsAgain]) -> timedelta:
    """Return how long the jobs ran of all that has completed and would run again."""
    return sum((each.lost for each in found if each.lost is not None), timedelta())


class _List:
    def __init__(
        self, flow: JobFlow, children: Mapping[str, JobFlow], now: datetime, *, tolerated: bool
    ) -> None:
        self._flow, self._children, self._now = flow, children, now
        self._tolerated = tolerated
        self._ctx = PlanContext.of(flow, View(), now)
        # a child flow that is not at hand counts as a job
        names = self._ctx.children & children.keys()
        self._jobs = {name: observe(children[name]) for name in names}
        self._attempts = Attempts(flow)

    def __iter__(self) -> Iterator[RunsAgain]:
        again = find_runs_again(self._ctx, self._jobs, tolerated=self._tolerated)
        for position, how in again.items():
            yield from self._step(self._ctx.observed[position], how)

    def _step(self, observed: ObservedStep, how: Again) -> Iterator[RunsAgain]:
        name = observed.step.name
        stored = (self._flow.status.conditions or {}).get(observed.key, observed.stored)
        runs = [run for run in runs_of(stored) if run.index is None or run.index not in how.kept]
        lost: list[timedelta] = []
        below: list[RunsAgain] = []
        for run in runs:
            child = self._jobs.get(run.flow)
            is_kept = child is not None and how.goes_on(run.index)
            # it is retried, and not created again
            if child is not None and is_kept and goes_on(child, tolerated=self._tolerated):
                place = format_place(name, run.index)
                inner = self._children[run.flow]
                found = _List(inner, self._children, self._now, tolerated=self._tolerated)
                below += (replace(each, place=f"{place}/{each.place}") for each in found)
            elif run.phase == StepPhase.COMPLETED and child is not None:
                lost.append(self._time_of_child(self._children[run.flow]))
            elif run.phase == StepPhase.COMPLETED:
                lost.append(_time_of_run(self._attempts, observed.key, run))
        items = get_items(observed.step, stored.decisions) if observed.step.fan_out else None
        left = len(items) - len(how.kept) if items is not None and how.kept else 0
        count = f"{left} of {format_count(len(items or ()), 'item')}" if left else ""
        yield RunsAgain(name, stored.phase, count, sum(lost, timedelta()) if lost else None)
        yield from below

    def _time_of_child(self, child: JobFlow) -> timedelta:
        attempts, total = Attempts(child), timedelta()
        conditions = child.status.conditions or {}
        for key in attempts.keys:
            for run in runs_of(conditions.get(key, StepCondition())):
                inner = self._children.get(run.flow)
                if inner is not None:
                    total += self._time_of_child(inner)
                elif run.phase == StepPhase.COMPLETED:
                    total += _time_of_run(attempts, key, run)
        return total


def _time_of_run(attempts: Attempts, key: str, run: RunCondition) -> timedelta:
    """Return how long the job of the last attempt of a run ran."""
    records = attempts.of_run(key, run)[-1:]
    ended = (spans_of_job(each, each.end_timestamp) for each in records if each.end_timestamp)
    spans = (span for found in ended for span in found if span.state is State.RUNNING)
    return sum((span.duration for span in spans), timedelta())
