"""Tasks whose failure does not fail Argo's workflow.

The tasks at the end of all branches run in spite of such a failure. A task that does not run has
the phase of what it depends on.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from jobflow.migrate.steps.depends import Dependencies

_MOST_TERMS = 300_000
"""Terms of dependencies that are tried for all tasks of a template."""


class TooManyTermsError(Exception):
    """The dependencies are too many to find the tasks that are forgiven."""


def forgiven(tasks: Mapping[str, Dependencies]) -> set[str]:
    """Return the tasks whose failure alone does not fail the workflow, given the dependencies of
    all tasks by name. Raises TooManyTermsError."""
    outcomes = _Outcomes(tasks)
    followed = [name for name in tasks if name in outcomes.followers]
    return {name for name in followed if outcomes.end_well_without(name)}


class _Outcomes:
    """The ends of all tasks if none fails, and how they change if one does."""

    def __init__(self, tasks: Mapping[str, Dependencies]) -> None:
        self.followers: dict[str, list[str]] = {}
        for name, depends in tasks.items():
            for before in depends.tasks:
                self.followers.setdefault(before, []).append(name)
        self._tasks = tasks
        self._names = in_order(tasks)
        self._order = {name: place for place, name in enumerate(self._names)}
        self._terms_left = _MOST_TERMS + sum(len(each.terms) for each in tasks.values())
        self._fatal = {*self._fatal_ones()}
        self._usual: dict[str, str] = {}
        for name in self._names:
            self._usual[name] = "Succeeded" if self._runs(name, self._usual) else "Omitted"

    def end_well_without(self, failed: str) -> bool:
        """Whether Argo's workflow succeeds if only this task fails, and those that have to fail
        before it runs. Only tasks behind a changed one are looked at."""
        failing = {failed, *self._tasks[failed].needs_failure_of()}
        if failing & self._fatal:
            return False
        given, ends = frozenset(failing), ChainMap(dict.fromkeys(failing, "Failed"), self._usual)
        pending = [self._order[each] for name in failing for each in self.followers.get(name, ())]
        heapify(pending)
        while pending:
            place = heappop(pending)
            name = self._names[place]
            if (pending and pending[0] == place) or name in given:
                continue
            runs = self._runs(name, ends)
            ends[name] = "Succeeded" if runs else "Omitted"
            if not runs and not failing.isdisjoint(self._tasks[name].tasks):
                failing.add(name)
                if name in self._fatal:
                    return False
            if name in failing or ends[name] != self._usual[name]:
                for follower in self.followers.get(name, ()):
                    heappush(pending, self._order[follower])
        return True

    def _fatal_ones(self) -> Iterator[str]:
        """Yield the tasks without whose success no task of some branch behind them runs."""
        required = {name: depends.required() for name, depends in self._tasks.items()}
        fatal: set[str] = set()
        for name in reversed(self._names):
            after = self.followers.get(name, ())
            if not after or any(each in fatal and name in required[each] for each in after):
                fatal.add(name)
                yield name

    def _runs(self, name: str, ends: Mapping[str, str]) -> bool:
        depends = self._tasks[name]
        self._terms_left -= len(depends.terms)
        if self._terms_left < 0:
            raise TooManyTermsError
        return depends.holds(ends)


def in_order(tasks: Mapping[str, Dependencies]) -> list[str]:
    """Return the names, each after those that it depends on; as they are written if tasks depend on
    each other in a cycle, which lint reports."""
    try:
        return [*TopologicalSorter({n: each.tasks for n, each in tasks.items()}).static_order()]
    except CycleError:
        return [*tasks]
