"""What happened to jobs and flows, as those saw it who run the jobs and send the Commands."""

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from jobflow.api import labels
from jobflow.api.resources import OwnerReference
from jobflow.api.volcano.job import Job


class Run(NamedTuple):
    """One run of a step: all attempts of it do the same work."""

    flow: str
    """The UID of the flow."""
    step: str
    item: str


@dataclass
class Attempt:
    """One vcjob. Times are of `time.monotonic`, infinite until they come."""

    name: str
    run: Run
    outermost: str
    """The name of the outermost flow."""
    seen_at: float
    completed_at: float = math.inf
    """When the API server had stored its end as Completed."""
    gone_at: float = math.inf
    """When its end or deletion was about to be stored."""
    deleted_by_user: bool = False

    def leave(self) -> None:
        """Note that it no longer runs."""
        self.gone_at = min(self.gone_at, time.monotonic())


@dataclass
class Records:
    """All jobs by UID, and what users did to outermost flows, by name."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    retried_at: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cancelled: set[str] = field(default_factory=set)
    overwritten: set[str] = field(default_factory=set)

    def see(self, job: Job) -> Attempt:
        """Return the record of a job; one that is new has its first labels still."""
        meta, notes = job.metadata, job.metadata.labels or {}
        if meta.uid not in self.attempts:
            owner = meta.controller or OwnerReference()
            run = Run(owner.uid, notes.get(labels.STEP, ""), notes.get(labels.INDEX, ""))
            outermost = notes.get(labels.ROOT, "").partition(".")[2] or owner.name
            self.attempts[meta.uid] = Attempt(meta.name, run, outermost, time.monotonic())
        attempt = self.attempts[meta.uid]
        if job.ended:
            attempt.leave()
        return attempt

    def leave(self, uid: str) -> None:
        """Note that a job is gone, if it is one that the API server still knew."""
        if uid in self.attempts:
            self.attempts[uid].leave()

    def go_back_to(self, moment: float) -> None:
        """Forget what the API server no longer knows, because etcd was restored."""
        self.attempts = {uid: each for uid, each in self.attempts.items() if each.seen_at < moment}
        for each in self.attempts.values():
            if each.completed_at >= moment:
                each.completed_at = math.inf
