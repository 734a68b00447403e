"""Whether a step's dependencies are met, can still be met, or never will be. It starts nothing.

The theory. A target either has not ended or has ended in one of six ways (`StepEnd`). Against what
the dependant wants of it (`Condition`) that gives one `TargetState`: a table. A dependant's
reaches, whatever their order and number, are folded into one by the `get_strategy`: the first of a
ranking that occurs among them. The result is again a `TargetState`: MET starts the step, NOT_YET
lets it wait, UNSATISFIABLE fails it, and the other three are the ways of being Skipped. DESIGN §2
is the source of both tables. Where a step looks inside its targets with a probe, `probing` says how
they stand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from jobflow.api.flow_status import CANCELLED, ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.jobflow import Condition, Probe, Step, Strategy


class TargetState(StrEnum):
    """How a target stands to what a dependant wants of it; also the reason of a step that ends by
    it without having begun."""

    MET = "Met"
    NOT_YET = "NotYet"
    """It has not, but may still."""
    PASSED_OVER = "PassedOver"
    """It was not taken: it counts neither way."""
    NOT_TAKEN = "NotTaken"
    """It ended the other way: this branch is not taken."""
    UPSTREAM_FAILED = "UpstreamFailed"
    STOPPED = "Stopped"
    UNSATISFIABLE = "ProbeUnsatisfiable"
    """It can no longer show what the dependant's probe looks for."""


class StepEnd(StrEnum):
    """The ways a step ends."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    FORGIVEN = "Forgiven"
    """Failed with continueOnFailure: as good as either."""
    NOT_TAKEN = "NotTaken"
    UPSTREAM_FAILED = "UpstreamFailed"
    STOPPED = "Stopped"


SKIPS: Mapping[TargetState, StepEnd] = {
    TargetState.NOT_TAKEN: StepEnd.NOT_TAKEN,
    TargetState.UPSTREAM_FAILED: StepEnd.UPSTREAM_FAILED,
    TargetState.STOPPED: StepEnd.STOPPED,
}
"""The reaches that skip a step, and how it has ended then."""

_ALWAYS: Mapping[StepEnd | None, TargetState] = {
    None: TargetState.NOT_YET,
    StepEnd.FORGIVEN: TargetState.MET,
    StepEnd.NOT_TAKEN: TargetState.PASSED_OVER,
    StepEnd.STOPPED: TargetState.STOPPED,
}
"""The same whatever is wanted: a forgiven failure holds nobody up, what was not taken is passed
over, what was stopped satisfies nothing."""

TARGET_STATES: Mapping[Condition, Mapping[StepEnd | None, TargetState]] = {
    Condition.COMPLETED: {
        StepEnd.COMPLETED: TargetState.MET,
        StepEnd.FAILED: TargetState.UPSTREAM_FAILED,
        StepEnd.UPSTREAM_FAILED: TargetState.UPSTREAM_FAILED,
        **_ALWAYS,
    },
    Condition.FAILED: {
        StepEnd.COMPLETED: TargetState.NOT_TAKEN,
        StepEnd.FAILED: TargetState.MET,
        StepEnd.UPSTREAM_FAILED: TargetState.UPSTREAM_FAILED,
        **_ALWAYS,
    },
    Condition.FINISHED: {
        StepEnd.COMPLETED: TargetState.MET,
        StepEnd.FAILED: TargetState.MET,
        StepEnd.UPSTREAM_FAILED: TargetState.MET,
        **_ALWAYS,
    },
    Condition.RUNNING: {
        StepEnd.COMPLETED: TargetState.MET,
        StepEnd.FAILED: TargetState.UPSTREAM_FAILED,
        StepEnd.UPSTREAM_FAILED: TargetState.UPSTREAM_FAILED,
        **_ALWAYS,
    },
}
"""How a target that has ended so (None: not yet) stands to what is wanted of it. To Running it
stands so only if no vcjob of it was ever Running; otherwise it has met it for good."""

_RANKING: Mapping[Strategy, tuple[TargetState, ...]] = {
    Strategy.ALL: (
        TargetState.UNSATISFIABLE,
        TargetState.UPSTREAM_FAILED,  # nothing can change that any more
        TargetState.NOT_YET,
        TargetState.STOPPED,
        TargetState.NOT_TAKEN,
        TargetState.MET,
    ),
    Strategy.ANY: (
        TargetState.MET,
        TargetState.NOT_YET,
        TargetState.UNSATISFIABLE,
        TargetState.UPSTREAM_FAILED,
        TargetState.STOPPED,
        TargetState.NOT_TAKEN,
    ),
}
"""Which reach prevails. `all` waits for the last target before it is NotTaken, though one is
enough to know that it will not start: so the same ends give the same skips in whatever order they
come."""

_SKIPPED: Mapping[str, StepEnd] = {str(end): end for end in SKIPS.values()}
_CONDITIONS: Mapping[str | None, Condition] = {str(c): c for c in Condition}
_STRATEGIES: Mapping[str | None, Strategy] = {str(s): s for s in Strategy}


def get_probe(step: Step) -> Probe | None:
    """What the step looks at inside its targets, instead of what they reach; None: nothing, also
    where there is a probe with nothing in it."""
    probe = step.depends_on.probe if step.depends_on else None
    return None if probe is None or probe.empty else probe


def get_condition(step: Step) -> Condition:
    """What the targets of a step without a probe have to reach. A word that admission would refuse
    counts as the default, as Volcano's own controller reads it."""
    depends_on = step.depends_on
    return _CONDITIONS.get(depends_on.condition if depends_on else None, Condition.COMPLETED)


