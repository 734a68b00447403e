"""What the controller tells of its work, for metrics. Nothing here counts: `serve` plugs it in."""

from __future__ import annotations

from enum import StrEnum

from jobflow.api.flow_status import JobFlowStatus


class Result(StrEnum):
    """How one reconcile went."""

    DONE = "done"
    REQUEUED = "requeued"
    RETRIED = "retried"


class Hooks:
    """Called by queue and reconciler; this one lets it pass. Must not raise and must not wait."""

    def depth(self, keys: int) -> None:
        """How many keys are ready and not yet taken."""

    def waited(self, seconds: float) -> None:
        """How long a key was ready before it was taken."""

    def retried(self) -> None:
        """A key came back after a failure, with a delay."""

    def reconciled(self, seconds: float, result: Result) -> None:
        """One reconcile is over."""

    def event_dropped(self) -> None:
        """An Event was given up: too many, or refused."""

    def recorded(self, before: JobFlowStatus, after: JobFlowStatus) -> None:
        """A flow's status was written, by us: what it says now and what it said."""

    def probes(self, waiting: int) -> None:
        """How many probes wait to pass."""

    def probed(self, passed: bool) -> None:
        """A pod was asked once."""
