"""The expressions and references of a flow, and the outputs that they read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.status import StepFailure
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Evaluated, Referring, Stage, ValueKind, find_set
from jobflow.core.cel.expression import Expression, parse_expression
from jobflow.core.cel.language.tree import Mention
from jobflow.core.cel.references import as_item, find_references
from jobflow.core.manifests.layers import may_have_layers, own_layers
from jobflow.core.pods.failure import FACTS, MAX_FAILURE_MESSAGE, MAX_FAILURE_REASON
from jobflow.core.violations import join_path

_TIMEOUT = Evaluated(Stage.VARS, ValueKind.TIMEOUT)


class StepExpression(NamedTuple):
    """An expression in a field of a step."""

    path: str
    """Its JSON path below the step: `switch[0].when`, `forEach.from`, `vars.x`."""
    text: str
    trait: Evaluated


def list_expressions(owner: Step | JobFlowSpec) -> Iterator[StepExpression]:
    """Yield the expressions of a step, or of a flow without its steps, in order of evaluation."""
    written = [*find_set(owner, Evaluated)]
    if len(written) > 1:
        written.sort(key=lambda each: each.trait.stage.value)
    for found in written:
        if isinstance(found.value, str):
            yield StepExpression(found.path, found.value, found.trait)
        else:
            timeout = owner.timeout if isinstance(owner, Step) else None
            for name, text in found.value.items():
                is_timeout = found.path == "vars" and timeout == f"$(vars.{name})"
                trait = _TIMEOUT if is_timeout else found.trait
                yield StepExpression(join_path(found.path, name), text, trait)


def list_referring(step: Step) -> list[Any]:
    """Return the JSON of a step that may contain references: all layers of its jobs, the params of
    its child flows, and other texts."""
    owners = (step, *(step.switch or ())) if may_have_layers(step) else ()
    found: list[Any] = [layer.content for owner in owners for layer in own_layers(owner)]
    for _, trait, value, *_ in find_set(step, Referring):
        if (inner := value.get(trait.below) if trait.below else value) is not None:
            found.append(inner)
    return found


ALL_FAILED = ""
"""In place of a step, all steps that failed: `flow.failures`."""


class StepRead(NamedTuple):
    """A step that an expression or reference reads."""

    step: str
    """Its name, or ALL_FAILED."""
    field: str
    """`phase`, `outputs`; "" for the step as a whole."""
    key: str = ""
    """The key below the field: `exitCode` of `failure`; "" for the field as a whole."""
    is_own: bool = False
    """Whether a further attempt of the step reads the failure of the attempt before."""
    of_item: bool = False
    """Whether it reads a single item of the step."""

    @property
    def has_outputs(self) -> bool:
        """Whether it reads outputs. `items` have outputs too."""
        return self.field in ("", "outputs", "items")


def find_needed_outputs(spec: JobFlowSpec) -> frozenset[str]:
    """Return the names of the steps whose outputs an expression or reference reads."""
    steps = (*(spec.flows or ()), *(spec.finally_ or ()))
    names = {step.name for step in steps}
    of_steps = (reads_of(step, names) for step in steps)
    reads = chain(chain.from_iterable(of_steps), reads_of_outputs(spec))
    return frozenset(each.step for each in reads if each.has_outputs)


def reads_of_outputs(spec: JobFlowSpec) -> Iterator[StepRead]:
    for _, mention in _list_mentions(spec):
        yield from _read("", mention.root, mention.keys)


def reads_of(step: Step, names: Container[str]) -> Iterator[StepRead]:
    """Yield all that the expressions and references of a step read. `names`: those of all steps."""
    for stage, mention in _list_mentions(step):
        if mention.root in ("outputs", "items"):
            # alone, in until and retry.when, they are those of the step's own runs
            yield StepRead(step.name, "outputs")
        elif mention.root != "failure" or stage is Stage.VARS:
            # in retry.when, `failure` is that of the attempt that has just ended
            yield from _read(step.name, mention.root, mention.keys)
    for content in list_referring(step):
        for _, reference in find_references(content, ""):
            root, keys = reference.root, reference.keys
            if root == "steps":
                keys = as_item(keys, names.__contains__)
            yield from _read(step.name, root, keys)


def _list_mentions(owner: Step | JobFlowSpec) -> Iterator[tuple[Stage, Mention]]:
    for each in list_expressions(owner):
        expression = parse_expression(each.text)
        for mention in expression.mentions if isinstance(expression, Expression) else ():
            yield each.trait.stage, mention


def _read(step: str, root: str, keys: Sequence[str]) -> Iterator[StepRead]:
    if root == "steps" and keys:
        of_item = keys[1:2] == ("item",)
        fields = keys[2:] if of_item else keys[1:]
        yield StepRead(keys[0], "".join(fields[:1]), "".join(fields[1:2]), of_item=of_item)
    elif root == "last" and keys[:1] in ((), ("outputs",)):
        yield StepRead(step, "outputs")
    elif root == "failure":
        yield StepRead(step, root, "".join(keys[:1]), is_own=True)
    elif root == "flow" and keys[:1] == ("failures",):
        yield StepRead(ALL_FAILED, keys[0])


_NUMBER = len("-2147483648")
_WORD = 63
"""Characters of the name of a pod, a task or a node."""
_SIZES: Mapping[str, int] = {
    "exit_code": len('"exitCode":,') + _NUMBER,
    "signal": len('"signal":,') + _NUMBER,
    "reason": len('"reason":"",') + MAX_FAILURE_REASON,
    "node": len('"node":"",') + _WORD,
    "task": len('"task":"",') + _WORD,
    "pod": len('"pod":"",') + _WORD,
    "message": len('"message":"",') + MAX_FAILURE_MESSAGE,
    "seconds": len('"seconds":,') + _NUMBER,
    "disruption": len('"disruption":true,'),
    "step": len('"step":"",') + 4 * _WORD,
}
"""Bytes of the fields of a failure in a status."""
NO_FIELDS: frozenset[str] = frozenset()


class NamedFailure(NamedTuple):
    """The fields of a step's failure that the flow needs."""

    ended: frozenset[str] = NO_FIELDS
    """After the step has failed: other steps read them."""
    retried: frozenset[str] = NO_FIELDS
    """Between two attempts of a run: the next attempt reads them."""
    of_items: frozenset[str] = NO_FIELDS
    """After an item has failed: the same item of another step reads them."""


