"""Rules of `dependsOn.items`: dependencies of single items (docs/decisions/matching-items.md)."""

from collections.abc import Iterator

from jobflow.api.flow.dependencies import ItemDependency
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.spec.readiness import get_probe
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation


def items_are_matched(facts: FlowFacts) -> Iterator[Violation]:
    for i, depends_on in facts.matching:
        path, word = f"{facts.path(i)}.dependsOn.items", depends_on.items
        if word != ItemDependency.MATCHING:
            detail = list_supported(word, ItemDependency)
            yield Violation(path, Reason.NOT_SUPPORTED, word, detail)
        elif get_probe(facts.steps[i]) is not None:
            detail = "excludes probe, which checks one job of each target; remove one of them"
            yield Violation(path, Reason.FORBIDDEN, None, detail)
        elif not any(facts.steps[target].for_each is not None for target in facts.targets(i)):
            detail = "no target has forEach, so there are no items to match; remove it"
            yield Violation(path, Reason.INVALID, word, detail)


MATCHING_RULES = (Group[Rule](lambda facts: facts.matching, (items_are_matched,)),)
