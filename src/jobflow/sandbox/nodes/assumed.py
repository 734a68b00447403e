"""What the runner `simulate` has for a network: none. It opens no connection."""

from __future__ import annotations

from jobflow.api.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check


async def assume(pod: Pod, check: Check) -> str:
    """What a probe sees of a simulated pod: it passes once the pod is Running, for nothing in it
    could listen."""
    return "" if pod.phase == PodPhase.RUNNING else f"does not answer while it is {pod.phase}"
