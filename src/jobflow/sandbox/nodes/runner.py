"""What a runner is: it plays the node for the pods of vcjobs. It decides nothing about the jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.pods import PodObject
from jobflow.sandbox.nodes.pod_status import Progress

Report = Callable[[Progress], Awaitable[None]]
"""Writes what became of the pod; returns when it is stored."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod to run."""

    job: Vcjob
    pod: PodObject
    started: datetime
    """When the pod's time began to run; to the second where it was begun by an earlier process."""
    job_started: datetime
    """When that of the vcjob's first pod since its last restart did."""


class Runner(Protocol):
    """Runs the pods of vcjobs."""

    graceful: bool
    """Whether pods are deleted with their grace period, in which `end` is awaited."""

    def faults(self, job: Vcjob) -> Sequence[str]:
        """Why this vcjob cannot be run at all, each a sentence for its user; else nothing."""

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Run a pod to its end, or pick it up where its status says it stands.

        Cancelled when the pod is gone, or the sandbox is over. It may return before the pod has
        ended: then the pod stays as it is.
        """

    async def end(self, pod: PodObject) -> None:
        """End what is run of a pod that is being deleted; returns when nothing of it is left."""
