"""Where a flow has expressions and references, and what they mention. It judges nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from jobflow.api.control import Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.expressions import Expression, expression
from jobflow.core.references import references

_KEPT = 4096
"""Specs whose answers are kept."""
_needed: dict[bytes, frozenset[str]] = {}


class Written(NamedTuple):
    """An expression as it stands in a step."""

    field: str
    """Its JSON path below the step: `switch[0].when`, `forEach.from`."""
    text: str


def expressions_of(step: Step) -> Iterator[Written]:
    """Every expression of a step, in the order of its fields."""
    if step.when is not None:
        yield Written("when", step.when)
    for i, case in enumerate(step.switch or ()):
        if case.when is not None:
            yield Written(f"switch[{i}].when", case.when)
    if step.for_each is not None and step.for_each.from_ is not None:
        yield Written("forEach.from", step.for_each.from_)
    if step.repeat is not None and step.repeat.until is not None:
        yield Written("repeat.until", step.repeat.until)
    if step.retry is not None and step.retry.when is not None:
        yield Written("retry.when", step.retry.when)


def patches_of(step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    """The patches of a step and of its cases, each with its JSON path below the step."""
    yield from _changes("patch", step.patch)
    for i, case in enumerate(step.switch or ()):
        yield from _changes(f"switch[{i}].patch", case.patch)


def _changes(path: str, patch: Patch | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if patch is not None and patch.job_spec:
        yield f"{path}.jobSpec", patch.job_spec
    elif patch is not None and patch.spec:
        yield f"{path}.spec", patch.spec


def outputs_needed(flow: JobFlow) -> frozenset[str]:
    """The steps whose outputs any expression or reference of the flow looks at, by name: their
    outputs have to be read before their end is recorded.

    Worked out once for a spec, which is known again by its JSON (1,000 steps: 0.3 ms).
    """
    spec = msgspec.json.encode(flow.spec)
    if b"steps" not in spec and b"outputs" not in spec:
        return frozenset()
    digest = hashlib.sha256(spec).digest()
    found = _needed.get(digest)
    if found is None:
        while len(_needed) >= _KEPT:
            del _needed[next(iter(_needed))]
        found = _needed[digest] = frozenset(_outputs_named(flow))
    return found


def _outputs_named(flow: JobFlow) -> Iterator[str]:
    for step in (*flow.steps, *(flow.spec.finally_ or ())):
        for written in expressions_of(step):
            found = expression(written.text)
            if isinstance(found, Expression):
                yield from _named(step, found)
        for _, patch in patches_of(step):
            for _, reference in references(patch, ""):
                if reference.root == "steps" and reference.keys[1:2] == ("outputs",):
                    yield reference.keys[0]


def _named(step: Step, found: Expression) -> Iterator[str]:
    """Of a step without a further key everything is looked at; `items` hold outputs too. In until
    and retry.when it is the step's own run that is looked at."""
    for mention in found.words.mentions:
        if mention.root == "steps" and mention.keys:
            if len(mention.keys) == 1 or mention.keys[1] in ("outputs", "items"):
                yield mention.keys[0]
        elif mention.root == "outputs":
            yield step.name
