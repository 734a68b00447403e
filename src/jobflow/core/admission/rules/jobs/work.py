"""Rules of what a step or a case runs: one thing, or no job (docs/decisions/approvals.md), and of
its env. `patches` checks that it makes a valid job, `child_flows` has rules of child flows."""

import re
from collections.abc import Iterator, Sequence

from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Runs, WorkKind, fields_without, find_without
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.cel.references import has_reference
from jobflow.core.manifests.layers import is_source, works_of
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation, join_path
from jobflow.core.work import work_of

_VARIABLE = re.compile(r"[ -<>-~]+")
"""Names of variables in Kubernetes 1.34 and later: printable ASCII characters without `=`."""
_WITHOUT = {kind: tuple(fields_without(Step, kind)) for kind in WorkKind}
_SOURCES = ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")


def steps_run_one_thing(facts: FlowFacts) -> Iterator[Violation]:
    for owner in facts.owners:
        if not isinstance(owner.written, Step):
            continue
        works = works_of(owner.written)
        if owner.written.switch is not None:
            for field in works:
                yield Violation(
                    f"{owner.path}.{field}",
                    Reason.FORBIDDEN,
                    None,
                    f"each case of switch names its {field}; a case without one runs the template "
                    "with the name of the step",
                )
        elif work_of(owner.written).has_objects:  # the others have a rule of their own
            yield from _besides(works, owner.path)


def cases_run_one_thing(facts: FlowFacts) -> Iterator[Violation]:
    for i, at, case in facts.cases:
        path = f"{facts.path(i)}.switch[{at}]"
        works, work = works_of(case), work_of(facts.steps[i], case)
        yield from _besides(works, path)
        for field, *_ in find_without(case, work.kind) if work.at_once else ():
            if field not in works:
                detail = f"excludes {work.kind}: a case that {work.does} runs no job; remove it"
                yield Violation(f"{path}.{field}", Reason.FORBIDDEN, None, detail)


def _besides(works: Sequence[str], path: str) -> Iterator[Violation]:
    for field in works[1:]:
        detail = f"excludes {works[0]}, which is set too; keep one of them"
        yield Violation(f"{path}.{field}", Reason.FORBIDDEN, None, detail)


def variables_have_names(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        for name in step.env or ():
            if has_reference(name):
                detail = "the name of a variable cannot have a reference"
            elif not _VARIABLE.fullmatch(name):
                detail = 'the name of a variable has printable ASCII characters except "="'
            else:
                continue
            at = join_path(f"{facts.path(i)}.env", name)
            yield Violation(at, Reason.INVALID, name, detail)


def variables_have_values(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        for name, value in (step.env or {}).items():
            if isinstance(value, dict) and not is_source(value):
                source = next((key for key in _SOURCES if key in value), "…")
                detail = f"a text, a number, a boolean, or {{valueFrom: {{{source}: …}}}}"
                at = join_path(f"{facts.path(i)}.env", name)
                yield Violation(at, Reason.INVALID, value, detail)


def steps_without_objects_run_nothing(facts: FlowFacts) -> Iterator[Violation]:
    for i, work in facts.without_objects:
        step, refused = facts.steps[i], _WITHOUT[work.kind]
        of_cases = work_of(step).has_objects
        # neither those that are not set nor those that are false
        found = [
            (field.json, trait)
            for field, trait in refused
            if getattr(step, field.name) and not (of_cases and field.get(Runs) == Runs())
        ]
        outer = {field.json for field, _ in refused}
        below = ((path, trait) for path, trait, *_ in find_without(step, work.kind))
        found += [each for each in below if re.split(r"\W", each[0])[0] not in outer]
        for field, trait in found:
            advice = trait.instead.get(work.kind, "move it to a step that depends on this one")
            detail = f"excludes {work.kind}: a step that {work.does} runs no job; {advice}"
            yield Violation(f"{facts.path(i)}.{field}", Reason.FORBIDDEN, None, detail)


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
    # a flow that was cancelled must end
    for i, approval in facts.approvals:
        if i >= len(facts.flows) and approval.timeout is None:
            detail = "in finally an approval needs a timeout, because the flow must end"
            yield Violation(f"{facts.path(i)}.approval.timeout", Reason.REQUIRED, None, detail)


def probes_check_objects(facts: FlowFacts) -> Iterator[Violation]:
    works = {facts.names[i]: work for i, work in facts.without_objects}
    for i, _ in facts.probes:
        target = next((name for name in facts.steps[i].targets if name in works), None)
        if target is not None:
            detail = (
                f'the target "{target}" {works[target].does} and has no pods; depend on it in a '
                "step of its own"
            )
            path = f"{facts.path(i)}.dependsOn.probe"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.without_objects,
        (
            steps_without_objects_run_nothing,
            probes_check_objects,
            approvals_have_a_known_default,
            approvals_in_finally_end,
        ),
    ),
    RuleGroup(lambda facts: facts.cases, (cases_run_one_thing,)),
    RuleGroup(
        lambda facts: facts.owners,
        (steps_run_one_thing, variables_have_names, variables_have_values),
    ),
)
