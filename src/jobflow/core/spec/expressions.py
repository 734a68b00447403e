"""Where a flow has expressions and references, and what they mention. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobflow.api.jobflow import JobFlowSpec, Step
from jobflow.core.cel.expression import Expression, parse_expression
from jobflow.core.cel.references import find_references
from jobflow.core.manifests.job import changes_of


class StepExpression(NamedTuple):
    """An expression as it stands in a step."""

    field: str
    """Its JSON path below the step: `switch[0].when`, `forEach.from`."""
    text: str


def list_expressions(step: Step) -> Iterator[StepExpression]:
    """Every expression of a step, in the order of its fields."""
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
    """The steps whose outputs any expression or reference of a flow looks at, by name: their
    outputs have to be read before their end is recorded."""
    return frozenset(_outputs_named([*(spec.flows or ()), *(spec.finally_ or ())]))


def _outputs_named(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        for written in list_expressions(step):
            found = parse_expression(written.text)
            if isinstance(found, Expression):
                yield from _named(step, found)
        for patch in (step.patch, *(case.patch for case in step.switch or ())):
            for _, reference in find_references(changes_of(patch), ""):
                if reference.root == "steps" and reference.keys[1:2] == ("outputs",):
                    yield reference.keys[0]


def _named(step: Step, found: Expression) -> Iterator[str]:
    """Of a step without a further key everything is looked at; `items` hold outputs too. In until
    and retry.when it is the step's own run that is looked at."""
    for mention in found.mentions:
        if mention.root == "steps" and mention.keys:
            if len(mention.keys) == 1 or mention.keys[1] in ("outputs", "items"):
                yield mention.keys[0]
        elif mention.root == "outputs":
            yield step.name
