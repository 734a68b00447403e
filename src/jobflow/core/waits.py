"""How the targets of a step stand to it, and what that is in words. It decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobflow.api.jobflow import Condition, Step, Strategy
from jobflow.core.probing import Look
from jobflow.core.readiness import SKIPS, End, Reach, strategy
from jobflow.core.reasons import StepReason
from jobflow.core.scene import Scene
from jobflow.core.wording import SHOWN, listed, short

_TO = {
    Condition.COMPLETED: "",
    Condition.FAILED: " to fail",
    Condition.FINISHED: " to finish",
    Condition.RUNNING: " to run",
}


@dataclass(slots=True)
class Waits:
    """How the targets of a step stand to it, in the order in which it names them."""

    targets: Sequence[int]
    reaches: Sequence[Reach]
    want: Condition | None
    """What they have to reach; None: a probe decides."""
    looks: Sequence[Look] = ()
    """What its probe came to; nothing where it has none."""
    to_run: Sequence[int] = ()
    """Which of them have to run, that is met once they have; by their place in `targets`."""

    def met(self) -> list[int]:
        """The targets that have been reached."""
        pairs = zip(self.targets, self.reaches, strict=True)
        return [target for target, reach in pairs if reach is Reach.MET]

    def lasting(self) -> list[int]:
        """The targets that have been reached for good though they may go on."""
        kept = range(len(self.targets)) if self.looks else self.to_run
        return [self.targets[i] for i in kept if self.reaches[i] is Reach.MET]


NOBODY = Waits((), (), Condition.COMPLETED)
"""Of a step that has no targets."""


def waits_for(scene: Scene, step: Step, waits: Waits) -> tuple[str, str]:
    """Reason and message of a step whose targets have not all come so far."""
    last = "or" if strategy(step) is Strategy.ANY else "and"
    pending = [i for i, reach in enumerate(waits.reaches) if reach is Reach.NOT_YET]
    if waits.want is None:
        said = any(waits.looks[i].said for i in pending)
        reason = StepReason.WAITING_FOR_PROBE if said else ""
        return reason, f"waits for {_seen(scene, pending, waits, last)}"
    names = [_state(scene, waits.targets[i]) for i in pending[:SHOWN]]
    return "", f"waits for {listed(names, total=len(pending), last=last)}{_to(waits, pending)}"


def unsatisfiable(scene: Scene, waits: Waits) -> str:
    """What a step fails for whose probe can no longer pass."""
    which = [i for i, reach in enumerate(waits.reaches) if reach is Reach.UNSATISFIABLE]
    return short(f"the probe cannot pass any more on {_seen(scene, which, waits, 'and')}")


def skipped_for(how: End, scene: Scene, waits: Waits, failed: Sequence[str]) -> str:
    """What a step is skipped for. `failed`: what the flow has stopped for."""
    names = [
        scene.graph.names[target]
        for target, why in zip(waits.targets, waits.reaches, strict=True)
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


def _to(waits: Waits, pending: Sequence[int]) -> str:
    """What they have to do, where that is the same for all."""
    assert waits.want is not None
    if waits.to_run and not set(pending).isdisjoint(waits.to_run):
        return _TO[Condition.RUNNING] if set(pending) <= set(waits.to_run) else ""
    return _TO[waits.want]


def _state(scene: Scene, target: int) -> str:
    return f"{scene.graph.names[target]} ({scene.standing[target].phase})"


def _seen(scene: Scene, which: Sequence[int], waits: Waits, last: str) -> str:
    """What was seen of targets: of a single one in full."""
    names, targets = scene.graph.names, waits.targets
    if len(which) == 1 and (said := waits.looks[which[0]].said):
        return f"{names[targets[which[0]]]}: {said}"
    shown = [
        f"{names[targets[i]]} ({said})"
        if (said := waits.looks[i].said)
        else _state(scene, targets[i])
        for i in which[:SHOWN]
    ]
    return listed(shown, total=len(which), last=last)
