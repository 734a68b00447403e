"""Observed steps and runs: what the stored status and the vcjobs say, before any decision.

A run is a sequence of attempts, each of them one vcjob. A plain step is its own only run; a step
with forEach has one run an item, a step with repeat one after another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import Case
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import Decisions, JobRecord, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobPhase
from jobflow.core.names import (
    format_attempt_name,
    format_job_name,
    format_latest_name,
    format_run_name,
)
from jobflow.core.reasons import StepReason
from jobflow.core.spec.compiled import CompiledFlow
from jobflow.core.spec.items import get_item
from jobflow.core.work import WORK, Work, may_run_steps, work_of

NOTHING = StepCondition()
"""The stored condition of a step without one."""
FAILURES: Mapping[str, str] = {
    JobPhase.FAILED: StepReason.JOB_FAILED,
    JobPhase.TERMINATED: StepReason.JOB_TERMINATED,
    JobPhase.ABORTED: StepReason.JOB_ABORTED,
}
"""Reason of a Failed step, by the phase in which its vcjob ended."""
C = TypeVar("C", bound=RunCondition)
_OWN_PHASES = frozenset({StepPhase.WAITING, StepPhase.SKIPPED})
_EMPTY: Mapping[str, str] = {}
_DIGITS = 10
"""More digits than the number of a run or an attempt has."""
_LOOKED_BACK = 1000
"""Most attempts whose records are looked up: a label can have any number."""


class ObservedRun(msgspec.Struct):
    """The stored condition and the vcjobs of one run of a step."""

    step: Step
    key: str
    """The name of its first vcjob: `<flow>-<step>`, with an index `<flow>-<step>-<index>`."""
    stored: RunCondition
    """Its condition in the flow's status, in JobFlow's terms also if Volcano wrote it."""
    now: datetime
    """The time of the plan in whole seconds."""
    index: int | None = None
    """Index of the item or repeat, from 0; None if the step is its own run."""
    decided: Decisions | None = None
    """The decisions of its step (when, switch, items)."""
    jobs: Sequence[Job] = ()
    """Its vcjobs in the View, also deleted ones, by attempt."""
    job: Job | None = None
    """The vcjob of its latest attempt; None if it is not in the View."""
    attempt: int = 0
    """The number of the attempt of `job`, from 1; 0 if it is not in the View."""
    gone: bool = False
    """Whether `job` is deleted from the cluster."""

    @property
    def attempts(self) -> int:
        """The number of vcjobs created for it, or of times that its approval was asked for."""
        known, attempt = self.stored.attempts, self.attempt
        return attempt if attempt > known else known

    @property
    def next_attempt(self) -> int:
        """The number of the attempt of work without objects that begins now."""
        return max(self.attempts, self.stored.past_attempts) + 1

    @property
    def started(self) -> bool:
        """Whether it has begun, since the last retry of the flow."""
        return self.attempts > self.stored.past_attempts

    @property
    def job_name(self) -> str:
        """The name of the object of its latest attempt, if it has begun; "" without objects."""
        if not self.work.has_objects:
            return ""
        return self.job.metadata.name if self.job is not None else self.stored.job or self.key

    @property
    def between_attempts(self) -> bool:
        """Whether its latest attempt has ended and the next has not begun."""
        stored = self.stored
        return (
            stored.phase == StepPhase.WAITING
            and stored.past_attempts < stored.attempts == self.attempts
        )

    @property
    def timeout(self) -> str:
        """The timeout that the vars of its latest attempt gave, or ""."""
        made = None if self.job is None else self.job.metadata.annotations
        return (made or _EMPTY).get(labels.TIMEOUT) or self.stored.timeout

    @property
    def case(self) -> Case | None:
        """The chosen case of `switch`."""
        return self.step.case_of(self.decided)

    @property
    def kind(self) -> WorkKind:
        """The kind of work that it runs, in the chosen case of `switch`."""
        return self.step.kind_of(self.step.case_of(self.decided))

    @property
    def work(self) -> Work:
        """The facts of what it runs."""
        return WORK[self.kind]

    @property
    def item(self) -> Any:
        """Its item with forEach, else UNSET."""
        return get_item(self.step, self.decided, self.index)

    def new_condition(self, **fields: Any) -> RunCondition:
        """Return a new condition that keeps what lasts from one attempt to the next."""
        return type(self.stored)(
            index=self.index,
            failures=self.stored.failures,
            disruptions=self.stored.disruptions,
            past_attempts=self.stored.past_attempts,
            avoid_nodes=self.stored.avoid_nodes,
            failed_attempts=self.stored.failed_attempts,
            **fields,
        )


class ObservedStep(ObservedRun):
    """The stored condition and the vcjobs of one step."""

    stored: StepCondition
    loops: bool = False
    """Whether it has runs of its own, by forEach or repeat."""
    runs: Sequence[ObservedRun] = ()
    """With forEach and repeat: the known runs, by index. Then `jobs` are the vcjobs of all runs,
    and `job` is the vcjob of the last repeat, or None with forEach."""
    ran: bool | None = None
    """The result of `has_run` for a step with runs, once it was needed."""

    @property
    def each(self) -> Sequence[ObservedRun]:
        """Its known runs; the step itself if it is its own run."""
        return self.runs if self.loops else (self,)

    def list_unknown(self) -> Iterator[tuple[ObservedRun, Job]]:
        """Yield the vcjobs of attempts that the status does not know, with their run."""
        for run in self.runs if self.loops else (self,):
            known = run.stored.attempts
            if run.attempt > known:
                yield from ((run, job) for job in run.jobs if attempt_of(job) > known)

    @property
    def attempts(self) -> int:
        """The number of vcjobs created for all its runs."""
        if self.runs:
            return sum(run.attempts for run in self.runs)
        known, attempt = self.stored.attempts, self.attempt
        return attempt if attempt > known else known

    def with_decisions(self, decided: Decisions | None) -> "ObservedStep":
        """Return the step, and its runs from before a retry, with new decisions."""
        stored = msgspec.structs.replace(self.stored, decisions=decided)
        runs = [msgspec.structs.replace(run, decided=decided) for run in self.runs]
        return msgspec.structs.replace(self, stored=stored, decided=decided, runs=runs)

    def new_condition(self, **fields: Any) -> StepCondition:
        """Return a new condition that keeps what lasts from one attempt to the next."""
        made = super().new_condition(decisions=self.stored.decisions, **fields)
        return cast(StepCondition, made)


def gather(
    flow: JobFlow,
    layout: CompiledFlow,
    records: Mapping[str, JobRecord],
    now: datetime,
    among: Iterable[int] | None = None,
) -> list[ObservedStep]:
    """Return the observed steps by position, without their jobs (`identity`). `records`: those of
    the status, by name. `among`: the positions, in this order; default: all."""
    conditions = flow.status.conditions or {}
    found = []
    steps, keys, loops = layout.steps, layout.keys, layout.loops
    for position in range(len(steps)) if among is None else among:
        step, key, again = steps[position], keys[position], loops[position]
        stored = conditions.get(key, NOTHING)
        runs: Sequence[ObservedRun] = ()
        if layout.runs_steps[position]:
            stored = with_child_as_job(stored)
        if again:
            by_index: dict[int, ObservedRun] = {}
            for known in stored.runs or ():
                index = known.index
                if index is None or index < 0 or index in by_index:
                    continue
                first = format_run_name(key, index)
                if known.attempts and not known.job:
                    known = _with_name(known, first, step)
                by_index[index] = ObservedRun(step, first, known, now, index, stored.decisions)
            runs = [by_index[index] for index in sorted(by_index)]
        elif stored.attempts or stored.reason or stored.phase in _OWN_PHASES:  # JobFlow wrote it
            if stored.attempts and not stored.job:
                stored = _with_name(stored, key, step)
        elif stored is not NOTHING or key in records:
            stored = _volcanos(stored, records.get(key), key)
        decided = stored.decisions
        found.append(
            ObservedStep(
                step=step, key=key, stored=stored, now=now, decided=decided, loops=again, runs=runs
            )
        )
    return found


def with_child_as_job(stored: StepCondition) -> StepCondition:
    """Return a stored condition with the names of child flows in `job`, as plans have them."""
    runs = stored.runs
    if runs is not None and any(run.flow for run in runs):
        runs = [_as_job(run) if run.flow else run for run in runs]
        stored = msgspec.structs.replace(stored, runs=runs)
    return _as_job(stored) if stored.flow else stored


def _as_job(stored: C) -> C:
    return msgspec.structs.replace(stored, job=stored.flow, flow="")


def fresh(observed: ObservedStep, flow: str, index: int) -> ObservedRun:
    """Return a run of this flow without stored condition and vcjobs."""
    key = format_job_name(flow, observed.step.name, index=index)
    stored = RunCondition(index=index)
    return ObservedRun(observed.step, key, stored, observed.now, index, observed.decided)


def attempt_of(job: Job) -> int:
    """Return the number of a vcjob's attempt, from 1; 1 without a label."""
    text = (job.metadata.labels or _EMPTY).get(labels.ATTEMPT, "1")
    if text == "1":
        return 1
    number = parse_number(text)
    return 1 if number is None else number


