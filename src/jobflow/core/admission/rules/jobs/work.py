"""Rules of what a step or a case runs, and of env. Whether it makes a valid job: `patches`."""

import re
from collections.abc import Iterator

from jobflow.api.flow.step import Step
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.references import has_reference
from jobflow.core.manifests.layers import is_source, works_of
from jobflow.core.violations import Reason, Violation, join_path

_VARIABLE = re.compile(r"[ -<>-~]+")
"""Names of variables in Kubernetes 1.34 and later: printable ASCII characters without `=`."""
_SOURCES = ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")


def steps_run_one_thing(facts: FlowFacts) -> Iterator[Violation]:
    """Beside `switch`, the cases say what runs."""
    for owner in facts.owners:
        works = works_of(owner.written)
        if isinstance(owner.written, Step) and owner.written.switch is not None:
            for field in works:
                yield Violation(
                    f"{owner.path}.{field}",
                    Reason.FORBIDDEN,
                    None,
                    f"each case of switch names its {field}; a case without one runs the template "
                    "with the name of the step",
                )
        else:
            for field in works[1:]:
                detail = f"excludes {works[0]}, which is set too; keep one of them"
                yield Violation(f"{owner.path}.{field}", Reason.FORBIDDEN, None, detail)


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


WORK_RULES = (
    Group[Rule](
        lambda facts: facts.owners,
        (
            steps_run_one_thing,
            variables_have_names,
            variables_have_values,
        ),
    ),
)
