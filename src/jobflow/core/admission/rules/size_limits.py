"""Rules of size: the depth of values, and the largest size of the status.

Only what is never dropped from the status counts (`core.planning.status.size_limit`).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.api.flow.control import ForEach, to_number
from jobflow.api.flow.step import Condition, Step
from jobflow.api.flow.traits import JobPart, Referring, find_set
from jobflow.api.nesting import MAX_DEPTH, way_beyond
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.job_counts import items_of_param
from jobflow.core.admission.rule import RuleGroup, Rules, every_flow
from jobflow.core.cel.references import measure_json
from jobflow.core.cel.scope import MAX_ITEMS_SIZE
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_RUNS, MAX_STEP_OUTPUTS
from jobflow.core.limits import MAX_NEXT_JOBS as MOST_NEXT
from jobflow.core.names import MAX_NAME
from jobflow.core.spec.expressions import find_named_failures, measure_fields
from jobflow.core.spec.param_values import find_vars_reference, params_of
from jobflow.core.spec.step_commands import MAX_BY_BYTES
from jobflow.core.violations import Reason, Violation, join_path
from jobflow.core.work import is_asked, may_run_steps

MAX_STORED = 3 << 19
"""Bytes of an object, as JSON, that etcd stores unless it is configured otherwise."""


def size_violations(spec: Any, stored: Any = None) -> tuple[Violation, ...]:
    """Return the violation of a spec that is too large to be stored, and larger than what is
    `stored` of it. The other rules then do not judge it, which bounds their work."""
    size = len(msgspec.json.encode(spec))
    if size <= MAX_STORED or size <= len(msgspec.json.encode(stored)):
        return ()
    detail = (
        f"{size / 2**20:.1f} MiB as JSON, but etcd stores at most 1.5 MiB of an object, with its "
        "status; split it into several objects"
    )
    return (Violation("spec", Reason.TOO_LONG, None, detail),)


def depth_violations(value: Any, path: str) -> Iterator[Violation]:
    """Yield the first list or map in the value at `path` that is too deep in its object."""
    depth_of_path = path.count(".") + path.count("[") + 1 if path else 0
    if (way := way_beyond(value, MAX_DEPTH - depth_of_path)) is not None:
        for key in way:
            path = join_path(path, key)
        detail = (
            f"nested more than {MAX_DEPTH} levels deep; flatten the value or write it as a text"
        )
        yield Violation(path, Reason.TOO_LONG, None, detail)


def flow_is_not_too_deep(facts: FlowFacts) -> Iterator[Violation]:
    """Checks the free-form values of a flow."""
    for i, param in enumerate(facts.flow.spec.params or ()):
        yield from depth_violations(param.value, f"spec.params[{i}].value")
        yield from depth_violations(param.enum, f"spec.params[{i}].enum")
    for name, claim in (facts.flow.spec.volume_claims or {}).items():
        yield from depth_violations(claim, join_path("spec.volumeClaims", name))
    for i, step in facts.steps_with_options:
        for trait in (JobPart, Referring):
            for part in find_set(step, trait):
                yield from depth_violations(part.value, f"{facts.path(i)}.{part.path}")
        if step.for_each is not None:
            yield from depth_violations(step.for_each.items, f"{facts.path(i)}.forEach.items")


MAX_STATUS = 1 << 20
"""Bytes of a flow's status (etcd takes 1.5 MiB for the whole object)."""
FIXED_STATUS = 3072 + MAX_FLOW_OUTPUTS + MOST_NEXT * (MAX_NAME + 3)
"""Bytes besides the steps: state with its message, times, progress, all outputs, nextJobs."""
_TIME = "2026-01-01T12:00:00Z"
STATUS_OF_A_STEP = max(
    len(f'"":{{"phase":"Waiting","reason":"Retrying","attempts":99,"nextAttemptTime":"{_TIME}"}},'),
    len(
        f'"":{{"phase":"Terminating","reason":"FailurePolicy","attempts":99,"abortTime":"{_TIME}"}},'
    ),
    len('"":{"phase":"Waiting","reason":"WaitingForTemplate","attempts":99,"pastAttempts":99},'),
    len('"":{"phase":"Failed","reason":"OutputsTooLarge","attempts":99,"pastAttempts":98},'),
) + len('"-r98",')
"""Bytes of a step's condition and its entry in a …Jobs list, without its first vcjob's name. Any
step may run again: its vcjob is lost, or its flow retried."""
NAMES_OF_A_STEP = 2
"""How often the status has its vcjob's name: as a key of conditions, and in a list."""
_RUN = '{"index":999,"phase":"%s","reason":"%s","attempts":%d%s},'
_RETRIED = ',"failures":100,"pastAttempts":101'
STATUS_OF_A_RUN = max(
    len(_RUN % ("Terminating", "FailurePolicy", 999, f',"abortTime":"{_TIME}"{_RETRIED}')),
    len(_RUN % ("Waiting", "CreateRefused", 999, f',"nextAttemptTime":"{_TIME}"{_RETRIED}')),
    len(_RUN % ("Failed", "OutputsTooLarge", 999, _RETRIED)),
) + len('"",')
"""Bytes of an item or repeat that runs, with its vcjob in a list."""
STATUS_OF_AN_ENDED_RUN = len(_RUN % ("Completed", "OutputsMissing", 999, _RETRIED)) + len('"",')
"""Bytes of an item or repeat that has finished; no reason of a failed run makes it longer."""
STATUS_OF_LOOPS = len(',"runs":[]') + len("Repeating") - len("Retrying")
STATUS_OF_A_CHILD = len(',"flow":"","flowError":true')
"""Bytes that a child flow adds to a step or run; its name is in no …Jobs list."""
STATUS_OF_RETRIES = len(',"job":"-r200","failures":100,"disruptions":100') + len("-r200") + 1
"""Bytes that a retry adds to a step or run, because the job has another name than the first, and
attempts after disruptions have larger numbers than `retry.limit`."""
STATUS_OF_TIME = len(f',"queueDeadline":"{_TIME}"')
"""Bytes of a limit of time, of which an attempt has one after the other."""
STATUS_OF_OWN_TIME = len(',"timeout":"876000h59m59.999999s"')
"""Bytes of a timeout that vars compute."""
STATUS_OF_AN_ANSWER = MAX_BY_BYTES + len(
    f',"approval":{{"answer":"Approve","by":"","time":"{_TIME}"}}'
)
"""Bytes of the answer to an approval; while it asks, its deadline is shorter."""
STATUS_OF_DECISIONS = len(',"decisions":{"when":false,"case":99}')
STATUS_OF_TURNS = len(',"decisions":{"taken":"1"}')
"""Bytes of the decisions about items, besides a bit for each."""
STATUS_OF_NO_ITEMS = ',"items":[]'
STATUS_OF_ITEMS = len(STATUS_OF_NO_ITEMS) + MAX_ITEMS_SIZE
"""Bytes of the items that forEach.from returned."""
STATUS_OF_OUTPUTS = len(',"outputs":') + MAX_STEP_OUTPUTS
STATUS_OF_A_PROBER = len(',"passedTargets":[]')
"""Bytes that a waiting step adds, besides names, if the probe of its targets has passed."""


