"""Readiness of a step: whether its dependencies are met, may still be met, or never will be.

A target has not ended, or has ended in one of six ways (`StepEnd`). A table gives its `TargetState`
by that and by the condition of the dependant. A second table, the ranking of the strategy, combines
the states of all targets into one: MET starts the step, NOT_YET lets it wait, UNSATISFIABLE fails
it, and the other three skip it. If the step has a probe, the states are those of the probe
(`planning/pending/probes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Condition, DependsOn, Probe, Step, Strategy
from jobflow.core.names import stored_condition
from jobflow.core.reasons import StepReason


class TargetState(StrEnum):
    """The state of a target, or of all, for a dependant; also why this ends because of it."""

    MET = "Met"
    NOT_YET = "NotYet"
    """It may still become Met."""
    PASSED_OVER = "PassedOver"
    """It was not taken, and is ignored."""
    NOT_TAKEN = "NotTaken"
    """It ended in another way than required, so this branch is not taken."""
    UPSTREAM_FAILED = "UpstreamFailed"
    STOPPED = "Stopped"
    UNSATISFIABLE = "ProbeUnsatisfiable"
    """It can no longer pass the dependant's probe."""


class StepEnd(StrEnum):
    """The ways a step ends."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    TOLERATED = "Tolerated"
    """Failed in a way that continueOnFailure tolerates, which meets every condition."""
    NOT_TAKEN = "NotTaken"
    UPSTREAM_FAILED = "UpstreamFailed"
    STOPPED = "Stopped"


SKIPS: Mapping[TargetState, StepEnd] = {
    TargetState.NOT_TAKEN: StepEnd.NOT_TAKEN,
    TargetState.UPSTREAM_FAILED: StepEnd.UPSTREAM_FAILED,
    TargetState.STOPPED: StepEnd.STOPPED,
}
"""The states that skip a step, and the end of the step."""

_COMPLETED: Mapping[StepEnd | None, TargetState] = {
    None: TargetState.NOT_YET,
    StepEnd.COMPLETED: TargetState.MET,
    StepEnd.FAILED: TargetState.UPSTREAM_FAILED,
    StepEnd.UPSTREAM_FAILED: TargetState.UPSTREAM_FAILED,
    # a tolerated failure meets most conditions, a target that was not taken is ignored
    StepEnd.TOLERATED: TargetState.MET,
    StepEnd.NOT_TAKEN: TargetState.PASSED_OVER,
    StepEnd.STOPPED: TargetState.STOPPED,
}

TARGET_STATES: Mapping[Condition, Mapping[StepEnd | None, TargetState]] = {
    Condition.COMPLETED: _COMPLETED,
    Condition.RUNNING: _COMPLETED,
    Condition.FAILED: {
        **_COMPLETED,
        StepEnd.COMPLETED: TargetState.NOT_TAKEN,
        StepEnd.FAILED: TargetState.MET,
    },
    Condition.FINISHED: {
        **_COMPLETED,
        StepEnd.FAILED: TargetState.MET,
        StepEnd.UPSTREAM_FAILED: TargetState.MET,
    },
    Condition.NOT_FAILED: {**_COMPLETED, StepEnd.NOT_TAKEN: TargetState.MET},
    Condition.ALWAYS: {None: TargetState.NOT_YET, **dict.fromkeys(StepEnd, TargetState.MET)},
}
"""The state of a target, by the dependant's condition and the target's end (None: not ended). A
target that was ever Running has met Running, even if it failed."""

FLOW_ERRORS = frozenset(
    {
        StepReason.EXPRESSION_ERROR,
        StepReason.REFUSED,
        StepReason.NAME_CONFLICT,
        StepReason.ITEMS_MISMATCH,
        StepReason.PROBE_UNSATISFIABLE,
    }
)
"""Reasons of a failure that continueOnFailure does not tolerate: an error of the flow itself."""

HANDLES = frozenset({Condition.FAILED, Condition.FINISHED, Condition.ALWAYS})
"""Conditions of the steps that may start although the flow has stopped."""

_RANKING: Mapping[Strategy, tuple[TargetState, ...]] = {
    Strategy.ALL: (
        TargetState.UNSATISFIABLE,
        TargetState.UPSTREAM_FAILED,  # final, so waiting is useless
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
"""The state that prevails. `all` is NotTaken only after the last target has ended, so the order in
which targets end does not matter."""

_NONE: frozenset[int] = frozenset()
_SKIPPED: Mapping[str, StepEnd] = {
    **{str(end): end for end in SKIPS.values()},
    StepReason.BLOCKED: StepEnd.STOPPED,
    StepReason.SKIPPED_BY_USER: StepEnd.COMPLETED,
}
_FINE_SKIPS = (
    StepReason.SKIPPED_BY_USER,
    StepReason.NOT_TAKEN,
    StepReason.NOT_TARGETED,
    StepReason.NOT_NEEDED,
)
_CONDITIONS: Mapping[str | None, Condition] = {str(c): c for c in Condition}
_STRATEGIES: Mapping[str | None, Strategy] = {str(s): s for s in Strategy}


def get_probe(step: Step) -> Probe | None:
    """Return the probe that replaces the condition of a step, or None. Empty ones are ignored."""
    probe = step.depends_on.probe if step.depends_on else None
    return None if probe is None or probe.empty else probe


def get_condition(step: Step, target: str, *, is_daemon: bool = False) -> Condition:
    """Return the condition for a target; the default is Completed, of a daemon Running."""
    default = Condition.RUNNING if is_daemon else Condition.COMPLETED
    depends_on = step.depends_on
    if depends_on is None:
        return default
    word = (depends_on.conditions or {}).get(target, depends_on.condition)
    # an unknown word, which admission would refuse, is the default, as in Volcano's own controller
    return _CONDITIONS.get(word, default)


def get_condition_for(step: Step, target: Step) -> Condition:
    return get_condition(step, target.name, is_daemon=bool(target.daemon))


def awaits_end(step: Step, daemon: Step) -> bool:
    """Return whether a step waits for the end of a daemon, not until that runs."""
    return get_probe(step) is None and get_condition_for(step, daemon) is not Condition.RUNNING


def get_strategy(step: Step) -> Strategy:
    depends_on = step.depends_on
    return _STRATEGIES.get(depends_on.strategy if depends_on else None, Strategy.ALL)


class Requirement(msgspec.Struct, frozen=True):
    """The requirement of a step for its targets, by its spec."""

    targets: Sequence[int]
    """Positions of the targets, in the order of the spec."""
    how: Strategy
    wants: Sequence[Condition]
    """The condition of each target, if the step has no probe."""
    rows: Sequence[Mapping[StepEnd | None, TargetState]]
    """For each target its state, by its end."""
    probe: Probe | None = None
    to_run: Sequence[int] = ()
    """Places in `targets` of those that only have to be Running; empty with a probe."""
    handled: frozenset[int] = _NONE
    """The targets that may fail, by their condition (`HANDLES`); empty with a probe."""
    matched: frozenset[int] = _NONE
    """The targets whose items the items of the step depend on; the others count as a whole."""
    is_mixed: bool = False
    """Whether some targets are matched, or differ in the condition."""

    def targets_of(self, index: int | None) -> list[tuple[int, int | None]]:
        """Return the targets of the item with this index, each with the index of its own item that
        counts, or None if all of them do."""
        return [(each, index if each in self.matched else None) for each in self.targets]

    def handles(self, met: Iterable[int] | None) -> bool:
        """Whether the step handles a failure if these targets are met (None: any of them)."""
        if met is None or len(self.handled) == len(self.targets):
            return bool(self.handled)
        return not self.handled.isdisjoint(met)


def build_requirement(
    step: Step,
    targets: Sequence[int],
    names: Sequence[str],
    daemons: frozenset[int],
    looped: frozenset[int],
) -> Requirement:
    """Return the requirement of a step. `targets`, `daemons`, and `looped`, the steps with items,
    are positions in `names`."""
    own = step.depends_on
    # without another field, each target has to be Completed
    if daemons.isdisjoint(targets) and (own is None or own == DependsOn(targets=own.targets)):
        count = len(targets)
        wants: Sequence[Condition] = (Condition.COMPLETED,) * count
        return Requirement(targets, Strategy.ALL, wants, (_COMPLETED,) * count)
    probe = get_probe(step)
    wants = [get_condition(step, names[target], is_daemon=target in daemons) for target in targets]
    to_run: Sequence[int] = ()
    handled = matched = _NONE
    if probe is None:
        if step.matches_items:
            matched = frozenset(target for target in targets if target in looped)
        running = (i for i, want in enumerate(wants) if want is Condition.RUNNING)
        to_run = [i for i in running if targets[i] not in matched]
        handled = frozenset(t for t, want in zip(targets, wants, strict=True) if want in HANDLES)
    rows = [TARGET_STATES[want] for want in wants]
    is_mixed = bool(matched) or len(set(wants)) > 1
    how = get_strategy(step)
    return Requirement(targets, how, wants, rows, probe, to_run, handled, matched, is_mixed)


def get_end(step: Step, condition: api.RunCondition, *, is_cancelled: bool) -> StepEnd | None:
    """Return how a step, or one run of it, has ended, by its condition, or None if it has not.
    `is_cancelled`: the flow is."""
    phase = condition.phase
    if phase not in api.ENDED_STEP_PHASES:
        return None
    if phase == api.StepPhase.COMPLETED:
        return StepEnd.COMPLETED
    if phase == api.StepPhase.SKIPPED:
        # a step that is not targeted is passed over, as a branch that was not taken
        return _SKIPPED.get(condition.reason, StepEnd.NOT_TAKEN)
    if is_cancelled and condition.reason == api.CANCELLED:
        return StepEnd.STOPPED  # it must not start steps that handle failures
    return StepEnd.TOLERATED if is_tolerated(step, condition) else StepEnd.FAILED


def fails_flow(step: Step, condition: api.StepCondition) -> bool:
    """Return whether a step has failed and is not tolerated, or could never start."""
    if condition.phase == api.StepPhase.SKIPPED:
        return condition.reason == StepReason.BLOCKED
    return condition.phase == api.StepPhase.FAILED and not is_tolerated(step, condition)


def is_tolerated(step: Step, condition: api.RunCondition) -> bool:
    """Return whether continueOnFailure tolerates the failure of a step, or of one run of it."""
    return bool(step.continue_on_failure) and not is_flow_error(condition)


def is_bad_skip(run: api.RunCondition) -> bool:
    """Return whether a step or a run was skipped although it was needed."""
    return run.phase == api.StepPhase.SKIPPED and run.reason not in _FINE_SKIPS


def is_flow_error(condition: api.RunCondition) -> bool:
    """Return whether a step, or one of its runs, has failed by an error of the flow itself."""
    if condition.flow_error or condition.reason in FLOW_ERRORS:
        return True
    runs = condition.runs if isinstance(condition, api.StepCondition) else None
    return any(map(is_flow_error, runs or ()))


def combine_states(how: Strategy, reaches: Iterable[TargetState]) -> TargetState:
    """Return one state for all targets, which is never PASSED_OVER. It is MET without targets, and
    NOT_TAKEN if all of them are passed over."""
    occurring = set(reaches)
    if not occurring:
        return TargetState.MET
    for reach in _RANKING[how]:
        if reach in occurring:
            return reach
    return TargetState.NOT_TAKEN


def has_tolerated_failures(flow: JobFlow) -> bool:
    """Return whether a failure in a flow, or in its child flows, is tolerated."""
    return flow.status.tolerated_in_children or any(
        (step.continue_on_failure or step.tolerates_items)
        and (known := stored_condition(flow, step.name)) is not None
        and _has_tolerated(step, known)
        for step in flow.all_steps
    )


def _has_tolerated(step: Step, condition: api.StepCondition) -> bool:
    if condition.phase == api.StepPhase.COMPLETED:
        return any(run.phase == api.StepPhase.FAILED for run in condition.runs or ())
    return get_end(step, condition, is_cancelled=False) is StepEnd.TOLERATED
