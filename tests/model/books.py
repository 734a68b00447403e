"""The state that the reference keeps: steps, their runs, and the attempts of runs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobflow.api.flow.step import Step
from model.acting import Vcjob

if TYPE_CHECKING:
    from model.by_hand import Order

ENDED = ("Completed", "Failed", "Skipped")
SKIPPED_BY_USER = "SkippedByUser"
FLOW_ERRORS = frozenset(
    {"ExpressionError", "Refused", "NameConflict", "ItemsMismatch", "ProbeUnsatisfiable"}
)
"""Errors of the flow itself, which continueOnFailure does not tolerate."""
SECOND = 1.0
"""What a timeout adds, because the time of its start is cut to a whole second."""
SLACK = 1.0
"""Times in a status are whole seconds."""


@dataclass
class Attempt:
    """A vcjob, and the reason to abort it, or ""."""

    vcjob: Vcjob
    intent: str = ""
    since: float = 0.0
    for_good: bool = False
    """Whether the reason is not a limit of its own time."""
    timeout: str | None = None
    """How long it may run."""
    not_counted: float = 0.0
    """The suspended seconds of the flow before it began."""
    ran_out_of: str = ""
    """The limit of its own time that has ended it (Timeout or QueueTimeout), or ""."""

    @property
    def suspended(self) -> bool:
        """Whether a suspension ended it, so that it runs again."""
        return self.intent == "Suspended" and self.vcjob.phase == "Aborted"

    @property
    def disrupted(self) -> bool:
        """Whether the cluster ended it."""
        return self.failed_by_itself and self.vcjob.script.disrupted

    @property
    def failed_by_itself(self) -> bool:
        """Whether it failed without an abort. A suspension ends vcjobs as Aborted, so any other
        end is its own."""
        if self.vcjob.phase in ("", "Running", "Completed"):
            return False
        spares = self.intent in ("Suspended", "NotNeeded") and self.vcjob.phase != "Aborted"
        return not self.intent or spares


@dataclass
class Run:
    """A sequence of attempts: of a plain step, of an item, or of a repeat."""

    index: int | None
    attempts: list[Attempt] = field(default_factory=list)
    failures: int = 0
    disruptions: int = 0
    """Attempts that failed by a disruption and do not count."""
    phase: str = ""
    """Completed or Failed; "" until it has ended."""
    reason: str = ""
    completed_before: bool = False
    """Whether it is from before a retry of the flow."""
    again_at: float | None = None
    """When another attempt may start; None if one runs or the run has ended."""
    between: bool = False
    """Whether it was ended between two attempts, so that outputs of the last one do not count."""
    between_since: float = 0.0
    """The time since which it is between two attempts."""
    ended_at: float | None = None
    """When it has completed."""
    given: Mapping[str, object] | None = None
    """The outputs with which a user has skipped it."""
    late_at: float = 0.0
    """When another attempt must start, if there is room."""

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def alive(self) -> bool:
        return self.last is not None and self.last.vcjob.alive

    @property
    def has_flow_error(self) -> bool:
        """Whether it has failed by an error of the flow itself, or of its child flow."""
        if self.phase != "Failed":
            return False
        child = self.last is not None and not self.between and self.last.vcjob.has_flow_error
        return child or self.reason in FLOW_ERRORS

    @property
    def outputs(self) -> Mapping[str, object] | None:
        if self.phase == "Skipped":
            return self.given
        if self.last is None or self.between:
            return None
        vcjob = self.last.vcjob
        asked = vcjob.phase == "Completed" or self.last.failed_by_itself
        return vcjob.output if asked or vcjob.script.watched else None


@dataclass
class State:
    """The state of a step."""

    step: Step
    place: int
    """The position in `spec.flows`; steps of `finally` come after them."""
    finally_: bool = False
    phase: str = "Waiting"
    """Waiting, Running (also between attempts), Completed, Failed, Skipped."""
    reasons: frozenset[str] | None = frozenset({""})
    """The possible reasons of its end; None: any."""
    reason: str = ""
    decided: bool = False
    decided_at: float | None = None
    """When its decisions were made, if it has any; they are stored before it starts or ends."""
    decided_in: object = None
    """The plan in which its decisions were made."""
    case: int | None = None
    items: list[Any] | None = None
    runs: list[Run] = field(default_factory=list)
    past: Counter[int | None] = field(default_factory=Counter)
    """Attempts before a retry of the flow, by index, of runs that start again."""
    continued: dict[int | None, Vcjob] = field(default_factory=dict)
    """Failed child flows, by index, that a retry of the flow retries instead of new ones."""
    failed_at: float | None = None
    outcome: str = ""
    """NotNeeded, TooManyFailed or ExpressionError, once it is decided how a step with a tolerance
    ends."""
    orders: dict[int | None, "Order"] = field(default_factory=dict)
    """What users have said about items, by index; None: about the whole step."""
    again: set[int | None] = field(default_factory=set)
    """The items that a user runs again, whatever became of others."""
    shown: Mapping[int | None, tuple[str, str]] = field(default_factory=dict)
    """The phase and reason of each run in the last status, once it has ended."""

    @property
    def name(self) -> str:
        return self.step.name

    def order(self, index: int | None = None) -> "Order | None":
        """Return what a user has said about a run, or about the whole step."""
        return self.orders.get(index) or self.orders.get(None)

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def broken(self) -> bool:
        """Whether it fails the flow."""
        return self.phase == "Failed" and not self.tolerated

    @property
    def tolerated(self) -> bool:
        """Whether continueOnFailure tolerates its failure."""
        errors = bool((self.reasons or frozenset()) & FLOW_ERRORS)
        errors = errors or any(run.has_flow_error for run in self.runs)
        return bool(self.step.continue_on_failure) and not errors

    @property
    def attempts(self) -> Iterator[Attempt]:
        for run in self.runs:
            yield from run.attempts

    @property
    def ends_as_daemon(self) -> bool:
        """Whether it has ended, or is being ended, because nothing needed it any more."""
        ending = any(each.intent == "DaemonEnded" and each.vcjob.alive for each in self.attempts)
        return ending or self.reason == "DaemonEnded"

    def index_of(self, attempt: Attempt) -> int | None:
        return next(run.index for run in self.runs if attempt in run.attempts)

    @property
    def alive(self) -> int:
        return sum(attempt.vcjob.alive for attempt in self.attempts)

    @property
    def ran(self) -> bool:
        """Whether one of its vcjobs was ever Running since the last retry of the flow."""
        new = (attempt for run in self.runs if not run.completed_before for attempt in run.attempts)
        return any(attempt.vcjob.ran is not None for attempt in new)

    @property
    def attempts_so_far(self) -> int:
        return self.past.total() + sum(len(run.attempts) for run in self.runs)

    def skip_item(self, index: int, reason: str) -> None:
        """Skip an item that has not begun."""
        run = Run(index, phase="Skipped", reason=reason)
        self.runs = sorted([*self.runs, run], key=lambda run: run.index or 0)

    def number(self, index: int | None) -> int:
        """Return the number of attempts of a run, with those before a retry of the flow. A child
        flow that is retried is the same attempt."""
        run = self.run(index)
        return self.past[index] - (index in self.continued) + (len(run.attempts) if run else 0)

    def forget(self, run: Run) -> None:
        """Let a run start again. The names of its vcjobs stay in use, and its last child flow is
        retried if that has failed."""
        self.past[run.index] += len(run.attempts)
        self.runs.remove(run)
        if self.step.flow is not None and run.last and run.last.vcjob.phase == "Failed":
            self.continued[run.index] = run.last.vcjob

    def start(self, run: Run, vcjob: Vcjob) -> Attempt:
        """Add an attempt. A child flow that is retried is the last attempt once more."""
        if self.continued.pop(run.index, None):
            self.past[run.index] -= 1
        run.attempts.append(attempt := Attempt(vcjob))
        run.again_at = None
        return attempt

    def run(self, index: int | None) -> Run | None:
        return next((run for run in self.runs if run.index == index), None)

    def end(self, phase: str, *reasons: str, now: float) -> None:
        """End the step; without `reasons`, any reason is right."""
        self.phase, self.reasons = phase, frozenset(reasons) or None
        if phase == "Failed":
            self.failed_at = now


@dataclass(frozen=True)
class Created:
    """A created vcjob, with fields of its manifest."""

    name: str
    step: str
    index: int | None
    attempt: int
    template: str
    """"" for a jobSpec or a container."""
    spec: dict[str, Any]
    manifest: str
    vcjob: Vcjob
    retried: bool = False
    """Whether it is a failed child flow that was retried instead."""

    @property
    def container(self) -> dict[str, Any]:
        """The first container of the first task."""
        container: dict[str, Any] = self.spec["tasks"][0]["template"]["spec"]["containers"][0]
        return container


@dataclass(frozen=True)
class ShownStep:
    """A step as the status of the flow shows it."""

    phase: str
    reason: str
    attempts: int
    intents: dict[str, str]
    """Reasons to abort vcjobs, by name."""
    runs: Mapping[int | None, tuple[str, str]] = field(default_factory=dict)
    """The phase and reason of each item or repeat, by index; those of the step if it has none."""
    jobs: Mapping[int | None, str] = field(default_factory=dict)
    """The vcjob of each, by index."""
    lists_items: bool = False
    """Whether the status has the items that the step has decided."""

    @property
    def failed(self) -> set[int | None]:
        """Return the items and repeats that have failed, by index."""
        return {index for index, (phase, _) in self.runs.items() if phase == "Failed"}


@dataclass
class Batch:
    """The results of the creates of one plan."""

    created: list[Created] = field(default_factory=list)
    refused: list[tuple[str, int | None]] = field(default_factory=list)
    ended: frozenset[str] = frozenset()
    """Steps that have ended according to that plan."""
    ended_before: frozenset[str] = frozenset()
    """Steps that had ended by the status that the plan read."""
    begun: frozenset[str] = frozenset()
    """Steps that had begun by the status that the plan read."""


@dataclass(frozen=True)
class Seen:
    """Everything that happened at one moment, when no plan has anything left to do."""

    batches: list[Batch]
    aborted: set[str]
    deleted: set[str]
    """vcjobs that were deleted although they had not ended."""
    steps: dict[str, ShownStep]
    phase: str
    reason: str
    suspended: bool
    progress: str
    outputs: Mapping[str, Any] | None = None
    command: str = ""
    blurred: bool = False
    """Whether some information came late, because pods had to be read."""
    before: list[Batch] | None = None
    """The creates before the Command; None if nothing was in progress when it came."""
    before_at: float = 0.0
    result_before: str = ""
    """The final phase of the flow when the Command came, or ""."""

    @property
    def created(self) -> set[tuple[str, int | None]]:
        """Return the step and index of each vcjob created now."""
        return {(job.step, job.index) for batch in self.batches for job in batch.created}
