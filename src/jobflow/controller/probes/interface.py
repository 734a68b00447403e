"""What the reconciler asks of whoever carries out probes. `prober` does; nothing is done here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from jobflow.api.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Probe
from jobflow.core.planning.view import ProbeResult
from jobflow.kube.cache import Key


class Probing(Protocol):
    """Carries out the probes of plans between them."""

    def want(self, flow: Key, flow_uid: str, probes: Sequence[Probe]) -> None:
        """Probe these for the flow from now on, and no others."""

    def results(self, flow_uid: str) -> Mapping[tuple[str, str], ProbeResult]:
        """How they stand, by step and target's vcjob UID."""

    def forget(self, flow: Key) -> None:
        """The flow wants nothing any more."""

    async def run(self) -> None:
        """Until cancelled."""


PodsOf = Callable[[str], Mapping[str, Pod]]
"""The pods of the vcjob with this UID, by name."""
MakeProbing = Callable[[PodsOf, Callable[[Key], None], Hooks], Probing]
"""Of the pods, of what is told the flow whose results have changed, and of what counts."""