def find_named_failures(spec: JobFlowSpec, readers: Iterable[Step]) -> dict[str, NamedFailure]:
    """Return the named fields by step, of steps that have any. `readers`: the steps that may have
    expressions or references."""
    names = set[str]()
    found: dict[str, dict[str, frozenset[str]]] = {}
    reads: list[StepRead] = []
    for step in readers:
        expressions = (each.text for each in list_expressions(step))
        texts = chain(expressions, map(str, list_referring(step)))
        if any("failure" in text for text in texts):  # to parse them all costs much more
            names = names or {step.name for step in (*(spec.flows or ()), *(spec.finally_ or ()))}
            reads += reads_of(step, names)
    if any("failure" in text for text in (spec.outputs or {}).values()):
        reads += reads_of_outputs(spec)
    for read in reads:
        is_all = read.step == ALL_FAILED
        if not is_all and read.field not in ("", "failure"):
            continue
        when = "retried" if read.is_own else "of_items" if read.of_item else "ended"
        for name in [step.name for step in spec.flows or ()] if is_all else [read.step]:
            known = found.setdefault(name, {})
            known[when] = known.get(when, NO_FIELDS).union(FACTS.get(read.key, _SIZES))
    return {name: NamedFailure(**known) for name, known in found.items()}


def measure_fields(fields: frozenset[str]) -> int:
    """Return the bytes that these fields may take in a status."""
    return sum(_SIZES[field] for field in fields) + len('"failure":{},') if fields else 0


def keep_fields(failure: StepFailure | None, fields: frozenset[str]) -> StepFailure | None:
    if failure is None or not fields:
        return None
    return StepFailure(**{field: getattr(failure, field) for field in fields})
