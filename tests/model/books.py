"""What the reference keeps of a flow: its steps, their runs, and the attempts of these."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobflow.api.jobflow import Step
from model.acting import Vcjob

ENDED = ("Completed", "Failed", "Skipped")


@dataclass
class Attempt:
    """A vcjob, and why it is to be aborted, if it is."""

    vcjob: Vcjob
    intent: str = ""
    since: float = 0.0
    for_good: bool = False
    """Whether it was not its own timeout."""

    @property
    def failed_by_itself(self) -> bool:
        """Whether nobody ended it. A vcjob that a suspension aborts is Aborted in the end, so that
        any other end is its own."""
        if self.vcjob.phase in ("", "Running", "Completed"):
            return False
        return not self.intent or (self.intent == "Suspended" and self.vcjob.phase != "Aborted")


@dataclass
class Run:
    """One line of attempts: of a plain step the only one, else that of an item or a repeat."""

    index: int | None
    attempts: list[Attempt] = field(default_factory=list)
    failures: int = 0
    phase: str = ""
    """Completed or Failed, once it is over."""
    reason: str = ""
    kept: bool = False
    """Whether it is from before the flow was retried."""
    again_at: float | None = None
    """When it may have another attempt; None: it has one, or is over."""
    between: bool = False
    """Whether it was ended between two attempts: what the last one left counts no more."""
    between_since: float = 0.0
    """Since when it is between two attempts, if it is."""
    late_at: float = 0.0
    """When it has to have it, if there is room."""

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def alive(self) -> bool:
        return self.last is not None and self.last.vcjob.alive

    @property
    def outputs(self) -> Mapping[str, object] | None:
        if self.last is None or self.between:
            return None
        vcjob = self.last.vcjob
        asked = vcjob.phase == "Completed" or self.last.failed_by_itself
        return vcjob.output if asked or vcjob.script.watched else None


@dataclass
class State:
    """Where a step stands."""

    step: Step
    place: int
    """In `spec.flows`; those of `finally` come behind them."""
    finally_: bool = False
    phase: str = "Waiting"
    """Waiting, Running (also between attempts), Completed, Failed, Skipped."""
    reasons: frozenset[str] | None = frozenset({""})
    """One of which it has ended for; None: whatever."""
    reason: str = ""
    decided: bool = False
    decided_at: float | None = None
    """When, if there was anything to decide about it: that is written before it starts or ends."""
    case: int | None = None
    items: list[Any] | None = None
    runs: list[Run] = field(default_factory=list)
    past: Counter[int | None] = field(default_factory=Counter)
    """Attempts from before the flow was retried, by index, where the run begins anew."""
    failed_at: float | None = None

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def broken(self) -> bool:
        """Whether it fails the flow."""
        return self.phase == "Failed" and not self.step.continue_on_failure

    @property
    def attempts(self) -> Iterator[Attempt]:
        for run in self.runs:
            yield from run.attempts

    @property
    def alive(self) -> int:
        return sum(attempt.vcjob.alive for attempt in self.attempts)

    @property
    def ran(self) -> bool:
        """Whether one of its vcjobs was ever Running, since the flow was last retried."""
        new = (attempt for run in self.runs if not run.kept for attempt in run.attempts)
        return any(attempt.vcjob.ran is not None for attempt in new)

    @property
    def ever_made(self) -> int:
        return self.past.total() + sum(len(run.attempts) for run in self.runs)

    def forget(self, run: Run) -> None:
        """It begins anew; its vcjobs' names are taken for good."""
        self.past[run.index] += len(run.attempts)
        self.runs.remove(run)

    def run(self, index: int | None) -> Run | None:
        return next((run for run in self.runs if run.index == index), None)

    def end(self, phase: str, *reasons: str, now: float) -> None:
        """No reason given: whatever one."""
        self.phase, self.reasons = phase, frozenset(reasons) or None
        if phase == "Failed":
            self.failed_at = now


@dataclass(frozen=True)
class Made:
    """A vcjob that was made, by what it says itself."""

    name: str
    step: str
    index: int | None
    attempt: int
    template: str
    spec: dict[str, Any]
    manifest: str
    vcjob: Vcjob


@dataclass(frozen=True)
class Shown:
    """A step as the flow's status shows it."""

    phase: str
    reason: str
    attempts: int
    intents: dict[str, str]
    """Why a vcjob is to be aborted, by its name."""
    failed: frozenset[int | None] = frozenset()
    """Its items and repeats that have failed, by index."""


@dataclass
class Batch:
    """What came of the creates of one plan: none of them knew of the others."""

    made: list[Made] = field(default_factory=list)
    refused: list[tuple[str, int | None]] = field(default_factory=list)
    over: frozenset[str] = frozenset()
    """Steps that have ended, as that plan tells."""


@dataclass(frozen=True)
class Seen:
    """What has happened at one moment, when nothing more is to be done."""

    batches: list[Batch]
    aborted: set[str]
    deleted: set[str]
    """vcjobs that were deleted although they had not ended."""
    steps: dict[str, Shown]
    phase: str
    reason: str
    suspended: bool
    progress: str
    command: str = ""
    blurred: bool = False
    """Whether something was known later than it came about: pods had to be read."""
    before: list[Batch] | None = None
    """What was made before the Command; None: nothing was under way when it came."""
    before_at: float = 0.0
    over_before: str = ""
    """The phase in which the flow was over when the Command came."""

    @property
    def made(self) -> set[tuple[str, int | None]]:
        """Steps and indexes of what was made now."""
        return {(each.step, each.index) for batch in self.batches for each in batch.made}
