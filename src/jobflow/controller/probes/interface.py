"""Interface between the reconciler and whatever runs probes (`prober`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from jobflow.api.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import JobProbe
from jobflow.core.planning.view import ProbeResult
from jobflow.kube.cache import Key


class ProbeRunner(Protocol):
    """Runs the probes of plans."""

    def want(self, flow: Key, flow_uid: str, probes: Sequence[JobProbe]) -> None:
        """Run these probes for the flow from now on, and no others."""

    def results(self, flow_uid: str) -> Mapping[tuple[str, str], ProbeResult]:
        """Return the results so far, by step and UID of the target's job."""

    def forget(self, flow: Key) -> None:
        """Run no more probes for the flow."""

    async def run(self) -> None:
        """Probe until cancelled."""


PodsOf = Callable[[str], Mapping[str, Pod]]
"""Returns the pods of the job with this UID, by name."""
MakeProbeRunner = Callable[[PodsOf, Callable[[Key], None], Hooks], ProbeRunner]
"""Parameters: the pods, a callback for a flow whose results changed, and hooks."""
