"""Rules of depth. They are asked before all others, none of which then meets a deeper value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobflow.api.schema.nesting import MAX_DEPTH, way_beyond
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.violations import Reason, Violation, join_path


def depth_violations(value: Any, path: str) -> Iterator[Violation]:
    """The first list or map in `value`, which is at `path` in an object, that makes the object
    deeper than MAX_DEPTH."""
    around = path.count(".") + path.count("[") + 1 if path else 0
    if (way := way_beyond(value, MAX_DEPTH - around)) is not None:
        for key in way:
            path = join_path(path, key)
        detail = (
            f"nested more than {MAX_DEPTH} levels deep; flatten the value or write it as a text"
        )
        yield Violation(path, Reason.TOO_LONG, None, detail)


def flow_is_not_too_deep(facts: FlowFacts) -> Iterator[Violation]:
    """The values of a flow that may hold any JSON."""
    for i, param in enumerate(facts.flow.spec.params or ()):
        yield from depth_violations(param.value, f"spec.params[{i}].value")
        yield from depth_violations(param.enum, f"spec.params[{i}].enum")
    for _, _, path, patch in facts.patches:
        yield from depth_violations(patch.job_spec, f"{path}.jobSpec")
        yield from depth_violations(patch.spec, f"{path}.spec")
    for i, step in facts.controlled_steps:
        if step.for_each is not None:
            yield from depth_violations(step.for_each.items, f"{facts.path(i)}.forEach.items")