def status_fits(facts: FlowFacts) -> Iterator[Violation]:
    size = least_status(facts)
    if size <= MAX_STATUS:
        return
    steps = len(facts.names)
    runs = sum(count.runs or 0 for count in facts.job_counts)
    if not runs:
        room = (MAX_STATUS - FIXED_STATUS) * steps // (size - FIXED_STATUS)
        detail = (
            f"{steps} steps, but the status of a flow has room for about {room} with names of "
            "this length (1 MiB); split the flow or shorten the names of the flow and its steps"
        )
    else:
        detail = (
            f"{steps} steps with up to {runs:,} runs, so the status may reach "
            f"{size / MAX_STATUS:.1f} MiB of 1 MiB; split the flow, or reduce "
            "forEach.parallelism, forEach.count and repeat.max (forEach.from counts as "
            f"{MAX_RUNS:,} items unless it is a param)"
        )
    yield Violation("spec.flows", Reason.TOO_MANY, max(steps, runs), detail)


def least_status(facts: FlowFacts) -> int:
    """Return the bytes of the largest status from which nothing more can be dropped."""
    steps = len(facts.names)
    characters = sum(map(len, facts.names)) + steps * (len(facts.flow_name) + 1)
    size = FIXED_STATUS + steps * STATUS_OF_A_STEP + NAMES_OF_A_STEP * characters
    for step, depends_on in facts.dependencies_with_options:
        # the targets that have passed are kept, because they may not pass again
        conditions = (depends_on.condition, *(depends_on.conditions or {}).values())
        if depends_on.probe is not None or Condition.RUNNING in conditions:
            names = sum(len(facts.names[target]) + len('"",') for target in facts.targets(step))
            size += STATUS_OF_A_PROBER + names if names else 0
    if facts.steps_with_options:
        size += _StatusOfOptions(facts).total
    readers = [step for _, step in facts.steps_with_options]
    for name, named in find_named_failures(facts.flow.spec, readers).items():
        position = facts.index.get(name)
        runs = 1 if position is None else facts.job_counts[position].runs or 1
        # after the end of the step only itself has the facts of its failure, and its items have
        # those that other items read; before that every run has them
        of_items = runs * measure_fields(named.of_items)
        retried = runs * measure_fields(named.retried)
        size += max(measure_fields(named.ended) + of_items, retried)
    return size + (STATUS_OF_OUTPUTS if facts.flow.spec.outputs else 0)


