"""Decision: what is decided about a step or a run of it, and the jobs that it would create."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from jobflow.api import labels
from jobflow.api.duration import format_duration
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import Decisions, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.core.cel.budget import PlanBudget
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import AttemptFacts, evaluate_all, resolve_references
from jobflow.core.json_values import count_values
from jobflow.core.manifests.fingerprint import digest, what_it_does
from jobflow.core.manifests.job import Attempt, build_spec
from jobflow.core.planning.actions import Action, CommandFlow, CreateJob, Guard, ReadPods, Want
from jobflow.core.planning.observed.steps import NOTHING, ObservedRun, ObservedStep
from jobflow.core.reasons import StepReason
from jobflow.core.spec.param_values import find_timeout_fault, find_vars_reference, to_seconds
from jobflow.core.text import shorten
from jobflow.core.work import WORK

C = TypeVar("C", bound=RunCondition)


class TargetEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a step ended."""

    phase: str
    """Completed, Failed or Skipped."""
    reason: str = ""
    attempts: int = 0
    """Number of vcjobs created for the step by then, its items and repeats together."""


Builder = Callable[[JobFlow, Step, JobTemplate | None, Attempt], dict[str, Any] | EvaluationFailure]
"""Makes the object of an attempt, or returns the Failure of a reference without a value."""


class Draft(msgspec.Struct, frozen=True):
    """The object of an attempt, which is created if the flow has room for it."""

    step: Step
    template: JobTemplate | None
    """None: the step runs something else."""
    attempt: Attempt
    kind: WorkKind
    make: Builder
    guard: Guard | None = None
    compares: Callable[[], Any] | None = None
    """Returns what else is compared when another flow reuses the result, besides what the vcjob
    does: what it is made of. None: it is not compared."""
    names_jobs: bool = False
    """Whether the names of other jobs may be in it."""

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.attempt.name

    def build(self, flow: JobFlow, allowance: PlanBudget) -> CreateJob | EvaluationFailure:
        """Return the create, or the Failure of a var or of a reference without a value."""
        # vars are evaluated only for an attempt that is created: each costs a part of the budget
        attempt = self._with_vars(self.attempt, allowance) if self.step.vars else self.attempt
        if isinstance(attempt, EvaluationFailure):
            return attempt
        manifest = self.make(flow, self.step, self.template, attempt)
        if isinstance(manifest, EvaluationFailure):
            return manifest
        written = self.step.timeout
        timeout = None if written is None else self._timeout(written, attempt)
        if isinstance(timeout, EvaluationFailure):
            return timeout
        if timeout is not None:
            manifest["metadata"]["annotations"][labels.TIMEOUT] = timeout
        is_first = attempt.number == 1 and not self.names_jobs
        compared = self.compared(flow, allowance, manifest["spec"] if is_first else None)
        if compared is not None:
            manifest["metadata"]["annotations"][labels.FINGERPRINT] = digest(compared)
        return CreateJob(self.step.name, attempt.name, manifest, self.guard, self.kind)

    def compared(
        self, flow: JobFlow, allowance: PlanBudget, spec: dict[str, Any] | None = None
    ) -> list[Any] | None:
        """Return the JSON of the fingerprint: what the vcjob does and what it is made of; None if
        it has none. `spec`: that of its first attempt, if it is built already."""
        if self.compares is None:
            return None
        # the steps of a child flow are compared for themselves
        if not WORK[self.kind].has_pods:
            return [None, self.compares()]
        if spec is None:
            # as if it were the first attempt, with the names of steps in place of those of jobs
            last = self.attempt
            assert last.seen is not None
            seen = msgspec.structs.replace(last.seen, attempt=AttemptFacts(), names_steps=True)
            first = Attempt(last.name, index=last.index, case=last.case, seen=seen)
            attempt = self._with_vars(first, allowance)
            if isinstance(attempt, EvaluationFailure):
                return None
            built = build_spec(flow, self.step, self.template, attempt)
            if isinstance(built, EvaluationFailure):
                return None
            spec = built
        return [what_it_does(spec), self.compares()]

    def _with_vars(self, attempt: Attempt, allowance: PlanBudget) -> Attempt | EvaluationFailure:
        if not self.step.vars or attempt.seen is None:
            return attempt
        seen = msgspec.structs.replace(attempt.seen, budget=allowance.share())
        values = evaluate_all("vars", self.step.vars, seen)
        if isinstance(values, EvaluationFailure):
            return values
        return msgspec.structs.replace(attempt, seen=msgspec.structs.replace(seen, vars=values))

    def _timeout(self, written: str, attempt: Attempt) -> str | EvaluationFailure | None:
        """Return the timeout that the vars of the attempt give; None if they give none."""
        if attempt.seen is None or find_vars_reference(written) is None:
            return None
        value = resolve_references(written, attempt.seen)
        if isinstance(value, EvaluationFailure):
            return EvaluationFailure(f"timeout: {value.message}", missing=value.missing)
        if (fault := find_timeout_fault(value)) is not None:
            return EvaluationFailure(f"timeout: {written} {fault}")
        return format_duration(timedelta(seconds=to_seconds(value)))


