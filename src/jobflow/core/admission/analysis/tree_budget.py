"""The work that is left to judge an object: one budget for a flow and all flows in it.

The controller judges each child flow again when it is created, so whatever the budget leaves
unjudged in one is judged then. The verdict warns of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobflow.core.cel.language.budget import MAX_STEPS
from jobflow.core.cel.references import ReferenceRoom
from jobflow.core.text import join_names

if TYPE_CHECKING:
    from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedSpec

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


@dataclass(slots=True)
class TreeBudget:
    """What is left. A part that is spent stays so, in the order in which flows are judged."""

    trial_steps: int = TRIAL_STEPS
    tried_items: int = field(default_factory=lambda: MAX_TRIED_ITEMS)
    children: int = MAX_JUDGED_CHILDREN
    references: ReferenceRoom = field(default_factory=lambda: ReferenceRoom(MAX_CHILD_REFERENCES))
    merged: int = MAX_MERGED
    tasks: int = MAX_CHILD_TASKS
    plain: dict[tuple[str, int, bool], ResolvedSpec | None] = field(default_factory=dict)
    """The specs of templates without layers, which flows with equal defaults share."""
    _unjudged: dict[str, None] = field(default_factory=dict)

    def leave_out(self, what: str, level: int) -> None:
        """Note what stays unjudged in a flow of a level: a noun in the plural."""
        self._unjudged[f"{what} of child flows" if level > 1 else what] = None

    def warnings(self) -> Iterator[str]:
        """Yield what is unjudged."""
        if self._unjudged:
            yield (
                f"too large to be judged as a whole: some {join_names([*self._unjudged])} were "
                "not checked; each child flow is checked when it is created, and a job when it is "
                "sent to the API server"
            )
