"""Rules of flows, and the groups that run them.

A rule is a generator of findings. A group names the part of a flow that its rules check, such as
the probes, and is skipped for a flow without that part, because a rule that finds nothing to check
takes as long as one that does (docs/decisions/rules-passed-by.md).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.violations import MAX_FINDINGS, FieldWarning, Violation

R = TypeVar("R")
T = TypeVar("T")

Rule = Callable[[FlowFacts], Iterator[Violation]]
WarningRule = Callable[[FlowFacts], Iterator[str]]
FieldWarningRule = Callable[[FlowFacts], Iterator[FieldWarning]]


class RuleGroup(NamedTuple, Generic[R]):
    """Rules of one part of a flow. They find nothing in a flow without that part."""

    about: Callable[[FlowFacts], object]
    """Return the part; the rules are skipped if it is empty."""
    rules: tuple[R, ...]


Rules: TypeAlias = tuple[RuleGroup[Rule], ...]


def findings(
    groups: Iterable[RuleGroup[Callable[[FlowFacts], Iterator[T]]]], facts: FlowFacts
) -> list[T]:
    """Return the first MAX_FINDINGS findings of the rules, in the order of the rules."""
    found = (rule(facts) for about, rules in groups if about(facts) for rule in rules)
    return list(islice(chain.from_iterable(found), MAX_FINDINGS))


def every_flow(facts: FlowFacts) -> bool:
    return True


def flow_with_options(facts: FlowFacts) -> bool:
    return not facts.is_plain
