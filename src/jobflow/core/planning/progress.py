"""Facts: what a plan finds out about the flow as a whole. Progress: what its decisions note.

Facts only grow; when they have grown, every step is decided again (`plan`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobflow.api.flow.status import RunCondition, StepCondition, StepPlace
from jobflow.core.cel.budget import PlanBudget
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.decision import (
    CreateBudget,
    CreateFault,
    RunDecision,
    StepDecision,
    TargetEnd,
)
from jobflow.core.planning.lifecycle import Lifecycle, Pause
from jobflow.core.pods.outputs import OutputsRoom, OutputsTooLarge
from jobflow.core.spec.readiness import StepEnd
from jobflow.core.spec.step_commands import ApprovalKey, StepAnswer

ItemKey = tuple[int, int | None]
"""The position of a step, and the index of an item of it; None: the whole step."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that this plan has found about the flow as a whole. Every field is set at most
    once, except `ended`, which only gets more entries."""

    lifecycle: Lifecycle
    answers: Mapping[ApprovalKey, StepAnswer] = field(default_factory=dict)
    """Answers to approvals, by Commands of this plan."""
    ended: Mapping[int, StepDecision] = field(default_factory=dict)
    """The decisions that more facts do not change (`PendingSteps.ended`), by position."""
    failing: Pause | None = None
    """With `failurePolicy: Abort`: why nothing starts while failures are read or stored."""
    aborted_for: str = ""
    """The failure for which all running steps are aborted, as a clause; "" if there is none."""
    spared: frozenset[str] = frozenset()
    """The steps that `aborted_for` leaves alone."""
    ending_daemons: frozenset[str] = frozenset()
    """The daemons that are ended, because no step needs them to run any more."""
    faults: Mapping[str, CreateFault] = field(default_factory=dict)
    """Why vcjobs can never be created, by name."""


@dataclass(slots=True)
class Reusing:
    """What a plan notes of the results of the flow that is reused (`reuse`)."""

    decided: dict[str, RunDecision | None] = field(default_factory=dict)
    """By the key of a run; None: it runs here."""
    left: dict[str, dict[str, deque[RunCondition]]] = field(default_factory=dict)
    """The results of each step that nothing has taken, by fingerprint."""
    repeats: dict[str, list[RunCondition]] = field(default_factory=dict)
    """The further runs of each repeat that is taken."""
    built: dict[str, CreateJob] = field(default_factory=dict)
    """The creates that were built for the comparison, by name."""
    child_flows: dict[str, dict[int | None, RunCondition]] = field(default_factory=dict)
    """The runs of each step that runs child flows, in the flow that is reused."""
    reused_targets: dict[int, bool] = field(default_factory=dict)
    """Whether the targets of steps that wait for any of them are reused, by the position of a step
    that depends on them."""
    has_taken: bool = False
    """Whether this plan has taken a result that is not stored yet."""
    compared: dict[str, int] = field(default_factory=dict)
    """The runs of each step that this plan has compared and that run here, as a bit set."""


@dataclass(slots=True)
class Progress:
    """Notes that the decisions of one plan make for later ones. Each entry is written once a plan;
    once in every round of decisions if `PlanContext.with_facts` makes it void."""

    standing: list[StepCondition]
    """The condition of each step, as far as this round has decided; else the stored one."""
    ends: list[StepEnd | None]
    """How each step has ended, by this round's decision, else as stored; None if it has not."""
    allowance: PlanBudget
    """The work that expressions may still take in this plan."""
    creates: CreateBudget = field(default_factory=CreateBudget)
    """The work and memory that are left for creates in this plan."""
    unstored: set[int] = field(default_factory=set)
    """The steps that this round has decided at once, and those behind them: objects that depend on
    them are created once the status has it."""
    target_ends: dict[str, str] = field(default_factory=dict)
    """Value of the annotation `target-ends` by step (`target_ends`)."""
    answers: dict[str, Any] = field(default_factory=dict)
    """The answers of expressions (`PlanContext.answer`)."""
    outputs: dict[str, dict[str, object] | OutputsTooLarge | None] = field(default_factory=dict)
    """Outputs of the vcjobs that end in this plan, by UID (`take_outputs`)."""
    outputs_room: OutputsRoom | None = None
    reusing: Reusing = field(default_factory=Reusing)
    places: list[StepPlace] | None = None
    """What the steps have of their concurrency groups (`concurrency.StepPlaces`)."""
    made_of: dict[ItemKey, str] = field(default_factory=dict)
    """What stands for the targets of a step that is compared (`reuse`), by position and item."""
    pod_suffixes: dict[str, int] = field(default_factory=dict)
    """Length of the longest suffix of pod names, by step (`longest_suffix`)."""
    failed_again: bool = False
    """Whether an attempt was added to `failedAttempts`."""
    recorded_ends: dict[int, TargetEnd] | None = None
    """Ends in annotations of vcjobs, by position (`target_ends`)."""
    recorded_item_ends: dict[int, dict[int, TargetEnd]] = field(default_factory=dict)
    """Ends of items in annotations of vcjobs, by position and index."""
    stored_failures: str | None = None
    """The steps that failed by the stored status, as a clause (`failure_policy`)."""
