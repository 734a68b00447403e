"""The work that is left to judge an object: one budget for a flow and all flows in it.

The controller judges each child flow again when it is created, so whatever the budget leaves
unjudged in one is judged then. The verdict warns of it.
"""

from __future__ import annotations

from typing import Any

from jobflow.core.cel.budget import MAX_STEPS
from jobflow.core.cel.references import ReferenceRoom
from jobflow.core.text import join_names

MAX_PARSED = 131_072
"""Characters of the expressions that are parsed."""
TRIAL_STEPS = MAX_STEPS
"""Steps of the expressions that are tried."""
MAX_TRIED_ITEMS = 100_000
"""Items that trials of references look at."""
MAX_JUDGED_CHILDREN = 2_000
"""Child flows, as they are written, that are judged."""
MAX_CHILD_REFERENCES = 2 << 20
"""Bytes of JSON that the references in child flows may expand to."""
MAX_MERGED = 8 << 20
"""Bytes of JSON of the specs that layers are merged onto: 2,500 steps of 3 KiB, about a second."""
MAX_CHILD_TASKS = 100_000
"""Tasks of the templates that child flows run, counted in each flow."""


class TreeBudget:
    """The work that is left. A part that is spent stays so; flows are judged in order."""

    characters = MAX_PARSED
    trial_steps = TRIAL_STEPS
    children = MAX_JUDGED_CHILDREN
    merged = MAX_MERGED
    tasks = MAX_CHILD_TASKS

    def __init__(self) -> None:
        self.tried_items = MAX_TRIED_ITEMS
        self.references = ReferenceRoom(MAX_CHILD_REFERENCES)
        self.plain: dict[tuple[str, int, bool], Any] = {}
        """The specs of templates without layers, which flows with equal jobDefaults share."""
        self._unjudged: dict[str, None] = {}

    def leave_out(self, what: str, level: int) -> None:
        """Note what stays unjudged in a flow of a level: a noun in the plural."""
        self._unjudged[f"{what} of child flows" if level > 1 else what] = None

    @property
    def warning(self) -> str:
        """The parts that are not judged, or ""."""
        if not self._unjudged:
            return ""
        return (
            f"this flow is too large to be judged as a whole: some {join_names([*self._unjudged])} "
            "were not checked; each child flow is checked before it starts, and each job when "
            "the API server takes it"
        )
