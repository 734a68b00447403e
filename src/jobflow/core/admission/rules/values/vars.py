"""Rules of vars: names that a reference can use, and how many (docs/decisions/expressions.md)."""

import re
from collections.abc import Iterator

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.suggest import did_you_mean
from jobflow.core.violations import Reason, Violation, join_path

MAX_VARS = 64
"""Vars of a step."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def vars_are_few(facts: FlowFacts) -> Iterator[Violation]:
    """Each is evaluated for every attempt."""
    for i, step in facts.steps_with_options:
        if (count := len(step.vars or ())) > MAX_VARS:
            detail = f"at most {MAX_VARS} are allowed; compute a map in one of them"
            yield Violation(f"{facts.path(i)}.vars", Reason.TOO_MANY, count, detail)


def vars_have_names(facts: FlowFacts) -> Iterator[Violation]:
    """A dot in a reference begins a key of the value."""
    for i, step in facts.steps_with_options:
        for name in step.vars or ():
            if not _NAME.fullmatch(name):
                meant = re.sub(r"\W", "_", name, flags=re.ASCII)
                guess = did_you_mean(meant if _NAME.fullmatch(meant) else None)
                detail = "a name holds letters, digits and _ and does not begin with a digit"
                path = join_path(f"{facts.path(i)}.vars", name)
                yield Violation(path, Reason.INVALID, name, detail + guess)


VARS_RULES = (
    Group[Rule](
        lambda facts: any(step.vars for _, step in facts.steps_with_options),
        (vars_are_few, vars_have_names),
    ),
)
