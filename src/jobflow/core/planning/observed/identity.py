"""The step, run and attempt that each job of a flow is.

The status names the last job of each run. Any other job is known by its name, which nobody can
edit; labels and annotations only say which reading of the name is meant, and count if the name
agrees. A vcjob that Volcano's own controller created has none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.names import is_attempt_name, split_attempt_name
from jobflow.core.planning.observed.children import was_retried_with
from jobflow.core.planning.observed.steps import (
    ObservedRun,
    ObservedStep,
    attempt_of,
    fresh,
    index_of,
    parse_number,
)
from jobflow.core.planning.observed.view import View
from jobflow.core.spec.compiled import CompiledFlow

_EMPTY: Mapping[str, str] = {}


class _Place(NamedTuple):
    """The run and the attempt of a job."""

    position: int
    run: int | None
    """The index of its item or repeat, if its step has any."""
    attempt: int


def assign(found: Sequence[ObservedStep], layout: CompiledFlow, view: View, flow: JobFlow) -> None:
    """Assign every job of the View to its step and run, and choose the latest of each run."""
    plain: dict[int, list[Job]] = {}
    looped: dict[int, dict[int, list[Job]]] = {}
    named: dict[str, _Place] | None = None
    loops, by_key = layout.loops, layout.by_key
    for name, job in view.jobs.items():
        position = by_key.get(name)
        if position is not None and not loops[position]:  # most jobs
            plain.setdefault(position, []).append(_with_attempt(job, 1))
            continue
        place = _place_of(job, layout)
        if place is None or place.attempt > 1:
            named = _places_in_status(found) if named is None else named
            place = named.get(name, place)
        if place is not None and place.run is None:
            plain.setdefault(place.position, []).append(_with_attempt(job, place.attempt))
        elif place is not None and place.run is not None:
            runs = looped.setdefault(place.position, {})
            runs.setdefault(place.run, []).append(_with_attempt(job, place.attempt))
    for position, jobs in plain.items():
        if layout.has_objects[position]:
            found[position].jobs = jobs
            _choose(found[position], view, flow)
    for position, of_runs in looped.items():
        if layout.has_objects[position]:
            _assign_to_runs(found[position], of_runs, view, flow)


def _places_in_status(found: Sequence[ObservedStep]) -> dict[str, _Place]:
    """Return the places of the jobs that the status names, except those that no run can have."""
    return {
        name: _Place(position, run.index, run.stored.attempts)
        for position, observed in enumerate(found)
        for run in observed.each
        if (name := run.stored.job) and run.stored.attempts and is_attempt_name(name, run.key)
    }


def _place_of(job: Job, layout: CompiledFlow) -> _Place | None:
    """Return the place that labels and name agree on, else the one that the name says."""
    meta = job.metadata
    step = (meta.annotations or _EMPTY).get(labels.STEP)
    if step is not None:
        position = layout.graph.index.get(step)
    else:
        position = layout.by_label.get((meta.labels or _EMPTY).get(labels.STEP, ""))
    if position is not None:
        index = index_of(job) if layout.loops[position] else None
        key = layout.keys[position]
        first = key if index is None else f"{key}-{index}"
        if layout.loops[position] == (index is not None) and is_attempt_name(meta.name, first):
            return _Place(position, index, _attempt(job, is_first=meta.name == first))
    return _place_by_name(job, layout)


def _place_by_name(job: Job, layout: CompiledFlow) -> _Place | None:
    name = job.metadata.name
    for first in dict.fromkeys((name, split_attempt_name(name)[0])):
        attempt = _attempt(job, is_first=name == first)
        position = layout.by_key.get(first)
        if position is not None and not layout.loops[position]:
            return _Place(position, None, attempt)
        key, _, text = first.rpartition("-")
        position, index = layout.by_key.get(key), parse_number(text)
        if position is not None and layout.loops[position] and str(index) == text:
            return _Place(position, index, attempt)
    return None


def _attempt(job: Job, *, is_first: bool) -> int:
    """Return the number of the attempt in the label if the name allows it. A name is never used
    twice, so the number of the attempt is at most that of the name."""
    if is_first:
        return 1
    most = split_attempt_name(job.metadata.name)[1] + 1
    number = attempt_of(job)
    return number if 1 < number <= most else most


def _with_attempt(job: Job, number: int) -> Job:
    """Return the job with the label of this attempt, which somebody may have edited."""
    if attempt_of(job) == number:
        return job
    edited = {**(job.metadata.labels or _EMPTY), labels.ATTEMPT: str(number)}
    return msgspec.structs.replace(
        job, metadata=msgspec.structs.replace(job.metadata, labels=edited)
    )


def _assign_to_runs(
    observed: ObservedStep, jobs: Mapping[int, list[Job]], view: View, flow: JobFlow
) -> None:
    runs = {run.index: run for run in observed.runs}
    continued = 0
    for index, those in jobs.items():
        run = runs.get(index)
        if run is None:
            run = runs[index] = fresh(observed, flow.metadata.name, index)
        run.jobs = those
        past = run.stored.past_attempts
        _choose(run, view, flow)
        continued += past - run.stored.past_attempts
    observed.runs = sorted(runs.values(), key=lambda run: run.index or 0)
    if continued:
        past = observed.stored.past_attempts - continued
        observed.stored = msgspec.structs.replace(observed.stored, past_attempts=past)
    observed.jobs = [job for run in observed.runs for job in run.jobs]
    if observed.step.repeat is not None and observed.runs:
        runs_from_last = reversed(observed.runs)
        begun = (each for each in runs_from_last if each.job or not each.stored.is_left_over)
        last = next(begun, observed.runs[-1])
        observed.job, observed.attempt, observed.gone = last.job, last.attempt, last.gone


def _choose(run: ObservedRun, view: View, flow: JobFlow) -> None:
    """Choose the latest attempt, unless the status has a later one whose vcjob is gone, or the flow
    was retried since. A child flow that was retried with its parent is an attempt since then."""
    stored = run.stored
    if len(run.jobs) > 1:
        run.jobs = sorted(run.jobs, key=lambda job: (attempt_of(job), job.metadata.name))
    latest = run.jobs[-1]
    attempt = attempt_of(latest)
    if attempt == stored.past_attempts == stored.attempts and stored.job == latest.metadata.name:
        if was_retried_with(latest, flow):
            again = {"past_attempts": attempt - 1, "phase": JobPhase.PENDING}
            stored = run.stored = msgspec.structs.replace(stored, **again)
    if attempt < stored.attempts or attempt <= stored.past_attempts:
        return
    run.job, run.attempt = latest, attempt
    run.gone = latest.metadata.name in view.deleted
