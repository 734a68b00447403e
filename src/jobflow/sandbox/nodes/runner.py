"""Interface of runners, which run the pods of vcjobs in place of a kubelet."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.nodes.pod_status import PodProgress
from jobflow.sandbox.nodes.process.log_reader import ContainerLog

Report = Callable[[PodProgress], Awaitable[None]]
"""Writes the progress of the pod; returns when it is stored."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod to run."""

    job: Vcjob
    pod: Pod
    started: datetime
    """Start of the pod; in whole seconds if an earlier process started it."""
    job_started: datetime
    """Start of the vcjob's first pod since its last restart."""


class Runner(Protocol):
    """Runs the pods of vcjobs."""

    graceful: bool
    """Whether pods are deleted with their grace period, during which `end` is awaited."""

    def faults(self, job: Vcjob) -> Sequence[str]:
        """Return why this vcjob cannot run at all, in sentences for its user."""

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Run a pod to its end, or continue it from its status. Cancelled when the pod is deleted
        or the sandbox exits. It may return early: the pod then stays in its phase."""

    async def end(self, pod: Pod) -> None:
        """End a pod that is being deleted; return when nothing of it runs."""

    def log(self, pod_uid: str, container: str, run: int) -> ContainerLog | None:
        """Return the log of a run, from 0, of a pod's container; None if it has none."""
