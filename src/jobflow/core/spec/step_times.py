"""When a step or a run started and ended, and how long it took: one answer for all outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobflow.api.duration import parse_duration
from jobflow.api.flow.status import ENDED_STEP_PHASES, JobRecord, RunCondition, StepCondition
from jobflow.core.timestamps import truncate_to_second


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of a step or a run."""

    start: datetime | None
    """Creation of the current or last job; of forEach and repeat the first."""
    end: datetime | None
    measured: timedelta | None = None
    """Running time with fractions of a second, if Volcano reported one: others are in seconds."""

    def duration(self, now: datetime) -> timedelta | None:
        """Time from its start to its end or `now`; None before the first job."""
        if self.start is None:
            return None
        if self.measured is not None:
            return self.measured
        return max((self.end or truncate_to_second(now)) - self.start, timedelta())

    @property
    def until(self) -> datetime | None:
        if self.start is None or self.measured is None:
            return self.end
        return self.start + self.measured


def times_of(
    condition: RunCondition, records: Mapping[str, JobRecord], since: datetime | None = None
) -> StepTimes:
    """Return the times of a step or a run. `records`: by the name of the vcjob. `since`: the start
    of the flow, or its last retry."""
    has_ended, last = condition.phase in ENDED_STEP_PHASES, condition.last_transition_time
    # with forEach or repeat from the start of the first run to the end of the last
    if isinstance(condition, StepCondition) and condition.runs:
        times = [times_of(run, records) for run in condition.runs]
        # after a retry of the flow only runs behind it count, unless all were before
        again = [each for each in times if each.start and (since is None or each.start >= since)]
        times = again or (times if has_ended else [])
        start = min((each.start for each in times if each.start), default=None)
        end = max((each.end for each in times if each.end), default=last)
        return StepTimes(start, end if has_ended else None)
    record = records.get(condition.job)
    start = (record.start_timestamp if record else None) or condition.create_time
    end = record.end_timestamp if record else None
    if not has_ended:
        return StepTimes(start, end)
    try:
        seconds = parse_duration(condition.running_duration)
    except ValueError:
        seconds = 0.0
    measured = None if seconds.is_integer() else timedelta(seconds=seconds)
    # a record may have been dropped for the status's size, and work without objects has none
    return StepTimes(start, last if end is None else end, measured)
