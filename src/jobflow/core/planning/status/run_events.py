"""What is worth telling of the runs of a step with forEach or repeat: of a kind all at once.

So a thousand items that begin together are one event. What their step comes to is `events`'
business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobflow.api.flow_status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.jobflow import Step
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.text import listed, short

NOTHING = RunCondition()


def run_events(
    step: Step, old: StepCondition, new: StepCondition, troubles: frozenset[str]
) -> Iterator[Event]:
    """Of the runs that changed: which jobs were made, which runs failed while others go on, and
    which came into trouble."""
    before: Mapping[int | None, RunCondition] = {run.index: run for run in old.runs or ()}
    made: list[str] = []
    told: dict[str, list[RunCondition]] = {}
    for run in new.runs or ():
        was = before.get(run.index, NOTHING)
        if run is was:
            continue
        if run.attempts > was.attempts and run.job:
            made.append(run.job)
        if run.phase == StepPhase.FAILED != was.phase and new.phase not in ENDED_STEP_PHASES:
            told.setdefault("RunFailed", []).append(run)
        elif run.phase == StepPhase.WAITING and run.reason in troubles - {was.reason}:
            told.setdefault(run.reason, []).append(run)
    if made:
        jobs = "job" if len(made) == 1 else "jobs"
        yield Event(
            EventType.NORMAL, "JobCreated", f"step {step.name}: created {jobs} {listed(made)}"
        )
    for reason, runs in sorted(told.items()):
        yield Event(EventType.WARNING, reason, f"step {step.name}: {_said(step, runs)}")


def _said(step: Step, runs: list[RunCondition]) -> str:
    which = "item" if step.for_each is not None else "run"
    more = f", and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f"{which} {runs[0].index}{more}: {short(runs[0].message or runs[0].reason)}"
