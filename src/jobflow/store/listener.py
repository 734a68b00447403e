"""Who wants to be told of what changes in the store. It tells nothing itself."""

from __future__ import annotations

from typing import Protocol

from jobflow.api.command import Command
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod


class Listener(Protocol):
    """Told of every change, after the store has it. (None, new) added, (last, None) deleted."""

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None: ...

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None: ...

    def job_changed(self, old: Job | None, new: Job | None) -> None: ...

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Only of pods that the store keeps (`store.pods`)."""

    def command_changed(self, command: Command) -> None:
        """A Command on a flow came, changed or went."""
