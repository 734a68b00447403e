"""Rules of spec.concurrency: a group whose name is known when the flow is created, and a limit."""

from collections.abc import Iterator

import msgspec

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.names.places import NO_STEP
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.references import find_references
from jobflow.core.spec.concurrency import resolve_group
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation

MAX_GROUP = 253
"""Characters of the name of a group."""
_PATH = "spec.concurrency"
_VALUES = frozenset({"params", "flow"})


def groups_have_names(facts: FlowFacts) -> Iterator[Violation]:
    concurrency, path = facts.flow.spec.concurrency, f"{_PATH}.group"
    if concurrency is None or not concurrency.group:
        return  # the name is Required
    known = True
    for _, reference in find_references(concurrency.group, path):
        if reference.root in _VALUES:
            scope = facts.expressions.scope
            detail = scope.reference_fault(NO_STEP, reference.root, reference.keys) or ""
        else:
            detail = "the group of a flow is known before it starts: only params have a value"
        if detail:
            known = False
            yield Violation(path, Reason.INVALID, f"$({reference.path})", detail)
    if known:
        yield from _name_faults(resolve_group(facts.flow), concurrency.group, path)


def _name_faults(found: object, written: str, path: str) -> Iterator[Violation]:
    if isinstance(found, EvaluationFailure):
        yield Violation(path, Reason.INVALID, written, found.message)
        return
    name = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    if not name:
        yield Violation(path, Reason.INVALID, written, "its references make an empty name")
    elif len(name) > MAX_GROUP:
        detail = f"{len(name)} characters, but the name of a group has at most {MAX_GROUP}"
        yield Violation(path, Reason.TOO_LONG, None, detail)


def limits_of_groups_are_positive(facts: FlowFacts) -> Iterator[Violation]:
    concurrency = facts.flow.spec.concurrency
    limit = None if concurrency is None else concurrency.limit
    if limit is not None and limit < 1:
        detail = "at least 1; leave it out for 1"
        yield Violation(f"{_PATH}.limit", Reason.INVALID, limit, detail)


def policies_of_groups_exist(facts: FlowFacts) -> Iterator[Violation]:
    concurrency, known = facts.flow.spec.concurrency, [*ConcurrencyPolicy]
    policy = None if concurrency is None else concurrency.policy
    if policy is not None and policy not in known:
        detail = list_supported(policy, known)
        yield Violation(f"{_PATH}.policy", Reason.NOT_SUPPORTED, policy, detail)


CONCURRENCY_RULES = (
    Group[Rule](
        lambda facts: facts.flow.spec.concurrency,
        (groups_have_names, limits_of_groups_are_positive, policies_of_groups_exist),
    ),
)