class _StatusOfOptions:
    def __init__(self, facts: FlowFacts) -> None:
        self._facts = facts
        self._params = params_of(facts.flow)
        self._sizes: dict[str, int] = {}
        """Bytes of the items by forEach.from."""
        self._taken: dict[int, int] = {}
        """Bytes of the items that steps have from their targets."""
        for i, targets in facts.takers:
            self._taken[i] = max(map(self._size_of_copy, targets), default=0)
        self.total = sum(self._of_step(i, step) for i, step in facts.steps_with_options)

    def _of_step(self, position: int, step: Step) -> int:
        count = self._facts.job_counts[position]
        step_name = len(self._facts.flow_name) + 1 + len(self._facts.names[position])
        name = step_name + len(count.longest_suffix)
        of_run = STATUS_OF_TIME if step.timeout or step.queue_timeout else 0
        of_run += STATUS_OF_OWN_TIME if find_vars_reference(step.timeout or "") else 0
        of_run += STATUS_OF_RETRIES + name if step.retry is not None else 0
        of_run += STATUS_OF_A_CHILD if may_run_steps(step) else 0
        of_run += STATUS_OF_AN_ANSWER if is_asked(step) else 0
        size = STATUS_OF_DECISIONS if step.when is not None or step.switch else 0
        # a step without a loop has no entry for a run
        if count.runs is None:
            return size + of_run
        # a repeat has one run at a time
        running = 1
        if step.for_each is not None:
            size += self._taken.get(position) or self._items(step.for_each)
            size += STATUS_OF_TURNS + count.runs // 4 if step.for_each.when is not None else 0
            running = min(max(to_number(step.for_each.parallelism) or count.runs, 1), count.runs)
        ended = max(count.runs - running, 0)
        size += STATUS_OF_LOOPS + count.runs * (name + of_run)
        return size + running * STATUS_OF_A_RUN + ended * STATUS_OF_AN_ENDED_RUN

    def _size_of_copy(self, position: int) -> int:
        each = self._facts.steps[position].for_each or ForEach()
        if each.items is not None:
            return len(STATUS_OF_NO_ITEMS) + measure_json(each.items)
        if each.from_ is not None:
            return self._items(each)
        runs = self._facts.job_counts[position].runs or 0
        return self._taken.get(position) or len(STATUS_OF_NO_ITEMS) + len("999,") * runs

    def _items(self, each: ForEach) -> int:
        if each.from_ is None or each.items is not None:
            return 0
        if each.from_ not in self._sizes:
            value = items_of_param(self._params, each.from_)
            size = MAX_ITEMS_SIZE if value is None else min(measure_json(value), MAX_ITEMS_SIZE)
            self._sizes[each.from_] = STATUS_OF_ITEMS - MAX_ITEMS_SIZE + size
        return self._sizes[each.from_]


LIMITS: Rules = (RuleGroup(every_flow, (status_fits,)),)
