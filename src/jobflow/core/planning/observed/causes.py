"""Messages about failures in child flows, which have the error itself however deep its step is."""

from __future__ import annotations

from jobflow.api.flow.status import StepFailure
from jobflow.core.pods.failure import describe_end
from jobflow.core.text import MAX_MESSAGE


def name_cause(head: str, detail: str, failure: StepFailure | None) -> str:
    """Return `head: detail`. If that is too long for a message, and the failure is that of a pod in
    a child flow, name the failure in place of the flows and the job between, so that the error is
    not cut off: `head: step train/fit failed: pod f-b-main-0 (task main): exit code 3 (Error) on
    node n1: ValueError: no rows`."""
    message = f"{head}: {detail}" if detail else head
    if len(message) <= MAX_MESSAGE or failure is None or not (failure.step and failure.pod):
        return message
    task = f" (task {failure.task})" if failure.task else ""
    node = f" on node {failure.node}" if failure.node else ""
    more = f": {failure.message}" if failure.message else ""
    how = describe_end(failure, failure.signal or None)
    return f"{head}: step {failure.step} failed: pod {failure.pod}{task}: {how}{node}{more}"
