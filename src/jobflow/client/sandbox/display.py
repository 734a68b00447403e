"""Where flows are shown while they run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jobflow.api.flow.jobflow import JobFlow


class Display(AbstractContextManager["Display"]):
    """Shows nothing; its subclasses show flows. A context manager while the flows run."""

    shows_children = False
    """Whether the child flows of the flows are shown too."""

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, flow: JobFlow) -> None:
        """Show the flow as it is now."""

    def show_child(self, flow: JobFlow) -> None:
        """Show a child flow as it is now, below the flow that runs it."""

    def remove(self, flow: JobFlow) -> None:
        """Show that the flow was deleted."""
