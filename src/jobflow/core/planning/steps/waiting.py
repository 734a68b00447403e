"""Messages of waiting and skipped steps: "waits for c (Running)"."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobflow.api.jobflow import Condition, Step, Strategy
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.steps.probes import ProbeState
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import SKIPS, Requirement, StepEnd, TargetState, build_requirement
from jobflow.core.text import MAX_NAMES, join_names, shorten

_TO = {
    Condition.COMPLETED: "",
    Condition.FAILED: " to fail",
    Condition.FINISHED: " to finish",
    Condition.RUNNING: " to run",
}
_NOT_YET, _ANY = TargetState.NOT_YET, Strategy.ANY


class Waits(msgspec.Struct, frozen=True):
    """The states of a step's targets, in the order of the spec."""

    need: Requirement
    reaches: Sequence[TargetState]
    looks: Sequence[ProbeState] = ()
    """The states of its probe by target; empty without a probe."""

    def met(self) -> list[int]:
        """Return the targets that are met."""
        pairs = zip(self.need.targets, self.reaches, strict=True)
        return [target for target, reach in pairs if reach is TargetState.MET]

    def lasting(self) -> list[int]:
        """Return the targets that stay met although they may still run."""
        targets = self.need.targets
        kept = range(len(targets)) if self.looks else self.need.to_run
        return [targets[i] for i in kept if self.reaches[i] is TargetState.MET]


NO_TARGETS = Waits(build_requirement(Step(), ()), ())
"""The value for a step without targets."""


def waits_for(ctx: PlanContext, waits: Waits) -> tuple[str, str]:
    """Return reason and message of a step that waits for targets."""
    need = waits.need
    last = "or" if need.how is _ANY else "and"
    if need.probe is not None:
        pending = [i for i, reach in enumerate(waits.reaches) if reach is _NOT_YET]
        said = any(waits.looks[i].said for i in pending)
        reason = StepReason.WAITING_FOR_PROBE if said else ""
        return reason, f"waits for {_seen(ctx, pending, waits, last)}"
    names, standing = ctx.graph.names, ctx.standing
    states: list[str] = []
    total = 0
    for target, reach in zip(need.targets, waits.reaches, strict=True):
        if reach is _NOT_YET:
            total += 1
            if total <= MAX_NAMES:
                states.append(f"{names[target]} ({standing[target].phase})")
    to = _to(waits) if need.to_run else _TO[need.want]
    return "", f"waits for {join_names(states, total=total, last=last)}{to}"


def unsatisfiable(ctx: PlanContext, waits: Waits) -> str:
    """Return the message of a step whose probe can no longer pass."""
    which = [i for i, reach in enumerate(waits.reaches) if reach is TargetState.UNSATISFIABLE]
    return shorten(f"the probe cannot pass any more on {_seen(ctx, which, waits, 'and')}")


def skipped_for(how: StepEnd, ctx: PlanContext, waits: Waits, failed: Sequence[str]) -> str:
    """Return the message of a skipped step. `failed`: the steps for which the flow has stopped."""
    names = [
        ctx.graph.names[target]
        for target, why in zip(waits.need.targets, waits.reaches, strict=True)
        if SKIPS.get(why) is how
    ]
    if how is StepEnd.UPSTREAM_FAILED:
        message = f"{join_names(names)} did not complete"
    elif how is StepEnd.NOT_TAKEN:
        message = f"{join_names(names)} did not fail" if names else "no target was taken"
    else:
        message = f"the flow stopped because {join_names(failed)} failed"
    return shorten(message)


def blocked_by(ctx: PlanContext, step: Step) -> str:
    """Return the message of a step that waits for an unknown step or for itself. Admission refuses
    both; flows without admission have them."""
    known = ctx.graph.index
    unknown = [name for name in step.targets if name not in known]
    if unknown:
        return f"waits for {join_names(unknown)}, which this flow does not have"
    return "waits for a step that waits for itself"


def _to(waits: Waits) -> str:
    """Return " to run" or similar if it applies to all pending targets of a mixed step."""
    to_run = waits.need.to_run
    pending = {i for i, reach in enumerate(waits.reaches) if reach is _NOT_YET}
    if pending.isdisjoint(to_run):
        return _TO[waits.need.want]
    return _TO[Condition.RUNNING] if pending <= set(to_run) else ""


def _seen(ctx: PlanContext, which: Sequence[int], waits: Waits, last: str) -> str:
    """Return the probe messages of targets; in full for a single target."""
    names, targets = ctx.graph.names, waits.need.targets
    if len(which) == 1 and (said := waits.looks[which[0]].said):
        return f"{names[targets[which[0]]]}: {said}"
    shown = [
        f"{names[targets[i]]} ({said})"
        if (said := waits.looks[i].said)
        else f"{names[targets[i]]} ({ctx.standing[targets[i]].phase})"
        for i in which[:MAX_NAMES]
    ]
    return join_names(shown, total=len(which), last=last)
