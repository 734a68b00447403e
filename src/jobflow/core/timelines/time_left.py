"""An estimate of the time that a running flow has left.

It supposes that vcjobs run as long as earlier ones of the same templates did, that no step fails,
that no `when` is false, and that all jobs get room at once. The ends of the range are the sums of
the low and of the high quantiles along the longest chain of steps. A child flow takes what is left
of it by its own status or steps, or else as long as earlier flows of its step did.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from jobflow.api.flow import status as api
from jobflow.api.flow.control import to_number
from jobflow.api.flow.jobflow import JobFlow, child_spec
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.api.volcano.job import JobPhase
from jobflow.core.limits import MAX_RUNS
from jobflow.core.names import format_place, stored_condition
from jobflow.core.reasons import StepReason
from jobflow.core.spec.compiled import CompiledFlow, compile_flow
from jobflow.core.spec.items import get_items, get_parallelism
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.readiness import StepEnd, TargetState, combine_states
from jobflow.core.text import format_duration, join_names, printable
from jobflow.core.timelines.spans import Attempts, State, runs_of, spans_of_job
from jobflow.core.timestamps import truncate_to_second

LOW, HIGH = 0.1, 0.9
"""Quantiles of the range."""
_UNFORESEEN = (
    StepReason.WAITING_FOR_TEMPLATE,
    StepReason.WAITING_FOR_APPROVAL,
    StepReason.CREATE_REFUSED,
    StepReason.NAME_IN_USE,
    StepReason.BLOCKED,
)
"""Reasons of steps that wait for somebody."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """A range for the time until a flow ends."""

    low: timedelta
    high: timedelta
    runs: int
    """The number of earlier runs of the template that completed least often."""
    at_least: bool = False
    """Whether more time is to be expected: for steps in `unknown`, for further runs of a repeat or
    of items that are not known yet, for room (a job is queued, or the flow has `parallelism`), or
    because a job already runs longer than the earlier ones."""
    unknown: tuple[str, ...] = ()
    """Steps whose templates have never completed; they count as no time."""

    @property
    def basis(self) -> str:
        """`5 or more completed jobs of each template`."""
        text = f"{self.runs} or more completed jobs of each template"
        if not self.unknown:
            return text
        names = join_names([printable(name) for name in self.unknown])
        return f"{text}; without {names}, whose template has never completed"


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """The time left cannot be estimated."""

    why: str
    """A clause: `the flow is suspended`."""


def describe_time_left(left: TimeLeft | NoEstimate) -> str:
    """Return `at least 12m to 20m, by 5 or more completed jobs of each template`."""
    if isinstance(left, NoEstimate):
        return printable(f"unknown, because {left.why}")
    low, high = format_duration(left.low), format_duration(left.high)
    text = f"{'at least ' if left.at_least else ''}{low}"
    return text + (f" to {high}" if low != high else "") + f", by {left.basis}"


def time_left(
    flow: JobFlow,
    history: History,
    *,
    now: datetime,
    children: Mapping[str, JobFlow] = MappingProxyType({}),
) -> TimeLeft | NoEstimate:
    """Return how long a flow still takes, or why nobody knows. `children`: the child flows below
    it, at any level, by name."""
    if (why := _endless(flow, children)) is not None:
        return NoEstimate(why)
    # the times of a status are whole seconds
    second = truncate_to_second(now)
    low, high = (
        _Estimate(with_param_values(flow), history, share, second, children)
        for share in (LOW, HIGH)
    )
    low_seconds, high_seconds = low.seconds(), high.seconds()
    counts = [len(history.seconds[template]) for template in high.used]
    if not counts:
        return NoEstimate("no job of the remaining templates has completed before")
    return TimeLeft(
        timedelta(seconds=min(low_seconds, high_seconds)),
        timedelta(seconds=high_seconds),
        min(counts),
        high.at_least or bool(high.unknown),
        tuple(dict.fromkeys(high.unknown)),
    )


def _endless(flow: JobFlow, children: Mapping[str, JobFlow]) -> str | None:
    """Return a clause about an event that the flow, or a child flow that has started, waits for, or
    None. No history says when it happens."""
    status = flow.status
    if flow.final or status.start_time is None:
        return "the flow has ended" if flow.final else "the flow has not started"
    if status.suspended_at is not None:
        return "the flow is suspended"
    if status.state.phase == api.FlowPhase.TERMINATING:
        return "the flow is being ended"
    for step in flow.all_steps:
        condition = stored_condition(flow, step.name) or api.StepCondition()
        if condition.phase == api.StepPhase.WAITING and condition.reason in _UNFORESEEN:
            if condition.message.startswith("waits "):
                return f"step {step.name} {condition.message}"
            return f"step {step.name} waits ({condition.reason}): {condition.message}"
        for run in runs_of(condition):
            child = children.get(run.flow)
            if child is None or child.final or child.status.start_time is None:
                continue
            if (why := _endless(child, children)) is not None:
                return f"JobFlow {child.metadata.name}: {why}"
    return None


@dataclass(slots=True)
class _Estimate:
    """The time left if each vcjob runs as long as this share of the earlier ones at most did."""

    flow: JobFlow
    history: History
    share: float
    now: datetime
    children: Mapping[str, JobFlow]
    used: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    at_least: bool = False
    work: float = 0.0
    """Seconds of all jobs that are still to run."""

    def seconds(self) -> float:
        """Return the seconds of the longest chain of steps, then of the longest in `finally`."""
        flow = self.flow
        conditions, attempts = flow.status.conditions or {}, Attempts(flow)
        keys = dict(zip((step.name for step in flow.all_steps), attempts.keys, strict=True))
        layout = compile_flow(flow)

        def remaining(position: int) -> float:
            step, need = layout.steps[position], layout.needs[position]
            condition = conditions.get(keys[step.name], api.StepCondition())
            has_begun = not _waits(condition) or condition.attempts
            completed = (row[StepEnd.COMPLETED] for row in need.rows)
            if not has_begun and combine_states(need.how, completed) is TargetState.NOT_TAKEN:
                return 0.0  # it runs only if another step fails
            return self._of_step(step, condition, keys[step.name], attempts)

        longest = _longest_chain(layout, range(layout.last_from), remaining)
        # at least the work of all jobs, divided by the room for them
        if at_once := get_parallelism(flow):
            self.at_least = True
            longest = max(longest, self.work / at_once)
        last = range(layout.last_from, len(layout.steps))
        return longest + _longest_chain(layout, last, remaining)

    def _of_step(
        self, step: Step, condition: api.StepCondition, key: str, attempts: Attempts
    ) -> float:
        if step.daemon or condition.phase in api.ENDED_STEP_PHASES:
            return 0.0
        # a template that has never completed counts as no time, and is named in `unknown`
        case = step.case_of(condition.decisions)
        cases = (case,) if case is not None else step.switch or (None,)
        times: list[float] = []
        for each in cases:
            raw = step.flow_for(each)
            time = None if raw is None else self._of_flow(step.name, JobFlow(spec=child_spec(raw)))
            if time is None:
                work = step.work_name(each)
                time = self.history.quantile(work, self.share)
                self.used.update(() if time is None else (work,))
            if time is not None:
                times.append(time)
        # the low end takes the shortest case of a switch that is not decided yet
        pick = min if self.share < 0.5 else max
        if not times:
            self.unknown.append(step.name)
            return 0.0
        whole = pick(times)
        runs = self._runs(step, condition)
        lengths = [self._of_run(step.name, key, run, whole, attempts) for run in runs]
        self.work += sum(lengths)
        limits = (get_parallelism(self.flow, step), get_parallelism(self.flow))
        workers = min((each for each in limits if each and each > 0), default=len(lengths))
        ends: list[float] = []
        # they start in this order, each when a worker is free
        for length in lengths:
            heapq.heappush(ends, (heapq.heappop(ends) if len(ends) >= workers else 0.0) + length)
        return max(ends, default=0.0)

    def _of_flow(self, place: str, flow: JobFlow) -> float | None:
        """Return the seconds that a child flow still takes, or None if nothing is known of its
        steps that have not ended."""
        flow = with_param_values(flow)
        inner = _Estimate(flow, self.history, self.share, self.now, self.children)
        seconds = inner.seconds()
        if inner.unknown and not inner.used:
            return None
        self.used |= inner.used
        self.unknown += [f"{place}/{name}" for name in inner.unknown]
        self.at_least = self.at_least or inner.at_least
        return seconds

    def _runs(self, step: Step, condition: api.StepCondition) -> Iterator[api.RunCondition]:
        runs: list[api.RunCondition] = [*(condition.runs or ())]
        if step.fan_out is not None:
            items = get_items(step, condition.decisions)
            self.at_least = self.at_least or items is None
            started = {run.index: run for run in runs}
            indexes = range(1 if items is None else len(items))
            runs = [started.get(index, api.RunCondition(index=index)) for index in indexes]
        elif step.repeat is not None:
            # a run from before a retry of the flow is not a run of now
            runs = [run for run in runs if not run.is_left_over]
            if all(run.phase in api.ENDED_STEP_PHASES for run in runs):
                runs.append(api.RunCondition(index=len(runs)))
            self.at_least = self.at_least or len(runs) < (to_number(step.repeat.max) or MAX_RUNS)
        else:
            runs = [condition]
        yield from (run for run in runs if run.phase not in api.ENDED_STEP_PHASES)

    def _of_run(
        self, step: str, key: str, run: api.RunCondition, whole: float, attempts: Attempts
    ) -> float:
        if _waits(run):
            again = run.next_attempt_time
            return whole + (max((again - self.now).total_seconds(), 0.0) if again else 0.0)
        if (child := self.children.get(run.flow)) is not None:
            if (seconds := self._of_flow(format_place(step, run.index), child)) is not None:
                return seconds
        records = attempts.of_run(key, run)[-1:]
        spans = [span for record in records for span in spans_of_job(record, self.now)]
        ran = sum(span.duration.total_seconds() for span in spans if span.state is State.RUNNING)
        is_queued = bool(spans) and spans[-1].state is State.QUEUED
        self.at_least = self.at_least or is_queued or (ran > whole and self.share == HIGH)
        return max(whole - ran, 0.0)


def _longest_chain(
    layout: CompiledFlow, positions: range, remaining: Callable[[int], float]
) -> float:
    # targets that are not among these steps do not count
    starts, ends = dict[int, float](), dict[int, float]()
    for position in layout.graph.order:
        if position not in positions:
            continue
        need = layout.needs[position]
        met = [
            (starts if need.probe or want is Condition.RUNNING else ends)[target]
            for target, want in zip(need.targets, need.wants, strict=True)
            if target in positions
        ]
        first = min if need.how is Strategy.ANY else max
        starts[position] = first(met, default=0.0)
        ends[position] = starts[position] + remaining(position)
    return max(ends.values(), default=0.0)


def _waits(run: api.RunCondition) -> bool:
    return run.phase in ("", api.StepPhase.WAITING)


@dataclass(frozen=True, slots=True)
class PastOutputs:
    """The outputs of a Completed run."""

    step: str
    index: int | None
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
        for step, condition, run, records in Attempts(flow).each():
            work = step.work_name(step.case_of(condition.decisions))
            for record in records:
                end = record.end_timestamp
                if record.state != JobPhase.COMPLETED or end is None:
                    continue
                for span in spans_of_job(record, end):
                    if span.state is State.RUNNING:
                        seconds.setdefault(work, []).append(span.duration.total_seconds())
            ended = flow.status.completion_time
            if run.outputs and run.phase == api.StepPhase.COMPLETED and ended is not None:
                past = PastOutputs(step.name, run.index, ended, run.outputs)
                outputs.setdefault(work, []).append(past)
    return History({name: sorted(known) for name, known in seconds.items()}, outputs)
