"""Number of vcjobs that a step may create, and their names: `<flow>-<step>[-<index>][-r<n>]`.

A vcjob that is created again, after a disruption or by a retry command, takes a free name and does
not count.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jobflow.api.flow.control import to_number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.core.limits import MAX_RUNS
from jobflow.core.spec.param_values import params_of

MOST_RETRIES = 100
"""Maximum of `retry.limit`: with the longest pause, 5 minutes, a hundred retries take eight hours,
and each leaves a vcjob behind."""
MOST_DISRUPTIONS = 100
"""Maximum of `retry.disruptions`: a step that is evicted again and again must end."""

_PARAM = re.compile(r"\s*params(?:\.(\w+)|\[(?:'([^'\\]+)'|\"([^\"\\]+)\")\])\s*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,2}")
_INDEX = re.compile(r"(.+)-(0|[1-9][0-9]{0,2})")
_RETRY = re.compile(r"(.+)-r([1-9][0-9]{0,2})")


class JobCount(NamedTuple):
    """The number of vcjobs that a step may create."""

    runs: int | None = None
    """Maximum of items or repeats; None: no loop, one run."""
    retries: int = 0
    """Attempts after the first, for each run."""

    @property
    def longest_suffix(self) -> str:
        """The longest suffix of the step in a vcjob's name: `-999-r3`."""
        index = f"-{self.runs - 1}" if self.runs else ""
        return f"{index}-r{self.retries}" if self.retries else index

    def has(self, index: int | None, retry: int) -> bool:
        """Whether the step may create the vcjob of this run and attempt."""
        if index is None or self.runs is None:
            return index is None and self.runs is None and retry <= self.retries
        return index < self.runs and retry <= self.retries


ONE_JOB = JobCount()


def job_counts(
    flow: JobFlow, steps: Sequence[Step], takers: Iterable[tuple[int, Sequence[int]]] = ()
) -> list[JobCount]:
    """Return the count of each step; a value out of bounds counts as the bound. `takers`: the steps
    that have the items of their targets, in running order, and these targets."""
    params = params_of(flow)
    counts = [ONE_JOB] * len(steps)
    shared: dict[tuple[int | None, int], JobCount] = {(None, 0): ONE_JOB}
    for i, step in enumerate(steps):
        if step.retry is None and step.for_each is None and step.repeat is None:
            continue
        # retry.limit may be a param whose value is no number, which has a fault of its own
        retries = (to_number(step.retry.limit) or 0) if step.retry is not None else 0
        key = _runs(step, params), _clamp(retries, 0, MOST_RETRIES)
        counts[i] = shared.setdefault(key, JobCount(*key))
    # in running order, so that the items of a target are counted already
    for i, targets in takers:
        runs = max((counts[target].runs or 0 for target in targets), default=0)
        counts[i] = JobCount(runs, counts[i].retries)
    return counts


def _runs(step: Step, params: Mapping[str, Any]) -> int | None:
    if (each := step.for_each) is not None:
        if each.items is not None:
            return _clamp(len(each.items), 0, MAX_RUNS)
        if each.count is not None:
            return _clamp(to_number(each.count) or 0, 0, MAX_RUNS)
        # only a list that is a param is known before the flow runs
        items = items_of_param(params, each.from_ or "")
        return MAX_RUNS if items is None else _clamp(len(items), 0, MAX_RUNS)
    if step.repeat is not None:
        limit = to_number(step.repeat.max)
        return MAX_RUNS if limit is None else _clamp(limit, 1, MAX_RUNS)
    return None


def items_of_param(params: Mapping[str, Any], expression: str) -> list[Any] | None:
    """Return the list of an expression that is just a param; None for any other expression."""
    found = _PARAM.fullmatch(expression)
    value = params.get(found[1] or found[2] or found[3]) if found is not None else None
    return value if isinstance(value, list) else None


def _clamp(number: int, least: int, most: int) -> int:
    return max(least, min(number, most))


def origins(name: str) -> Iterator[tuple[str, int | None, int]]:
    """Yield (step, index, retry) of each other step that could create the vcjob of step `name`:
    for `a-0-r1`, run 0 of `a`, and `a-0`."""
    retry = 0
    if (found := _RETRY.fullmatch(name)) is not None:
        name, retry = found[1], int(found[2])
        yield name, None, retry
    if (found := _INDEX.fullmatch(name)) is not None:
        yield found[1], int(found[2]), retry


def prefixes(text: str) -> Iterator[tuple[int | None, int, str]]:
    """Yield (index, retry, rest) of each reading of the text after a step's name and a dash:
    `0-r1-main` as run 0 with the rest `r1-main`, and as its second attempt with the rest `main`."""
    yield None, 0, text
    yield from _retry_prefix(None, text)
    first, dash, rest = text.partition("-")
    if dash and _NUMBER.fullmatch(first):
        yield int(first), 0, rest
        yield from _retry_prefix(int(first), rest)


def _retry_prefix(index: int | None, text: str) -> Iterator[tuple[int | None, int, str]]:
    first, dash, rest = text.partition("-")
    if dash and first[:1] == "r" and first != "r0" and _NUMBER.fullmatch(first[1:]):
        yield index, int(first[1:]), rest
