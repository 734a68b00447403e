"""The rule of a flow's status: what it may come to has to be stored in one object.

It knows what is never dropped (`core.status_size`), and counts it as large as it may get.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.api.control import ForEach
from jobflow.api.jobflow import Condition, Step
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.job_counts import items_of_param, params_of
from jobflow.core.admission.rule import Group, Rule, anything
from jobflow.core.cel.references import measure_json
from jobflow.core.cel.scope import MAX_ITEMS_SIZE
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_RUNS
from jobflow.core.limits import MAX_NEXT_JOBS as MOST_NEXT
from jobflow.core.names import MAX_NAME
from jobflow.core.violations import Reason, Violation

MAX_STATUS = 1 << 20
"""Bytes that a flow's status may come to (etcd takes 1.5 MiB for the whole object)."""
FIXED_STATUS = 3072 + MAX_FLOW_OUTPUTS + MOST_NEXT * (MAX_NAME + 3)
"""What a status takes besides its steps: state with reason and message, times, progress, names;
all outputs; nextJobs."""
_TIME = "2026-01-01T12:00:00Z"
STATUS_OF_A_STEP = max(
    len(f'"":{{"phase":"Waiting","reason":"Retrying","attempts":99,"nextAttemptTime":"{_TIME}"}},'),
    len(
        f'"":{{"phase":"Terminating","reason":"FailurePolicy","attempts":99,"abortTime":"{_TIME}"}},'
    ),
    len('"":{"phase":"Waiting","reason":"WaitingForTemplate","attempts":99,"pastAttempts":99},'),
    len('"":{"phase":"Failed","reason":"OutputsTooLarge","attempts":99,"pastAttempts":98},'),
) + len('"-r98",')
"""What a step takes at least of it (`core.status_size`), in JSON, besides its first vcjob's name:
its condition and an entry in one of the …Jobs lists. Any step may run again: its vcjob is lost, or
its flow retried."""
NAMES_OF_A_STEP = 2
"""How often its vcjob's name stands in it: as a key of conditions, and in a list."""
_RUN = '{"index":999,"phase":"%s","reason":"%s","attempts":%d%s},'
_RETRIED = ',"failures":100,"pastAttempts":101'
STATUS_OF_A_RUN = max(
    len(_RUN % ("Terminating", "FailurePolicy", 999, f',"abortTime":"{_TIME}"{_RETRIED}')),
    len(_RUN % ("Waiting", "CreateRefused", 999, f',"nextAttemptTime":"{_TIME}"{_RETRIED}')),
    len(_RUN % ("Failed", "OutputsTooLarge", 999, _RETRIED)),
) + len('"",')
"""The same of an item or a repeat that is under way, with its vcjob in a list."""
STATUS_OF_AN_ENDED_RUN = len(_RUN % ("Completed", "OutputsMissing", 999, _RETRIED)) + len('"",')
"""An item or repeat that has ended takes so much: no reason of a failed run makes it longer."""
STATUS_OF_LOOPS = len(',"runs":[]')
STATUS_OF_RETRIES = len(',"job":"","failures":100')
"""What a step or run has besides, once it was tried again: the name is another than the first."""
STATUS_OF_TIME = len(f',"deadline":"{_TIME}"')
STATUS_OF_DECISIONS = len(',"decisions":{"when":false,"case":99}')
STATUS_OF_ITEMS = len(',"items":[]') + MAX_ITEMS_SIZE
"""What forEach.from may have given."""
STATUS_OF_A_PROBER = len(',"passedTargets":[]')
"""What a step has besides that waits with targets whose probe has passed, and their names."""


def status_fits(facts: FlowFacts) -> Iterator[Violation]:
    """What the status comes to when all that may be left out of it is left out."""
    size = least_status(facts)
    if size <= MAX_STATUS:
        return
    steps = len(facts.names)
    runs = sum(each.runs or 0 for each in facts.planned)
    if not runs:
        room = (MAX_STATUS - FIXED_STATUS) * steps // (size - FIXED_STATUS)
        detail = (
            f"{steps} steps, but the status of a flow has room for about {room} with names of "
            "this length (1 MiB); split the flow or shorten the names of the flow and its steps"
        )
    else:
        detail = (
            f"{steps} steps with up to {runs:,} runs, and their status may come to "
            f"{size / MAX_STATUS:.1f} MiB, where there is room for 1; split the flow, or say less "
            "in forEach.parallelism, forEach.count and repeat.max (forEach.from counts as "
            f"{MAX_RUNS:,} items where it is no parameter)"
        )
    yield Violation("spec.flows", Reason.TOO_MANY, max(steps, runs), detail)


def least_status(facts: FlowFacts) -> int:
    """Bytes of the largest status that cannot be made smaller (`core.status_size`)."""
    steps = len(facts.names)
    characters = sum(map(len, facts.names)) + steps * (len(facts.flow_name) + 1)
    return (
        FIXED_STATUS
        + steps * STATUS_OF_A_STEP
        + NAMES_OF_A_STEP * characters
        + sum(
            _passed_targets(facts, step)
            for step, depends_on in facts.dependencies
            if depends_on.probe is not None or depends_on.condition == Condition.RUNNING
        )
        + (_More(facts).all() if facts.steps_with_options else 0)
    )


class _More:
    """What steps may take by what was decided about them, their runs, retries and timeouts."""

    def __init__(self, facts: FlowFacts) -> None:
        self._facts = facts
        self._params = params_of(facts.flow)
        self._sizes: dict[str, int] = {}

    def all(self) -> int:
        """Of all steps together."""
        return sum(self._of(i, step) for i, step in self._facts.steps_with_options)

    def _of(self, position: int, step: Step) -> int:
        planned = self._facts.planned[position]
        step_name = len(self._facts.flow_name) + 1 + len(self._facts.names[position])
        name = step_name + len(planned.longest)
        each = STATUS_OF_TIME if step.timeout is not None else 0
        each += STATUS_OF_RETRIES + name if planned.retries else 0
        more = STATUS_OF_DECISIONS if step.when is not None or step.switch else 0
        if planned.runs is None:
            return more + each
        at_once = 1
        if step.for_each is not None:
            more += self._items(step.for_each)
            at_once = min(max(step.for_each.parallelism or planned.runs, 1), planned.runs)
        ended = max(planned.runs - at_once, 0)
        more += STATUS_OF_LOOPS + planned.runs * (name + each)
        return more + at_once * STATUS_OF_A_RUN + ended * STATUS_OF_AN_ENDED_RUN

    def _items(self, each: ForEach) -> int:
        """What `from` gives, which is remembered."""
        if each.from_ is None or each.items is not None:
            return 0
        if each.from_ not in self._sizes:
            self._sizes[each.from_] = self._size(each.from_)
        return self._sizes[each.from_]

    def _size(self, expression: str) -> int:
        value = items_of_param(self._params, expression)
        if value is None:
            return STATUS_OF_ITEMS
        return STATUS_OF_ITEMS - MAX_ITEMS_SIZE + min(measure_json(value), MAX_ITEMS_SIZE)


def _passed_targets(facts: FlowFacts, step: int) -> int:
    """What a step may take more than others as long as it has not begun."""
    targets = facts.graph.targets[step]
    names = sum(len(facts.names[target]) + len('"",') for target in targets)
    return STATUS_OF_A_PROBER + names if names else 0


STATUS_RULES = (Group[Rule](anything, (status_fits,)),)
