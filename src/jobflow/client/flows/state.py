"""The state of a flow in words."""

from __future__ import annotations

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase


def state_of(flow: JobFlow) -> str:
    """`Running, 2/5 steps finished (Cancelled): the flow was cancelled`."""
    status = flow.status
    text = status.state.phase or FlowPhase.PENDING.value
    if status.progress:
        text += f", {status.progress} steps finished"
    if status.state.reason:
        text += f" ({status.state.reason})"
    return f"{text}: {status.state.message}" if status.state.message else text
