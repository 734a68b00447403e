"""Whether the pods of a vcjob that has ended still have to be read live, and when."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from jobflow.api.job import Job
from jobflow.core.planning.actions import ReadPods
from jobflow.core.planning.view import PodsRead, View


class Unread(NamedTuple):
    """The pods have not been read yet."""

    trouble: str = ""
    """Why the last try failed; empty: there was none."""
    read: ReadPods | None = None
    """The read, if it is due now."""
    wake_at: datetime | None = None
    """When it is due, if not now."""


def unread(job: Job, view: View, now: datetime) -> Unread | None:
    """Return how the read of the vcjob's pods stands; None: its answer is there and definite."""
    name, uid = job.metadata.name, job.metadata.uid
    answer = view.read.get(uid, PodsRead(retry_at=now))
    if answer.retry_at is None:
        return None
    if now < answer.retry_at:
        return Unread(answer.trouble, wake_at=answer.retry_at)
    return Unread(answer.trouble, ReadPods(name, uid))
