"""The steps that a retry would run again, and how long their completed jobs ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, JobRecord, StepPhase
from jobflow.core.names import format_place, stored_condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.restart import ByHandScope, Named, find_runs_again
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.children import goes_on
from jobflow.core.planning.observed.view import View
from jobflow.core.spec.items import get_items
from jobflow.core.spec.step_commands import find_place
from jobflow.core.text import format_command, format_count, join_names
from jobflow.core.timelines.spans import Attempts, State, runs_of, spans_of_job
from jobflow.core.work import has_own_job


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """A step, or one item or repeat of it, that a retry runs again, or another Command changes."""

    place: str
    """`train`, `train/3`, or `train/3/fit` in a child flow."""
    phase: str
    count: str = ""
    """`2 of 12 items`, if not all items of a step run again; else ""."""
    lost: timedelta | None = None
    """How long the jobs ran of what has completed in it; None if nothing has."""

    @property
    def title(self) -> str:
        """`train (2 of 12 items)`."""
        return f"{self.place} ({self.count})" if self.count else self.place


def list_runs_again(
    flow: JobFlow,
    children: Mapping[str, JobFlow],
    now: datetime,
    *,
    tolerated: bool = False,
    paths: Sequence[str] | None = None,
) -> list[RunsAgain]:
    """Return what a retry of a flow would run again, in the order of the spec, with the steps of
    child flows that are retried with it. `children`: the flows below it, by name; `tolerated`:
    tolerated failures run again too; `paths`: the steps that a user names, in a flow that may not
    have ended."""
    ctx, attempts = PlanContext.of(flow, View(), now), Attempts(flow)
    # a child flow that is not at hand counts as a job
    jobs = {name: observe(children[name]) for name in ctx.children & children.keys()}
    found: list[RunsAgain] = []
    scope: ByHandScope | None = None
    inside: dict[str, list[str]] = {}
    if paths is not None:
        named, inside = _split(flow, ctx, paths)
        scope = ByHandScope(named, is_running=not flow.final)
    for position, how in find_runs_again(ctx, jobs, tolerated=tolerated, scope=scope).items():
        observed = ctx.observed[position]
        name = observed.step.name
        stored = (flow.status.conditions or {}).get(observed.key, observed.stored)
        if paths is not None and not stored.attempts and stored.phase not in ENDED_STEP_PHASES:
            continue  # it has yet to run
        lost: list[timedelta] = []
        below: list[RunsAgain] = []
        for run in runs_of(stored):
            if run.index is not None and run.index in how.kept:
                continue
            child = jobs.get(run.flow)
            if child is not None and run.flow in inside:
                continue
            # it is retried, and not created again
            if child is not None and how.goes_on(run.index) and goes_on(child, tolerated=tolerated):
                place = format_place(name, run.index)
                inner = list_runs_again(children[run.flow], children, now, tolerated=tolerated)
                below += (replace(each, place=f"{place}/{each.place}") for each in inner)
            elif run.phase == StepPhase.COMPLETED and child is not None:
                lost.append(_time_of_child(children[run.flow], children))
            elif run.phase == StepPhase.COMPLETED:
                lost.append(_time_of_run(attempts.of_run(observed.key, run)))
        items = get_items(observed.step, stored.decisions) if observed.step.fan_out else None
        left = len(items) - len(how.kept) if items is not None and how.kept else 0
        count = f"{left} of {format_count(len(items or ()), 'item')}" if left else ""
        time = sum(lost, timedelta()) if lost else None
        found += [RunsAgain(name, stored.phase, count, time), *below]
    for name, names in inside.items():
        child_flow = children[name]
        own = child_flow.metadata.annotations or {}
        place = format_place(own.get(labels.STEP, ""), own.get(labels.INDEX))
        inner = list_runs_again(child_flow, children, now, paths=names)
        found += (replace(each, place=f"{place}/{each.place}") for each in inner)
    return found


def _split(
    flow: JobFlow, ctx: PlanContext, paths: Sequence[str]
) -> tuple[Named, dict[str, list[str]]]:
    """Return the steps of the flow that paths name, by position, and the paths from child flows, by
    their names. All of them exist."""
    named, inside = dict[int, frozenset[int] | None](), dict[str, list[str]]()
    for place in (find_place(flow, path) for path in paths):
        assert not isinstance(place, str)
        position, index = ctx.layout.graph.index[place.key.step], place.key.index
        observed = ctx.observed[position]
        if place.below:
            run = next(run.stored for run in observed.each if run.index == index)
            inside.setdefault(run.job, []).append(place.below)
            if run.phase not in ENDED_STEP_PHASES:
                continue
        before = named.get(position, frozenset())
        named[position] = None if index is None or before is None else before | {index}
    return named, inside


def sum_lost(found: Sequence[RunsAgain]) -> timedelta:
    return sum((each.lost for each in found if each.lost is not None), timedelta())


def find_own_jobs(flow: JobFlow, again: Sequence[RunsAgain]) -> list[str]:
    """Return the steps of a flow that run the same again, because no template can change them."""
    places = {each.place for each in again}
    conditions = ((step, stored_condition(flow, step.name)) for step in flow.all_steps)
    return [
        step.name
        for step, condition in conditions
        if step.name in places
        and has_own_job(step, step.case_of(condition.decisions if condition else None))
    ]


def describe_own_jobs(flow: JobFlow, names: Sequence[str]) -> str:
    """Return a sentence about the steps that `find_own_jobs` has found, or ""."""
    if not names:
        return ""
    which, has = ("Step", "has its") if len(names) == 1 else ("Steps", "have their")
    runs = "runs" if len(names) == 1 else "run"
    reuse = format_command("jobflow submit FILE --reuse", flow.metadata)
    return (
        f"{which} {join_names(names)} {has} own container or jobSpec and {runs} the same again, "
        "because the spec of a flow cannot change: to change it, correct the file, and "
        f"{reuse} runs what has changed in a new flow."
    )


def _time_of_child(child: JobFlow, children: Mapping[str, JobFlow]) -> timedelta:
    total = timedelta()
    for _, _, run, records in Attempts(child).each():
        if (inner := children.get(run.flow)) is not None:
            total += _time_of_child(inner, children)
        elif run.phase == StepPhase.COMPLETED:
            total += _time_of_run(records)
    return total


def _time_of_run(records: Sequence[JobRecord]) -> timedelta:
    """Return how long the job of the last attempt of a run ran."""
    last = records[-1:]
    ended = (spans_of_job(each, each.end_timestamp) for each in last if each.end_timestamp)
    spans = (span for found in ended for span in found if span.state is State.RUNNING)
    return sum((span.duration for span in spans), timedelta())
