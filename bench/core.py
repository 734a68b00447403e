"""Milliseconds of the pure functions: rules and plan, as in the product after it has settled."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from bench import samples
from jobflow.api.job import Job, JobState, JobStatus
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta
from jobflow.core.actions import CreateJob, View
from jobflow.core.plan import plan
from jobflow.core.validate import Known, validate_flow

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
VALIDATED = {
    "chain": samples.chain(5000),
    "wide": samples.wide(5000),
    "10,000 edges": samples.dense(5000, 10_000),
}


CALLS = 5


def validations(runs: int) -> dict[str, list[float]]:
    """Milliseconds to validate a flow of 5,000 steps by its shape, a figure a run."""
    known = Known(templates={samples.TEMPLATE: samples.template()}, queues={"default": "Open"})

    def timed(flow: JobFlow) -> list[float]:
        verdict = validate_flow(flow, known)
        assert not verdict.violations, verdict.violations[0]
        return [_milliseconds(lambda: validate_flow(flow, known)) for _ in range(runs)]

    return {shape: timed(samples.flow(targets)) for shape, targets in VALIDATED.items()}


def plans(runs: int) -> dict[str, list[float]]:
    """Milliseconds to plan a flow of 1,000 steps, a figure a run: before its first step, and when
    half of them have completed and the next ten run."""

    def timed(flow: JobFlow, view: View) -> list[float]:
        return [_milliseconds(lambda: plan(flow, view, now=NOW)) for _ in range(runs)]

    flow = samples.flow(samples.layered(1000))
    return {
        "before its first step": timed(flow, samples.view()),
        "half done": timed(*_half_done(flow)),
    }


def _half_done(flow: JobFlow) -> tuple[JobFlow, View]:
    """The flow after 50 layers of ten steps, by plans that were carried out."""
    templates = samples.view().templates
    jobs: dict[str, Job] = {}
    for layer in range(51):
        now = NOW - timedelta(minutes=51 - layer)
        jobs = {name: _job(job.metadata, "Completed", now) for name, job in jobs.items()}
        planned = plan(flow, View(templates=templates, jobs=jobs), now=now)
        created = [action for action in planned.actions if isinstance(action, CreateJob)]
        assert len(created) == 10, f"{len(created)} jobs in layer {layer}"
        for number, action in enumerate(created):
            metadata = action.manifest["metadata"] | {"uid": f"{layer}-{number}"}
            jobs[action.name] = _job(msgspec.convert(metadata, ObjectMeta), "Running", now)
        flow = msgspec.structs.replace(flow, status=planned.status)
    return flow, View(templates=templates, jobs=jobs)


def _job(metadata: ObjectMeta, phase: str, now: datetime) -> Job:
    state = JobState(phase=phase, last_transition_time=now)
    return Job(
        metadata=msgspec.structs.replace(metadata, creation_timestamp=now),
        status=JobStatus(state=state),
    )


def _milliseconds(function: Callable[[], object]) -> float:
    """Of one call, on average over a few. CPU time, which others on the machine do not add to."""
    begin = time.process_time()
    for _ in range(CALLS):
        function()
    return (time.process_time() - begin) / CALLS * 1000
