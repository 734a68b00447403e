"""What a rule of flows is, and which are passed by together. It holds none itself.

Most flows use few of the primitives, and a rule that finds nothing to look at costs a small flow
as much as one that looks (docs/decisions/rules-passed-by.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.violations import MAX_FINDINGS, Violation

R = TypeVar("R")
T = TypeVar("T")

Rule = Callable[[FlowFacts], Iterator[Violation]]
Suspicion = Callable[[FlowFacts], Iterator[str]]


class Group(NamedTuple, Generic[R]):
    """Rules, or suspicions, about one thing. They find nothing in a flow that has none of it."""

    about: Callable[[FlowFacts], object]
    """What of a flow they look at; a column of the facts."""
    rules: tuple[R, ...]


def findings(
    groups: Iterable[Group[Callable[[FlowFacts], Iterator[T]]]], facts: FlowFacts
) -> list[T]:
    """Return the first MAX_FINDINGS findings of the rules, in the order of the rules."""
    found = (rule(facts) for about, rules in groups if about(facts) for rule in rules)
    return list(islice(chain.from_iterable(found), MAX_FINDINGS))


def anything(facts: FlowFacts) -> bool:
    """What rules are about that every flow is held against."""
    return True
