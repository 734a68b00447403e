"""When a flow that is over is deleted, with all its vcjobs: `spec.ttlSecondsAfterFinished`."""

from __future__ import annotations

from datetime import datetime

from jobflow.api.jobflow import JobFlow
from jobflow.core.timestamps import later


def expires(flow: JobFlow) -> datetime | None:
    """When the flow is to go, by its stored status; None: it stays, or is on its way already."""
    ttl, ended = flow.spec.ttl_seconds_after_finished, flow.status.completion_time
    if ttl is None or ended is None or not flow.final:
        return None
    if flow.metadata.deletion_timestamp is not None:
        return None
    return later(ended, max(0, ttl))