MAX_CREATE_WORK = 40_000
"""Work of the creates of one plan, in microseconds of the machine of docs/performance.md."""
MAX_CREATE_BYTES = 64 << 20
"""Memory of the manifests of one plan."""
_CREATE, _VALUE, _BYTE = 40, 0.4, 0.004
"""Work of a create, and of each JSON value and each byte in it."""
_REFERENCE, _STEP_VALUE, _VAR = 5, 2, 12
"""Work of each reference, JSON value and var in the layers of its step."""
_VALUE_BYTES, _CHARACTER_BYTES = 80, 4
"""Memory of a JSON value, and of a byte of JSON: one wide character widens a whole text."""


@dataclass(slots=True)
class CreateBudget:
    """The work and the memory that the creates of one plan have taken; a plan builds at least one,
    and the next plan the others."""

    _work: float = 0
    _bytes: int = 0
    _of_steps: dict[int, float] = field(default_factory=dict)
    """Work of the layers of a step, by its id: items share them."""

    def is_spent(self, *, for_waiting: bool = False) -> bool:
        """Whether this plan may build no more. `for_waiting`: of vcjobs that wait, by the status,
        which may take half of the budget, so that others get their turn."""
        part = 0.5 if for_waiting else 1
        return self._work >= part * MAX_CREATE_WORK or self._bytes >= part * MAX_CREATE_BYTES

    def take(
        self, draft: Draft | Continuation, create: CreateJob | CommandFlow | EvaluationFailure
    ) -> None:
        """Take the cost of a draft and of what it has become."""
        self._work += _CREATE
        if isinstance(draft, Draft):
            step = draft.step  # that of all its items
            if id(step) not in self._of_steps:
                text = msgspec.json.encode(msgspec.structs.replace(step, for_each=None))
                work = _REFERENCE * text.count(b"$(") + _STEP_VALUE * count_values(text)
                self._of_steps[id(step)] = work + _VAR * len(step.vars or ())
            self._work += self._of_steps[id(step)]
        if isinstance(create, CreateJob):
            text = msgspec.json.encode(create.manifest)
            values = count_values(text)
            self._work += _VALUE * values + _BYTE * len(text)
            self._bytes += _VALUE_BYTES * values + _CHARACTER_BYTES * len(text)


class Continuation(msgspec.Struct, frozen=True):
    """An object that is retried with its flow if there is room for it."""

    name: str
    uid: str

    def build(self, flow: JobFlow, allowance: PlanBudget) -> CommandFlow:
        tolerated = flow.status.tolerated_retried
        action = CommandAction.RETRY_TOLERATED if tolerated else CommandAction.RESTART_JOB
        return CommandFlow(self.name, self.uid, action)


class CreateFault(msgspec.Struct, frozen=True):
    """Why a vcjob can never be created."""

    reason: str
    message: str


class Decision(msgspec.Struct, Generic[C], frozen=True):
    """The decision about a step, or about one run of it."""

    condition: C
    actions: tuple[Action, ...] = ()
    drafts: tuple[Draft | Continuation, ...] = ()
    """The objects to create, by run. `parallelism` turns those that have room into actions."""
    wake_at: datetime | None = None
    """When to plan again although nothing happened."""
    urgent: bool = False
    """Whether the next action waits until the condition is written."""
    reads: tuple[ReadPods, ...] = ()
    """Reads that must be answered before more can be decided; several steps may ask for one."""
    unjudged: frozenset[str] = frozenset()
    """UIDs of vcjobs that have ended and whose end is not decided yet."""
    wants: tuple[Want, ...] = ()


