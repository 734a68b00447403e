"""States of the explorer: everything at one moment, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobflow.api.flow.status import FINAL_PHASES
from jobflow.api.volcano.job import ENDED_PHASES
from jobflow.core.planning.actions import WantKey
from model.explorer.statuses import NEW, Status


@dataclass(frozen=True, slots=True)
class Vcjob:
    """A vcjob or child flow as it is in the cluster, and what the controller has seen of it."""

    name: str
    step: str
    index: str
    """The index of its item or repeat; "" if the step has one run."""
    attempt: int
    uid: str
    manifest: int
    """The number of its manifest in this search."""
    phases: tuple[tuple[str, int], ...]
    """Every phase so far, with the second in which it started."""
    round: int = 0
    """The number of retries of the flow before the vcjob was created."""
    gone: bool = False
    lost: bool = False
    """Whether it was deleted before its end was stored, so that its run may start again."""
    asked: bool = False
    """Whether Volcano has been asked to abort it."""
    seen: int = 0
    """How many of its phases the controller has seen; 0: not even that it exists."""
    seen_gone: bool = False
    read: bool = False
    """Whether the controller has read its pods, and has not forgotten it."""
    edited: bool = False
    """Whether somebody has removed its labels, annotations and owner references."""
    child: State | None = None
    """The state of the child flow that it is (`families`); None: it is a vcjob."""

    @property
    def phase(self) -> str:
        return self.phases[-1][0]

    @property
    def ended(self) -> bool:
        return self.phase in ENDED_PHASES

    @property
    def alive(self) -> bool:
        return not self.gone and not self.ended

    @property
    def run(self) -> tuple[str, str]:
        """The step and index of its run."""
        return self.step, self.index


@dataclass(frozen=True, slots=True)
class Flow:
    """The JobFlow object, as far as it changes."""

    status: Status = NEW
    terminating: bool = False
    gone: bool = False

    @property
    def final(self) -> bool:
        return self.status.value.state.phase in FINAL_PHASES


@dataclass(frozen=True, slots=True)
class Event:
    """A watch event of a vcjob that is on its way."""

    uid: str
    phases: int
    """How many phases the vcjob had been in."""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A Command on the flow."""

    name: str
    action: str
    message: str = ""
    number: int = 0
    """Distinguishes Commands of one name, of which only one exists at a time."""

    @property
    def uid(self) -> str:
        return f"uid-{self.name}#{self.number}"


@dataclass(frozen=True, slots=True)
class State:
    """One moment."""

    budget: tuple[int, ...]
    """How often each rare thing may still happen, in the order of `Configuration.rare`."""
    now: int = 0
    """Seconds since the flow was created."""
    flow: Flow = Flow()
    known: Flow = Flow()
    """The controller's copy of the flow."""
    jobs: tuple[Vcjob, ...] = ()
    """By UID."""
    events: tuple[Event, ...] = ()
    """Events that the controller has not received yet, in order."""
    commands: tuple[Command, ...] = ()
    known_commands: tuple[Command, ...] = ()
    missing: frozenset[str] = frozenset()
    """Templates that do not exist."""
    not_found: frozenset[str] = frozenset()
    """vcjobs that a live read of the controller did not find."""
    aborts: tuple[tuple[str, int], ...] = ()
    """When the controller last requested an abort, by UID of the vcjob."""
    answers: frozenset[tuple[WantKey, Any]] = frozenset()
    """What was answered to the wants of plans (`moves`), such as probes."""
    round: int = 0
    """How often the flow has been retried."""
    busy: bool = False
    """Whether another flow holds the place of the concurrency group."""
    cancelled_at: int | None = None
    """When the controller last asked to cancel that flow."""
    claims: frozenset[str] = frozenset()
    """The PersistentVolumeClaims that exist."""
    known_claims: frozenset[str] = frozenset()
    """Those that an answer has shown to the controller."""
    source_gone: bool = False
    """Whether the flow that is reused was deleted."""
    parent: Flow | None = None
    """The controller's copy of the flow of which this one is a child; None: it is no child."""
    beside: tuple[Vcjob, ...] = ()
    """The other child flows of its parent, if their steps share places."""
    crashed: bool = False
    """Whether the controller crashes at the end of this move."""

    def job(self, uid: str) -> Vcjob:
        return next(job for job in self.jobs if job.uid == uid)
