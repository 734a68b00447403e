"""How many vcjobs a step may come to have by what it says, and their names. It refuses nothing.

A name is `<flow>-<step>[-<index>][-r<n>]`. What nobody plans (a lost vcjob that is made again, a
retry command) takes a name that is free at that moment and is no matter of admission.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.limits import MAX_RUNS

MOST_RETRIES = 100
"""Of `retry.limit`: with the longest pause, 5 minutes, they take eight hours. What fails a hundred
times in a row is not worth the next attempt, and each leaves a vcjob behind."""

_PARAM = re.compile(r"\s*params(?:\.(\w+)|\[(?:'([^'\\]+)'|\"([^\"\\]+)\")\])\s*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,2}")
_INDEX = re.compile(r"(.+)-(0|[1-9][0-9]{0,2})")
_RETRY = re.compile(r"(.+)-r([1-9][0-9]{0,2})")


class Planned(NamedTuple):
    """What a step may come to."""

    runs: int | None = None
    """Items or repeats at most; None: it has no loop, and one run."""
    retries: int = 0
    """Attempts after the first, of each run."""

    @property
    def longest(self) -> str:
        """The longest that may stand behind the step in a vcjob's name: `-999-r3`."""
        index = f"-{self.runs - 1}" if self.runs else ""
        return f"{index}-r{self.retries}" if self.retries else index

    def has(self, index: int | None, retry: int) -> bool:
        """Whether it may make the vcjob of this run and attempt."""
        if index is None or self.runs is None:
            return index is None and self.runs is None and retry <= self.retries
        return index < self.runs and retry <= self.retries


ONE = Planned()
"""A step without loops and retries."""


def planned(flow: JobFlow, steps: list[Step]) -> list[Planned]:
    """Of each of these steps of the flow. What is out of bounds counts as the bound."""
    params = params_of(flow)
    found = [ONE] * len(steps)
    shared: dict[tuple[int | None, int], Planned] = {(None, 0): ONE}
    for i, step in enumerate(steps):
        if step.retry is None and step.for_each is None and step.repeat is None:
            continue
        key = _runs(step, params), _within(_limit(step), 0, MOST_RETRIES)
        if (known := shared.get(key)) is None:
            known = shared[key] = Planned(*key)
        found[i] = known
    return found


def _limit(step: Step) -> int:
    return (step.retry.limit or 0) if step.retry is not None else 0


def _runs(step: Step, params: Mapping[str, Any]) -> int | None:
    if (each := step.for_each) is not None:
        if each.items is not None:
            return _within(len(each.items), 0, MAX_RUNS)
        if each.count is not None:
            return _within(each.count, 0, MAX_RUNS)
        items = items_of_param(params, each.from_ or "")
        return MAX_RUNS if items is None else _within(len(items), 0, MAX_RUNS)
    if step.repeat is not None:
        most = step.repeat.max
        return MAX_RUNS if most is None else _within(most, 1, MAX_RUNS)
    return None


def params_of(flow: JobFlow) -> Mapping[str, Any]:
    """The values of the flow's parameters by name; of several with one name the first."""
    return {param.name: param.value for param in reversed(flow.spec.params or [])}


def items_of_param(params: Mapping[str, Any], expression: str) -> list[Any] | None:
    """The list that an expression gives, where it is nothing but a parameter; None for any other,
    which only a run can tell."""
    found = _PARAM.fullmatch(expression)
    value = params.get(found[1] or found[2] or found[3]) if found is not None else None
    return value if isinstance(value, list) else None


def _within(number: int, least: int, most: int) -> int:
    return max(least, min(number, most))


def origins(name: str) -> Iterator[tuple[str, int | None, int]]:
    """(step, index, retry) of each way in which a name could be made for a step of another name:
    `a-0-r1` for run 0 of `a`, and for `a-0`."""
    retry = 0
    if (found := _RETRY.fullmatch(name)) is not None:
        name, retry = found[1], int(found[2])
        yield name, None, retry
    if (found := _INDEX.fullmatch(name)) is not None:
        yield found[1], int(found[2]), retry


def heads(text: str) -> Iterator[tuple[int | None, int, str]]:
    """(index, retry, rest) of each way in which what follows a step's name and a dash may begin:
    `0-r1-main` as run 0 with a rest `r1-main`, and as its second attempt with a rest `main`."""
    yield None, 0, text
    yield from _retry_head(None, text)
    first, dash, rest = text.partition("-")
    if dash and _NUMBER.fullmatch(first):
        yield int(first), 0, rest
        yield from _retry_head(int(first), rest)


def _retry_head(index: int | None, text: str) -> Iterator[tuple[int | None, int, str]]:
    first, dash, rest = text.partition("-")
    if dash and first[:1] == "r" and first != "r0" and _NUMBER.fullmatch(first[1:]):
        yield index, int(first[1:]), rest
