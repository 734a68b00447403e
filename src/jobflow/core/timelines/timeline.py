"""Timeline of a flow, read from its status: when each step waited, was queued and ran. A step waits
from the time at which its dependencies were met until its first vcjob is created, and again between
two attempts. A vcjob is queued until Volcano has started it, and runs from then to its end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.flow.step import Condition, Strategy
from jobflow.core.names import format_job_name, format_place, stored_condition
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import get_condition_for, get_probe, get_strategy
from jobflow.core.timelines.spans import RunSpans, Span, State, runs_of, time_by_state
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.work import is_asked


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """All spans of a step, or of all runs of a step with forEach or repeat."""

    step: str
    phase: str
    reason: str = ""
    """That of the status: `Reused` if it has the result of an earlier flow."""
    attempts: int = 0
    """The number of vcjobs since the flow started."""
    is_daemon: bool = False
    spans: tuple[Span, ...] = ()
    """In the order of their start; spans of parallel runs overlap."""
    ready: datetime | None = None
    """When its dependencies were met; None if they are not."""
    after: str = ""
    """The target that met them last; "" if it had none to wait for."""
    is_critical: bool = False

    @property
    def start(self) -> datetime | None:
        return self.spans[0].start if self.spans else None

    @property
    def end(self) -> datetime | None:
        return max((span.end for span in self.spans), default=None)

    @property
    def is_open(self) -> bool:
        return any(span.is_open for span in self.spans)

    @property
    def times(self) -> Mapping[State, timedelta]:
        if self.start is None or self.end is None:
            return dict.fromkeys(State, timedelta())
        return time_by_state(self.spans, self.start, self.end)


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step of the critical path, and the part of the flow's time that it decided."""

    step: str
    start: datetime
    """The end of the step before it, and the start of the flow for the first one."""
    end: datetime
    times: Mapping[State, timedelta]
    """The time from `start` to `end` by state of the step."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """When everything in a flow happened."""

    start: datetime
    end: datetime
    """End of the flow, or the present time."""
    is_open: bool
    suspended: timedelta
    steps: tuple[StepTimeline, ...]
    """In the order of the spec; the steps of `finally` last."""
    path: tuple[PathStep, ...]
    """The chain of steps that decided the end of the flow, the first step first, without daemons
    and skipped steps. Together the steps take all the time of the flow."""

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    @property
    def critical_path(self) -> tuple[str, ...]:
        return tuple(each.step for each in self.path)

    @property
    def critical_times(self) -> Mapping[State, timedelta]:
        """The time of the flow by state of its critical step; without any step, it waited."""
        times = dict.fromkeys(State, timedelta())
        for each in self.path:
            for state in State:
                times[state] += each.times[state]
        return times if self.path else {**times, State.WAITING: self.duration}


def first_start(flow: JobFlow) -> datetime | None:
    """Return the first time that the status of a flow has: that of its first vcjob, also if the
    flow was retried since, or its start; None if it has none."""
    records = flow.status.job_status_list or ()
    times = [flow.status.start_time, *(each.start_timestamp for each in records)]
    return min((time for time in times if time is not None), default=None)


def timeline(flow: JobFlow, *, now: datetime, whole: bool = False) -> Timeline | None:
    """Return the timeline of a flow; None if its status has no time. A flow that was retried starts
    at the retry, or with `whole` at its first vcjob."""
    status = flow.status
    records = status.job_status_list or ()
    if (first := first_start(flow)) is None:
        return None
    start = first if whole else status.start_time or first
    # a flow that Volcano's controller ran has no completion time
    ends = [each.end_timestamp for each in records if each.end_timestamp is not None]
    last = max(ends, default=start) if flow.final else truncate_to_second(now)
    end = max(status.completion_time or last, start)
    steps = [*_Steps(flow, start, end).timelines()]
    path = _critical_path(steps, start, end)
    critical = {each.step for each in path}
    return Timeline(
        start,
        end,
        not flow.final,
        timedelta(seconds=max(status.suspended_seconds or 0, 0))
        + (max(end - status.suspended_at, timedelta()) if status.suspended_at else timedelta()),
        tuple(replace(each, is_critical=each.step in critical) for each in steps),
        tuple(path),
    )


class _Steps:
    def __init__(self, flow: JobFlow, start: datetime, end: datetime) -> None:
        self._flow, self._start, self._end = flow, start, end
        self._steps = flow.all_steps
        self._graph = Graph(self._steps)
        self._runs = RunSpans(flow, start, end)
        conditions = flow.status.conditions or {}
        waiting = StepCondition(phase=StepPhase.WAITING)
        self._conditions = [conditions.get(key, waiting) for key in self._runs.attempts.keys]
        self._spans: list[Sequence[Span]] = []
        """For each step the spans of all its runs, without those before the start of the flow."""
        for key, condition in zip(self._runs.attempts.keys, self._conditions, strict=True):
            spans = [span for run in runs_of(condition) for span in self._runs.of_run(key, run)]
            is_open = not flow.final and condition.phase not in ENDED_STEP_PHASES
            if is_open and spans and not any(span.is_open for span in spans):
                # a step that has not ended waits for its next job
                last = self._runs.waits_from(max(span.end for span in spans), end)
                spans.append(Span(State.WAITING, last, end, is_open=True))
            self._spans.append(sorted(spans, key=lambda span: span.start))
        self._began = [
            next((span.start for span in spans if span.state is State.RUNNING), None)
            for spans in self._spans
        ]
        """When each step first ran; None if it has not."""
        self._ended = [
            max((span.end for span in spans), default=condition.last_transition_time or start)
            if condition.phase in ENDED_STEP_PHASES
            else None
            for spans, condition in zip(self._spans, self._conditions, strict=True)
        ]

    def timelines(self) -> Iterator[StepTimeline]:
        for position, step in enumerate(self._steps):
            spans, condition = self._spans[position], self._conditions[position]
            phase = condition.phase or StepPhase.WAITING
            attempts = len({span.job for span in spans if span.job})
            ready, after = self._ready(position) or (None, "")
            if ready is not None:
                is_open = not spans and not self._flow.final
                answered = self._ended[position] if condition.attempts else None
                if answered is not None and is_asked(step):
                    spans = [Span(State.WAITING, ready, max(answered, ready)), *spans]
                elif spans and spans[0].start > ready:
                    spans = [Span(State.WAITING, ready, spans[0].start), *spans]
                elif is_open and phase == StepPhase.WAITING:
                    spans = [Span(State.WAITING, ready, self._end, is_open=True)]
            is_daemon = bool(step.daemon)
            yield StepTimeline(
                step.name, phase, condition.reason, attempts, is_daemon, tuple(spans), ready, after
            )

    def _ready(self, position: int) -> tuple[datetime, str] | None:
        """Return when the dependencies were met, and the last target; None: they are not."""
        targets, regular = self._graph.targets[position], range(len(self._flow.steps))
        # `finally` begins when all others have ended, but for daemons
        if not targets and position not in regular:
            targets = [i for i in regular if not self._steps[i].daemon]
        if not targets:
            return self._start, ""
        met = [(self._met(position, target), target) for target in targets]
        known = [(max(at, self._start), target) for at, target in met if at is not None]
        spans = self._spans[position]
        is_any = get_strategy(self._steps[position]) is Strategy.ANY
        if not known or (len(known) < len(met) and not spans and not is_any):
            return None
        # a step that has not begun waits for the first, or for the last of its targets
        if not spans:
            at, last = min(known) if is_any else max(known)
        else:  # with strategy any, targets may end after the step has started
            first = spans[0].start
            at, last = max([pair for pair in known if pair[0] <= first] or [min(known)])
        return min(at, self._end), self._graph.names[last]

    def _met(self, position: int, target: int) -> datetime | None:
        """Return when a target had reached what the step waits for; None if it has not."""
        step, own = self._steps[position], self._spans[position]
        began, ended = self._began[target], self._ended[target]
        if step.matches_items and self._steps[target].fan_out is not None:
            # the first item that ended let the first item of the step start
            spans = (span for span in self._spans[target] if span.state is State.RUNNING)
            return min((span.end for span in spans if not span.is_open), default=ended)
        if get_probe(step) is not None:
            # when a probe passed is not recorded: after the target began to run, and after its end
            # if the step began after that
            is_over = ended is not None and (not own or ended <= own[0].start)
            return ended if is_over else began or ended
        if get_condition_for(step, self._steps[target]) is Condition.RUNNING:
            return began or ended
        return ended


_URGENCY = (State.RUNNING, State.QUEUED, State.WAITING)


def _critical_path(
    steps: Sequence[StepTimeline], start: datetime, end: datetime
) -> Sequence[PathStep]:
    # daemons and skipped steps take no time of their own: a daemon ends because all others have
    # ended, and the time in which it starts is waiting time of the step that depends on it
    by_name = {each.step: each for each in steps}
    step = _last(steps, start)
    chain: list[tuple[StepTimeline, datetime, datetime]] = []
    # from the last step back to the target that let it start
    while step is not None:
        since = min(max(step.ready or start, start), end)
        if step.spans and not step.is_daemon:
            chain.append((step, since, end))
        elif chain:
            chain[-1] = (chain[-1][0], since, chain[-1][2])
        end = since
        del by_name[step.step]  # a status that is wrong may be cyclic
        step = by_name.get(step.after)
    if chain:
        chain[-1] = (chain[-1][0], start, chain[-1][2])
    return [
        PathStep(step.step, since, until, time_by_state(step.spans, since, until))
        for step, since, until in reversed(chain)
    ]


def _last(steps: Sequence[StepTimeline], start: datetime) -> StepTimeline | None:
    """Return the step that ended last; of a flow that has not ended, the step that runs, is queued
    or waits, in this order, and has done so for the longest time."""
    regular = [step for step in steps if step.spans and not step.is_daemon]
    open_spans = [
        (_URGENCY.index(span.state), span.start, at)
        for at, step in enumerate(regular)
        for span in step.spans
        if span.is_open
    ]
    if open_spans:
        return regular[min(open_spans)[2]]
    ends = [
        (max(span.end for span in step.spans), step.ready or start, at)
        for at, step in enumerate(regular)
    ]
    return regular[max(ends)[2]] if ends else None


MAX_CHILDREN = 8
"""Child flows of a step whose steps are shown."""


def run_timelines(flow: JobFlow, found: Timeline, step: str) -> Iterator[StepTimeline]:
    """Yield the timelines of the runs of a step with forEach or repeat that have begun, named
    `sweep/0`, in the order of their index. `found`: the timeline of the flow."""
    spans = RunSpans(flow, found.start, found.end)
    key = format_job_name(flow.metadata.name, step)
    condition = stored_condition(flow, step) or StepCondition()
    for run in condition.runs or ():
        own = tuple(spans.of_run(key, run))
        yield StepTimeline(
            f"{step}/{run.index or 0}",
            run.phase or StepPhase.WAITING,
            run.reason,
            len({span.job for span in own if span.job}),
            spans=own,
            ready=own[0].start if own else None,
        )


def merge_spans(spans: Collection[Span]) -> list[Span]:
    """Return spans of parallel runs as few spans: those of one state that overlap or touch are one,
    which has no vcjob unless it is of one only. They are in the order of their start."""
    merged: list[Span] = []
    for state in State:
        row: list[Span] = []
        for span in sorted(
            (each for each in spans if each.state is state), key=attrgetter("start")
        ):
            if row and span.start <= (last := row[-1]).end:
                row[-1] = replace(
                    last,
                    end=max(last.end, span.end),
                    is_open=last.is_open or span.is_open,
                    job=last.job if last.job == span.job else "",
                    outcome=last.outcome if last.outcome == span.outcome else "",
                )
            else:
                row.append(span)
        merged += row
    return sorted(merged, key=attrgetter("start"))


def with_children(
    found: Timeline, flow: JobFlow, children: Mapping[str, JobFlow], *, now: datetime
) -> Timeline:
    """Return the timeline of a flow with the steps of its child flows, by name, below the step that
    runs them, named `train/fit` or `train/0/fit`. The critical path is that of the outer flow."""
    # a child flow that ended before the timeline starts did not run again with its parent
    ran = {
        name: child
        for name, child in children.items()
        if child.status.completion_time is None or child.status.completion_time >= found.start
    }
    if not ran:
        return found
    rows = (row for step in found.steps for row in (step, *_below(step, flow, ran, now)))
    return replace(found, steps=tuple(rows))


def _below(
    row: StepTimeline, flow: JobFlow, children: Mapping[str, JobFlow], now: datetime
) -> Iterator[StepTimeline]:
    condition = stored_condition(flow, row.step) or StepCondition()
    # a step with many child flows has one row, or nobody could read the timeline
    runs = [run for run in runs_of(condition) if run.flow in children]
    for run in runs if len(runs) <= MAX_CHILDREN else ():
        child = children[run.flow]
        if (inner := timeline(child, now=now)) is None:
            continue
        place = format_place(row.step, run.index)
        for each in with_children(inner, child, children, now=now).steps:
            after = f"{place}/{each.after}" if each.after else ""
            yield replace(each, step=f"{place}/{each.step}", after=after, is_critical=False)
