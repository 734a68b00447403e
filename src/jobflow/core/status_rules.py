"""The rule of a flow's status: what it may come to has to be stored in one object.

It knows what is never dropped (`core.status_size`), and counts it as large as it may get.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.api.jobflow import Condition
from jobflow.core.flow_rules import Rule
from jobflow.core.names import MAX_NAME
from jobflow.core.next_jobs import MOST as MOST_NEXT
from jobflow.core.outline import Outline
from jobflow.core.outputs import MOST_OF_A_FLOW
from jobflow.core.violations import Reason, Violation

MAX_STATUS = 1 << 20
"""Bytes that a flow's status may come to (etcd takes 1.5 MiB for the whole object)."""
FIXED_STATUS = 3072 + MOST_OF_A_FLOW + MOST_NEXT * (MAX_NAME + 3)
"""What a status takes besides its steps: state with reason and message, times, progress, names;
all outputs; nextJobs."""
_TIME = "2026-01-01T12:00:00Z"
STATUS_OF_A_STEP = max(
    len(
        f'"":{{"phase":"Waiting","reason":"CreateRefused","attempts":1,"nextAttemptTime":"{_TIME}"}},'
    ),
    len(f'"":{{"phase":"Terminating","reason":"Cancelled","attempts":1,"abortTime":"{_TIME}"}},'),
    len('"":{"phase":"Failed","reason":"OutputsTooLarge","attempts":1},'),
) + len('"",')
"""What a step takes at least of it (`core.status_size`), in JSON, besides its vcjob's name: its
condition and an entry in one of the …Jobs lists."""
NAMES_OF_A_STEP = 2
"""How often its vcjob's name stands in it: as a key of conditions, and in a list."""
STATUS_OF_A_PROBER = len(
    f'"":{{"phase":"Waiting","reason":"CreateRefused","nextAttemptTime":"{_TIME}","passedTargets":[]}},'
)
"""The same of a step that waits with targets whose probe has passed, besides their names; its own
name stands there once."""


def status_fits(outline: Outline) -> Iterator[Violation]:
    """What the status comes to when all that may be left out of it is left out."""
    steps = len(outline.names)
    size = least_status(outline)
    if size > MAX_STATUS:
        room = (MAX_STATUS - FIXED_STATUS) * steps // (size - FIXED_STATUS)
        detail = (
            f"{steps} steps, but the status of a flow has room for about {room} with names of "
            "this length (1 MiB); split the flow or shorten the names of the flow and its steps"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, steps, detail)


def least_status(outline: Outline) -> int:
    """Bytes of the largest status that cannot be made smaller (`core.status_size`)."""
    steps = len(outline.names)
    characters = sum(map(len, outline.names)) + steps * (len(outline.flow_name) + 1)
    return (
        FIXED_STATUS
        + steps * STATUS_OF_A_STEP
        + NAMES_OF_A_STEP * characters
        + sum(
            _passed_targets(outline, step)
            for step, depends_on in outline.dependencies
            if depends_on.probe is not None or depends_on.condition == Condition.RUNNING
        )
    )


def _passed_targets(outline: Outline, step: int) -> int:
    """What a step may take more than others as long as it has not begun."""
    name = len(outline.flow_name) + 1 + len(outline.names[step])
    targets = sum(len(outline.names[target]) + len('"",') for target in outline.graph.targets[step])
    begun = STATUS_OF_A_STEP + NAMES_OF_A_STEP * name
    return max(STATUS_OF_A_PROBER + name + targets - begun, 0)


STATUS_RULES: tuple[Rule, ...] = (status_fits,)