if TYPE_CHECKING:
    RunDecision = Decision[RunCondition]
    StepDecision = Decision[StepCondition]
else:  # calling a generic alias costs a microsecond, an eighth of the plan of a step
    RunDecision = StepDecision = Decision


def collect(decisions: Iterable[Decision[Any]], field: str) -> tuple[Any, ...]:
    """Return what the decisions have in a field of several values, one after the other."""
    return tuple(chain.from_iterable(map(attrgetter(field), decisions)))


_WAITING = StepPhase.WAITING.value


@overload
def wait(
    run: ObservedStep, reason: str, message: str, until: datetime | None = None
) -> StepCondition: ...
@overload
def wait(
    run: ObservedRun, reason: str, message: str, until: datetime | None = None
) -> RunCondition: ...
def wait(
    run: ObservedRun, reason: str, message: str, until: datetime | None = None
) -> RunCondition:
    """Return the condition of a run that waits, with what is not about a single attempt."""
    stored, attempts = run.stored, run.attempts
    still = stored.phase == _WAITING and stored.reason == reason
    message = shorten(message)
    # the stored object itself shows the passes that nothing has changed
    if still and not attempts and stored.message == message and stored.next_attempt_time == until:
        return stored
    # most waiting steps of a new flow: cheaper than a replace
    if stored is NOTHING and not attempts:
        return StepCondition(
            phase=_WAITING,
            reason=reason,
            message=message,
            next_attempt_time=until,
            last_transition_time=run.now,
        )
    condition = msgspec.structs.replace(
        stored,
        index=run.index,
        phase=_WAITING,
        reason=reason,
        message=message,
        job=run.job_name if run.started else stored.job,
        attempts=attempts,
        next_attempt_time=until,
        last_transition_time=stored.last_transition_time if still else run.now,
        create_time=None,
        running_duration="",
        task_status_count=None,
        deadline=None,
        queue_deadline=None,
        timeout="",
        abort_time=None,
        outputs=None,
    )
    return stored if stored == condition else condition


def wait_between_attempts(run: ObservedRun, end: RunCondition, **changes: object) -> RunCondition:
    """Return the condition of a run that waits for its next attempt after this end."""
    return msgspec.structs.replace(
        run.new_condition(phase=_WAITING, last_transition_time=run.now),
        failures=end.failures,
        disruptions=end.disruptions,
        avoid_nodes=end.avoid_nodes,
        failure=end.failure,
        job=end.job,
        attempts=end.attempts,
        requested_hours=end.requested_hours,
        **changes,
    )


def postpone(condition: StepCondition, **changes: Any) -> StepCondition:
    """Return the condition of a step that would start now, if it waits instead."""
    return msgspec.structs.replace(
        condition, phase=StepPhase.WAITING, last_transition_time=None, **changes
    )


def fail(observed: ObservedStep, reason: StepReason, message: str) -> StepDecision:
    """Return the failure of a step that has not begun."""
    return StepDecision(
        end_unstarted(observed, phase=StepPhase.FAILED, reason=reason, message=message)
    )


def skip(
    observed: ObservedStep, reason: StepReason, message: str, decided: Decisions | None = None
) -> StepDecision:
    """Return the decision that a step does not run. `decided`: what led to it, if not stored."""
    condition = end_unstarted(observed, phase=StepPhase.SKIPPED, reason=reason, message=message)
    if decided is not None:
        condition = msgspec.structs.replace(condition, decisions=decided)
    return StepDecision(condition)


def end_unstarted(
    observed: ObservedStep, *, phase: StepPhase, reason: str, message: str, **more: Any
) -> StepCondition:
    """Return the end of a step that has not begun. `more`: further fields."""
    stored = observed.stored
    runs = [
        run if run.phase != StepPhase.WAITING else msgspec.structs.replace(run, phase=phase)
        for run in stored.runs or ()
    ]
    # attempts before a retry of the flow stay
    return StepCondition(
        phase=phase,
        reason=reason,
        message=shorten(message),
        job=stored.job,
        attempts=stored.attempts,
        past_attempts=stored.past_attempts,
        failed_attempts=stored.failed_attempts,
        requested_hours=stored.requested_hours,
        decisions=stored.decisions,
        runs=runs or None,
        **more,
    )
