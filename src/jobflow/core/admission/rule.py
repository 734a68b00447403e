"""Rules of flows, and the groups that run them.

A rule is a generator of findings. A group names the column of the facts that its rules look at, and
does not run for a flow whose column is empty: a rule without anything to look at costs a small flow
as much as one that looks (docs/decisions/rules-passed-by.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.violations import MAX_FINDINGS, FieldWarning, Violation

R = TypeVar("R")
T = TypeVar("T")

Rule = Callable[[FlowFacts], Iterator[Violation]]
WarningRule = Callable[[FlowFacts], Iterator[str]]
FieldWarningRule = Callable[[FlowFacts], Iterator[FieldWarning]]


class Group(NamedTuple, Generic[R]):
    """Rules of one subject. They find nothing in a flow without that subject."""

    about: Callable[[FlowFacts], object]
    """Return the subject, a column of the facts."""
    rules: tuple[R, ...]


def findings(
    groups: Iterable[Group[Callable[[FlowFacts], Iterator[T]]]], facts: FlowFacts
) -> list[T]:
    """Return the first MAX_FINDINGS findings of the rules, in the order of the rules."""
    found = (rule(facts) for about, rules in groups if about(facts) for rule in rules)
    return list(islice(chain.from_iterable(found), MAX_FINDINGS))


def every_flow(facts: FlowFacts) -> bool:
    """Return True: the subject of rules that look at every flow."""
    return True
