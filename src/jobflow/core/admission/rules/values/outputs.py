"""Rules of the outputs of a flow. `expressions` has those of their expressions."""

import re
from collections.abc import Iterator

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.violations import Reason, Violation

MAX_OUTPUTS = 100
"""Outputs of a flow, which are all evaluated at its end."""
_NAME = re.compile(r"[A-Za-z_][-A-Za-z0-9_]{0,62}")


def outputs_are_few(facts: FlowFacts) -> Iterator[Violation]:
    if (count := len(facts.flow.spec.outputs or {})) > MAX_OUTPUTS:
        detail = f"at most {MAX_OUTPUTS} are allowed; put more into one, as a map"
        yield Violation("spec.outputs", Reason.TOO_MANY, count, detail)


def outputs_have_names(facts: FlowFacts) -> Iterator[Violation]:
    for name in facts.flow.spec.outputs or {}:
        if not _NAME.fullmatch(name):
            detail = (
                "the name of an output holds at most 63 letters, digits, _ and - and begins with "
                "a letter or _"
            )
            yield Violation("spec.outputs", Reason.INVALID, name, detail)


OUTPUT_RULES = (
    Group[Rule](lambda facts: facts.flow.spec.outputs, (outputs_are_few, outputs_have_names)),
)
