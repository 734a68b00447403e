"""The expressions and references of a flow, and the outputs that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobflow.api.jobflow import JobFlowSpec, Step
from jobflow.core.cel.expression import Expression, parse_expression
from jobflow.core.cel.references import find_references
from jobflow.core.manifests.job import changes_of


class StepExpression(NamedTuple):
    """An expression in a field of a step."""

    field: str
    """Its JSON path below the step: `switch[0].when`, `forEach.from`."""
    text: str


def list_expressions(step: Step) -> Iterator[StepExpression]:
    """Yield each expression of a step, in the order of the fields."""
    if step.when is not None:
        yield StepExpression("when", step.when)
    for i, case in enumerate(step.switch or ()):
        if case.when is not None:
            yield StepExpression(f"switch[{i}].when", case.when)
    if step.for_each is not None and step.for_each.from_ is not None:
        yield StepExpression("forEach.from", step.for_each.from_)
    if step.repeat is not None and step.repeat.until is not None:
        yield StepExpression("repeat.until", step.repeat.until)
    if step.retry is not None and step.retry.when is not None:
        yield StepExpression("retry.when", step.retry.when)


def find_needed_outputs(spec: JobFlowSpec) -> frozenset[str]:
    """Return the names of the steps whose outputs an expression or reference reads. They must be
    read before the end of the step is recorded."""
    return frozenset(_find_names([*(spec.flows or ()), *(spec.finally_ or ())]))


def _find_names(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        for each in list_expressions(step):
            expression = parse_expression(each.text)
            if isinstance(expression, Expression):
                yield from _find_mentioned(step, expression)
        for patch in (step.patch, *(case.patch for case in step.switch or ())):
            for _, reference in find_references(changes_of(patch), ""):
                if reference.root == "steps" and reference.keys[1:2] == ("outputs",):
                    yield reference.keys[0]


def _find_mentioned(step: Step, expression: Expression) -> Iterator[str]:
    """A step without a further key is read as a whole, and its `items` have outputs too. `outputs`
    alone, in until and retry.when, are those of the step's own run."""
    for mention in expression.mentions:
        if mention.root == "steps" and mention.keys:
            if len(mention.keys) == 1 or mention.keys[1] in ("outputs", "items"):
                yield mention.keys[0]
        elif mention.root == "outputs":
            yield step.name
