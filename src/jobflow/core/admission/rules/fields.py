"""Rules that the traits of fields say: what is required, excludes others, or needs another."""

from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.api.flow import traits
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup, Rules, flow_with_options
from jobflow.core.violations import Reason, Violation


def required_fields_are_set(facts: FlowFacts) -> Iterator[Violation]:
    for path, owner in facts.with_options:
        yield from map(missing_field, traits.find_unset(owner, traits.Required, path))


def missing_field(found: traits.Found[traits.Required]) -> Violation:
    return Violation(found.path, Reason.REQUIRED, None, found.trait.detail)


def fields_do_not_exclude_each_other(facts: FlowFacts) -> Iterator[Violation]:
    for path, trait, value, owner, _ in facts.relations:
        if isinstance(trait, traits.NotWith) and value is not False:
            for other, detail in trait.others.items():
                if _has(owner, other):
                    yield Violation(path, Reason.FORBIDDEN, None, detail.format(other))


def fields_have_what_they_need(facts: FlowFacts) -> Iterator[Violation]:
    for path, trait, _, owner, _ in facts.relations:
        if isinstance(trait, traits.Needs) and not _has(owner, trait.other):
            yield Violation(path, Reason.FORBIDDEN, None, trait.detail)


def one_of_the_fields_is_set(facts: FlowFacts) -> Iterator[Violation]:
    first: traits.Found[traits.Relation] | None = None
    for found in facts.relations:
        if not isinstance(found.trait, traits.OneOf):
            continue
        if first is None or found.owner is not first.owner:
            first = found
        else:
            detail = f"excludes {first.json}, which is set too; keep one of {found.trait.names}"
            yield Violation(found.path, Reason.FORBIDDEN, None, detail)


def _has(owner: msgspec.Struct, json: str) -> bool:
    names = {field.json: field.name for field in traits.fields_of(type(owner))}
    value: Any = getattr(owner, names[json])
    return not (value is None or value is False)


RULES: Rules = (
    RuleGroup(flow_with_options, (required_fields_are_set,)),
    RuleGroup(
        lambda facts: facts.relations,
        (fields_do_not_exclude_each_other, fields_have_what_they_need, one_of_the_fields_is_set),
    ),
)
