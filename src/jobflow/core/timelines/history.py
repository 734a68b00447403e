"""Running times and outputs of vcjobs by what they run, learned from the statuses of flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobRecord, StepCondition, StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.timelines.spans import Attempts, State, runs_of, spans_of_job


@dataclass(frozen=True, slots=True)
class PastOutputs:
    """The outputs of a Completed run."""

    step: str
    index: int | None
    """Index of the item or repeat."""
    ended: datetime
    """When its flow ended."""
    outputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """Running times of Completed vcjobs, in seconds, and outputs of runs, by `Step.work_name`: that
    of the JobTemplate, or of a step without one."""

    seconds: Mapping[str, list[float]] = field(default_factory=dict)
    """Sorted; no list is empty."""
    outputs: Mapping[str, list[PastOutputs]] = field(default_factory=dict)
    """No list is empty."""

    def quantile(self, work: str, share: float) -> float | None:
        """Return the running time that `share` of the vcjobs did not exceed; None if none ran."""
        known = self.seconds.get(work)
        if not known:
            return None
        return known[min(int(share * len(known)), len(known) - 1)]

    def outputs_of(self, work: str, step: str, index: int | None) -> Mapping[str, Any] | None:
        """Return the last outputs of what a step runs, by preference of a step with this name, and
        of the item with this index; None if it had none."""
        known = self.outputs.get(work)
        if not known:
            return None
        best = max(known, key=lambda each: (each.step == step, each.index == index, each.ended))
        return best.outputs


def learn(flows: Iterable[JobFlow]) -> History:
    """Return what is known of all vcjobs that Completed, as the flows record them."""
    seconds: dict[str, list[float]] = {}
    outputs: dict[str, list[PastOutputs]] = {}
    for flow in flows:
        attempts, conditions = Attempts(flow), flow.status.conditions or {}
        for key, step in zip(attempts.keys, flow.all_steps, strict=True):
            condition = conditions.get(key, StepCondition())
            work = step.work_name(step.case_of(condition.decisions))
            for run in runs_of(condition):
                times = [*_running_times(attempts.of_run(key, run))]
                if times:
                    seconds.setdefault(work, []).extend(times)
                ended = flow.status.completion_time
                if run.outputs and run.phase == StepPhase.COMPLETED and ended is not None:
                    past = PastOutputs(step.name, run.index, ended, run.outputs)
                    outputs.setdefault(work, []).append(past)
    return History({name: sorted(known) for name, known in seconds.items()}, outputs)


def _running_times(records: Iterable[JobRecord]) -> Iterator[float]:
    for record in records:
        if record.state == JobPhase.COMPLETED and record.end_timestamp is not None:
            for span in spans_of_job(record, record.end_timestamp):
                if span.state is State.RUNNING:
                    yield span.duration.total_seconds()
