"""How the targets of a step stand to it, and what that is in words. It decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobflow.api.jobflow import Condition, Step, Strategy
from jobflow.core.planning.context import Scene
from jobflow.core.planning.steps.probes import Look
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import SKIPS, End, Need, Reach, need_of
from jobflow.core.text import SHOWN, listed, short

_TO = {
    Condition.COMPLETED: "",
    Condition.FAILED: " to fail",
    Condition.FINISHED: " to finish",
    Condition.RUNNING: " to run",
}
_NOT_YET, _ANY = Reach.NOT_YET, Strategy.ANY


class Waits(msgspec.Struct, frozen=True):
    """How the targets of a step stand to it, in the order in which it names them."""

    need: Need
    reaches: Sequence[Reach]
    looks: Sequence[Look] = ()
    """What its probe came to; nothing where it has none."""

    def met(self) -> list[int]:
        """The targets that have been reached."""
        pairs = zip(self.need.targets, self.reaches, strict=True)
        return [target for target, reach in pairs if reach is Reach.MET]

    def lasting(self) -> list[int]:
        """The targets that have been reached for good though they may go on."""
        targets = self.need.targets
        kept = range(len(targets)) if self.looks else self.need.to_run
        return [targets[i] for i in kept if self.reaches[i] is Reach.MET]


NOBODY = Waits(need_of(Step(), ()), ())
"""Of a step that has no targets."""


def waits_for(scene: Scene, waits: Waits) -> tuple[str, str]:
    """Reason and message of a step whose targets have not all come so far."""
    need = waits.need
    last = "or" if need.how is _ANY else "and"
    if need.probe is not None:
        pending = [i for i, reach in enumerate(waits.reaches) if reach is _NOT_YET]
        said = any(waits.looks[i].said for i in pending)
        reason = StepReason.WAITING_FOR_PROBE if said else ""
        return reason, f"waits for {_seen(scene, pending, waits, last)}"
    names, standing = scene.graph.names, scene.standing
    states: list[str] = []
    total = 0
    for target, reach in zip(need.targets, waits.reaches, strict=True):
        if reach is _NOT_YET:
            total += 1
            if total <= SHOWN:
                states.append(f"{names[target]} ({standing[target].phase})")
    to = _to(waits) if need.to_run else _TO[need.want]
    return "", f"waits for {listed(states, total=total, last=last)}{to}"


def unsatisfiable(scene: Scene, waits: Waits) -> str:
    """What a step fails for whose probe can no longer pass."""
    which = [i for i, reach in enumerate(waits.reaches) if reach is Reach.UNSATISFIABLE]
    return short(f"the probe cannot pass any more on {_seen(scene, which, waits, 'and')}")


def skipped_for(how: End, scene: Scene, waits: Waits, failed: Sequence[str]) -> str:
    """What a step is skipped for. `failed`: what the flow has stopped for."""
    names = [
        scene.graph.names[target]
        for target, why in zip(waits.need.targets, waits.reaches, strict=True)
        if SKIPS.get(why) is how
    ]
    if how is End.UPSTREAM_FAILED:
        message = f"{listed(names)} did not complete"
    elif how is End.NOT_TAKEN:
        message = f"{listed(names)} did not fail" if names else "no target was taken"
    else:
        message = f"the flow stopped, for {listed(failed)} failed"
    return short(message)


def blocked_by(scene: Scene, step: Step) -> str:
    """Past admission, or Volcano's: a step that waits for what is no step, or for itself."""
    known = scene.graph.index
    strange = [name for name in step.targets if name not in known]
    if strange:
        return f"waits for {listed(strange)}, which this flow does not have"
    return "waits for a step that in the end waits for itself"


def _to(waits: Waits) -> str:
    """What the targets have to do some of which only have to run, where it is the same for all."""
    to_run = waits.need.to_run
    pending = {i for i, reach in enumerate(waits.reaches) if reach is _NOT_YET}
    if pending.isdisjoint(to_run):
        return _TO[waits.need.want]
    return _TO[Condition.RUNNING] if pending <= set(to_run) else ""


def _state(scene: Scene, target: int) -> str:
    return f"{scene.graph.names[target]} ({scene.standing[target].phase})"


def _seen(scene: Scene, which: Sequence[int], waits: Waits, last: str) -> str:
    """What was seen of targets: of a single one in full."""
    names, targets = scene.graph.names, waits.need.targets
    if len(which) == 1 and (said := waits.looks[which[0]].said):
        return f"{names[targets[which[0]]]}: {said}"
    shown = [
        f"{names[targets[i]]} ({said})"
        if (said := waits.looks[i].said)
        else _state(scene, targets[i])
        for i in which[:SHOWN]
    ]
    return listed(shown, total=len(which), last=last)
