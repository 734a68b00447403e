"""Rules of steps that wait for approval (docs/decisions/approvals.md)."""

from collections.abc import Iterator

from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind, fields_without
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation

_OTHERS = tuple(fields_without(Step, WorkKind.APPROVAL))


def approvals_run_nothing(facts: FlowFacts) -> Iterator[Violation]:
    for i, _ in facts.approvals:
        for field, trait in _OTHERS:
            if not getattr(facts.steps[i], field.name):
                continue  # not set, or set to false
            advice = trait.instead.get(
                WorkKind.APPROVAL, "move it to a step that depends on this one"
            )
            detail = f"excludes approval: a step that waits for approval runs no job; {advice}"
            yield Violation(f"{facts.path(i)}.{field.json}", Reason.FORBIDDEN, None, detail)


def approvals_have_a_known_default(facts: FlowFacts) -> Iterator[Violation]:
    for i, approval in facts.approvals:
        path = f"{facts.path(i)}.approval.default"
        if (word := approval.default) is None:
            continue
        if word not in set(ApprovalAnswer):
            detail = list_supported(word, ApprovalAnswer)
            yield Violation(path, Reason.NOT_SUPPORTED, word, detail)
        elif approval.timeout is None:
            detail = "the answer once timeout is over, which is not set; set it too, or remove this"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


def approvals_in_finally_end(facts: FlowFacts) -> Iterator[Violation]:
    """A flow that was cancelled must end."""
    for i, approval in facts.approvals:
        if i >= len(facts.flows) and approval.timeout is None:
            detail = "in finally an approval needs a timeout, because the flow must end"
            yield Violation(f"{facts.path(i)}.approval.timeout", Reason.REQUIRED, None, detail)


def probes_do_not_check_approvals(facts: FlowFacts) -> Iterator[Violation]:
    names = {facts.names[i] for i, _ in facts.approvals}
    for i, _ in facts.probes:
        target = next((name for name in facts.steps[i].targets if name in names), None)
        if target is not None:
            detail = (
                f'the target "{target}" waits for approval and has no pods; depend on it in a step '
                "of its own"
            )
            path = f"{facts.path(i)}.dependsOn.probe"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


APPROVAL_RULES = (
    Group[Rule](
        lambda facts: facts.approvals,
        (
            approvals_run_nothing,
            approvals_have_a_known_default,
            approvals_in_finally_end,
            probes_do_not_check_approvals,
        ),
    ),
)