def get_condition_for(step: Step, target: Step) -> Condition:
    """What this target of the step has to reach: of a daemon that it runs, unless the step waits
    for an end other than the usual."""
    want = get_condition(step)
    return Condition.RUNNING if target.daemon and want is Condition.COMPLETED else want


def get_strategy(step: Step) -> Strategy:
    """How many of the targets have to; the default where admission would refuse the word."""
    depends_on = step.depends_on
    return _STRATEGIES.get(depends_on.strategy if depends_on else None, Strategy.ALL)


class Requirement(msgspec.Struct, frozen=True):
    """What a step wants of the steps it depends on, as its spec says it."""

    targets: Sequence[int]
    """Their positions, in the order in which it names them."""
    how: Strategy
    want: Condition
    """What they have to reach, where no probe decides."""
    reaches: Mapping[StepEnd | None, TargetState]
    """How they stand to it, by how they have ended."""
    probe: Probe | None
    to_run: Sequence[int]
    """Which of them only have to run, by their place in `targets`; nothing with a probe."""


def build_requirement(
    step: Step, targets: Sequence[int], daemons: Collection[int] = ()
) -> Requirement:
    """`targets`, `daemons`: positions."""
    want, probe = get_condition(step), get_probe(step)
    to_run: Sequence[int] = ()
    if probe is None and (want is Condition.RUNNING or (want is Condition.COMPLETED and daemons)):
        every = want is Condition.RUNNING
        to_run = [i for i, target in enumerate(targets) if every or target in daemons]
    return Requirement(targets, get_strategy(step), want, TARGET_STATES[want], probe, to_run)


def get_end(step: Step, condition: StepCondition) -> StepEnd | None:
    """How a step has ended, from its condition; None while it has not.

    One that was cancelled has stopped with its flow: nothing is to be made of its failure.
    """
    phase = condition.phase
    if phase not in ENDED_STEP_PHASES:
        return None
    if phase == StepPhase.COMPLETED:
        return StepEnd.COMPLETED
    if phase == StepPhase.SKIPPED:
        return _SKIPPED.get(condition.reason, StepEnd.NOT_TAKEN)
    if condition.reason == CANCELLED:
        return StepEnd.STOPPED
    return StepEnd.FORGIVEN if step.continue_on_failure else StepEnd.FAILED


def fails_flow(step: Step, condition: StepCondition) -> bool:
    """Whether a step has failed, and nothing forgives that."""
    return condition.phase == StepPhase.FAILED and not step.continue_on_failure


def combine_states(how: Strategy, reaches: Iterable[TargetState]) -> TargetState:
    """What the targets' reaches come to together: never PASSED_OVER.

    No targets at all: MET. Nothing but targets that are passed over: NOT_TAKEN.
    """
    occurring = set(reaches)
    if not occurring:
        return TargetState.MET
    for reach in _RANKING[how]:
        if reach in occurring:
            return reach
    return TargetState.NOT_TAKEN
