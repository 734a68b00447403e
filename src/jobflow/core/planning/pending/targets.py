"""States of a step's targets, and messages of steps that wait for them: "waits for c (Running)"."""

from collections.abc import Sequence
from itertools import compress

import msgspec

from jobflow.api.flow.status import StepPhase
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.pending.probes import ProbeState
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import SKIPS, Requirement, StepEnd, TargetState
from jobflow.core.text import MAX_NAMES, join_names

_TO = {
    Condition.COMPLETED: "",
    Condition.FAILED: " to fail",
    Condition.FINISHED: " to finish",
    Condition.RUNNING: " to run",
    Condition.NOT_FAILED: " to complete or be skipped",
    Condition.ALWAYS: " to end",
}
_TO_EACH = {**_TO, Condition.COMPLETED: " to complete"}
"""Endings if the targets have different conditions."""
_NOT_YET, _ANY = TargetState.NOT_YET, Strategy.ANY


class TargetStates(msgspec.Struct, frozen=True):
    """The states of a step's targets, in the order of the spec."""

    need: Requirement
    reaches: Sequence[TargetState]
    looks: Sequence[ProbeState] = ()
    """The states of its probe by target; empty without a probe."""

    def met(self) -> list[int]:
        """Return the targets that are met."""
        pairs = zip(self.need.targets, self.reaches, strict=True)
        return [target for target, reach in pairs if reach is TargetState.MET]

    def noted_in(
        self, decision: StepDecision, verdict: TargetState, observed: ObservedStep, ctx: PlanContext
    ) -> StepDecision:
        """Return the decision about a step with the targets that stay met although they may still
        run, and with the probes and reads of the others."""
        stored, names, targets = observed.stored, ctx.layout.graph.names, self.need.targets
        kept = range(len(targets)) if self.looks else self.need.to_run
        met = [names[targets[i]] for i in kept if self.reaches[i] is TargetState.MET]
        condition = decision.condition
        if condition.phase == StepPhase.WAITING:
            condition = msgspec.structs.replace(condition, passed_targets=met or None)
        # probes that have passed stay until the status says so, so that the prober does not forget
        looks = [
            look
            for look in (() if ctx.terminating else self.looks)
            if verdict is _NOT_YET or look.reach is TargetState.MET
        ]
        moments = [at for at in (decision.wake_at, *(look.wake_at for look in looks)) if at]
        has_news = not set(met) <= set(stored.passed_targets or ())
        return msgspec.structs.replace(
            decision,
            condition=stored if condition == stored else condition,
            urgent=decision.urgent or (bool(self.looks) and has_news and not decision.drafts),
            wake_at=min(moments, default=None),
            reads=tuple(look.read for look in looks if look.read is not None),
            wants=tuple(look.probe for look in looks if look.probe is not None),
        )


def waits_for(ctx: PlanContext, targets: TargetStates) -> tuple[str, str]:
    """Return reason and message of a step that waits for targets."""
    need = targets.need
    last = "or" if need.how is _ANY else "and"
    if need.probe is not None:
        pending = [i for i, reach in enumerate(targets.reaches) if reach is _NOT_YET]
        # as long as nothing is known of any target, the step waits as any other
        is_known = any(targets.looks[i].message for i in pending)
        reason = StepReason.WAITING_FOR_PROBE if is_known else ""
        return reason, f"waits for {_probe_messages(ctx, pending, targets, last)}"
    names, standing = ctx.layout.graph.names, ctx.progress.standing
    states: list[str] = []
    total = 0
    # names beyond the most that are shown are only counted
    for target, reach in zip(need.targets, targets.reaches, strict=True):
        if reach is _NOT_YET:
            total += 1
            if total <= MAX_NAMES:
                states.append(f"{names[target]} ({standing[target].phase})")
    to = _TO[need.wants[0]]
    if need.is_mixed:  # each with what the step waits for of it, unless all have that in common
        pending = [i for i, reach in enumerate(targets.reaches) if reach is _NOT_YET]
        if need.matched:
            owners = ["the items of " if need.targets[i] in need.matched else "" for i in pending]
            states = [owner + state for owner, state in zip(owners, states, strict=False)]
        wants = [need.wants[i] for i in pending]
        to = _TO[wants[0]]
        if wants.count(wants[0]) < len(wants):
            states = [state + _TO_EACH[want] for state, want in zip(states, wants, strict=False)]
            to = ""
    return "", f"waits for {join_names(states, total=total, last=last)}{to}"


def unsatisfiable(ctx: PlanContext, targets: TargetStates) -> str:
    """Return the message of a step whose probe can no longer pass."""
    which = [i for i, reach in enumerate(targets.reaches) if reach is TargetState.UNSATISFIABLE]
    return f"the probe cannot pass any more on {_probe_messages(ctx, which, targets, 'and')}"


def skipped_for(end: StepEnd, ctx: PlanContext, targets: TargetStates, failed: list[str]) -> str:
    """Return the message of a skipped step. `failed`: the steps for which the flow has stopped."""
    # other targets of the step may have ended as required
    because = [SKIPS.get(reach) is end for reach in targets.reaches]
    names = join_names([ctx.layout.graph.names[i] for i in compress(targets.need.targets, because)])
    if end is StepEnd.UPSTREAM_FAILED:
        return f"{names} did not complete"
    if end is StepEnd.NOT_TAKEN:
        return f"{names} did not fail" if names else "no target was taken"
    return f"the flow stopped because {join_names(failed)} failed"


def blocked_by(ctx: PlanContext, step: Step) -> str:
    """Return the message of a step that waits for an unknown step or for itself."""
    # admission refuses both; a flow that was stored without it has them
    unknown = [name for name in step.targets if name not in ctx.layout.graph.index]
    if unknown:
        return f"waits for {join_names(unknown)}, which this flow does not have"
    return "waits for a step that waits for itself"


def _probe_messages(ctx: PlanContext, which: list[int], states: TargetStates, last: str) -> str:
    """Return the probe messages of targets; in full for a single target."""
    names, targets = ctx.layout.graph.names, states.need.targets
    standing = ctx.progress.standing
    if len(which) == 1 and (message := states.looks[which[0]].message):
        return f"{names[targets[which[0]]]}: {message}"
    listed = [
        f"{names[targets[i]]} ({states.looks[i].message or standing[targets[i]].phase})"
        for i in which[:MAX_NAMES]
    ]
    return join_names(listed, total=len(which), last=last)