def index_of(job: Job) -> int | None:
    """Return the index of a vcjob's run, or None."""
    meta = job.metadata
    text = (meta.annotations or _EMPTY).get(labels.INDEX) or (meta.labels or _EMPTY).get(
        labels.INDEX, ""
    )
    return parse_number(text)


def parse_number(text: str) -> int | None:
    """Return the number of a run or an attempt; None if the text is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


def has_begun(condition: RunCondition) -> bool:
    """Whether the step or run of this condition has begun since the last retry of the flow."""
    return condition.attempts > condition.past_attempts


def has_run(observed: ObservedStep, now: StepCondition, records: Mapping[str, JobRecord]) -> bool:
    """Whether an attempt has ever been Running, also by the histories. `now`: its condition."""
    if not observed.loops:
        return has_run_once(observed, now, records)
    if observed.ran is None:
        known = {run.index: run for run in now.runs or ()}
        # `runs` lacks the items that this plan has decided at once
        done = [now, *filter(has_begun, known.values())]
        observed.ran = any(each.phase == StepPhase.COMPLETED for each in done) or any(
            has_run_once(run, known.get(run.index, run.stored), records) for run in observed.runs
        )
    return observed.ran


def has_run_once(run: ObservedRun, now: RunCondition, records: Mapping[str, JobRecord]) -> bool:
    """Whether an attempt of one run has ever been Running. `now`: its condition."""
    if now.phase in (JobPhase.RUNNING, JobPhase.COMPLETING, JobPhase.COMPLETED):
        return not now.attempts or now.attempts > now.past_attempts
    past = run.stored.past_attempts
    work = run.work
    if not (work.has_objects or work.asks or work.at_once):  # it is Running from its start
        return now.attempts > past
    for job in run.jobs:
        if attempt_of(job) > past and any(
            entry.status == JobPhase.RUNNING for entry in job.status.conditions or ()
        ):
            return True
    since = max(past, run.attempts - _LOOKED_BACK)
    names = {format_attempt_name(run.key, again) for again in range(since, run.attempts)}
    if has_begun(run.stored):
        names.add(run.stored.job)
    return any(
        entry.state == JobPhase.RUNNING
        for name in names
        if (record := records.get(name)) is not None
        for entry in (record, *(record.running_histories or ()))
    )


def _volcanos(stored: StepCondition, record: JobRecord | None, key: str) -> StepCondition:
    """Return the condition that Volcano's controller wrote, in JobFlow's terms. There is one vcjob
    for each step, named `key`, and no count of attempts."""
    if record is None and stored == NOTHING:
        return NOTHING
    # it is dropped with the vcjob, whose end `jobStatusList` still has
    phases = [stored.phase, record.state if record is not None else ""]
    ended = next((phase for phase in phases if phase in ENDED_PHASES), None)
    phase = ended or stored.phase or phases[1] or JobPhase.PENDING
    changes: dict[str, Any] = {"phase": phase, "job": key, "attempts": 1}
    if phase in FAILURES:
        changes |= {"phase": StepPhase.FAILED, "reason": FAILURES[phase]}
    if record is not None and stored.create_time is None:
        changes["create_time"] = record.start_timestamp
    return msgspec.structs.replace(stored, **changes)


def _with_name(stored: C, key: str, step: Step) -> C:
    if may_run_steps(step) or not work_of(step).has_objects:
        return stored
    # it was dropped for the status's size
    return msgspec.structs.replace(stored, job=format_latest_name(key, stored.attempts))
