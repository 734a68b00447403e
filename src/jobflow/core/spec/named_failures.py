"""Facts of failures that expressions and references of a flow name, and their size in its status.

The status never drops them, so admission counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.status import StepFailure
from jobflow.api.flow.step import Step
from jobflow.core.pods.failure import FACTS, MAX_FAILURE_MESSAGE, MAX_FAILURE_REASON
from jobflow.core.spec.expressions import (
    ALL_FAILED,
    StepRead,
    list_expressions,
    list_referring,
    reads_of,
    reads_of_outputs,
)

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


def find_named_failures(spec: JobFlowSpec, readers: Iterable[Step]) -> dict[str, NamedFailure]:
    """Return the named fields by step, of steps that have any. `readers`: the steps that may have
    expressions or references."""
    ended: dict[str, set[str]] = {}
    retried: dict[str, set[str]] = {}
    for read in _list_reads(spec, readers):
        if read.step == ALL_FAILED:
            for step in spec.flows or ():
                ended.setdefault(step.name, set()).update(_SIZES)
        elif read.field in ("", "failure"):
            found = retried if read.is_own else ended
            found.setdefault(read.step, set()).update(FACTS.get(read.key, _SIZES))
    return {
        name: NamedFailure(frozenset(ended.get(name, ())), frozenset(retried.get(name, ())))
        for name in {**ended, **retried}
    }


def _list_reads(spec: JobFlowSpec, readers: Iterable[Step]) -> Iterator[StepRead]:
    """Yield the reads of texts that may name a failure: to parse them all costs much more."""
    for step in readers:
        texts = chain(
            (each.text for each in list_expressions(step)), map(str, list_referring(step))
        )
        if any("failure" in text for text in texts):
            yield from reads_of(step)
    if any("failure" in text for text in (spec.outputs or {}).values()):
        yield from reads_of_outputs(spec)


def measure_fields(fields: frozenset[str]) -> int:
    """Return the bytes that these fields may take in a status."""
    return sum(_SIZES[field] for field in fields) + len('"failure":{},') if fields else 0


def keep_fields(failure: StepFailure | None, fields: frozenset[str]) -> StepFailure | None:
    """Return a failure with these fields only."""
    if failure is None or not fields:
        return None
    return StepFailure(**{field: getattr(failure, field) for field in fields})
