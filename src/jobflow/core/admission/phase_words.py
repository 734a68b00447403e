"""Phases that an expression compares with and that there are none of. It finds them; a comparison
that never holds is no fault, for it may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.api.job import JobPhase
from jobflow.core.cel.variables import Comparison
from jobflow.core.suggest import Suggester

OF_STEPS = frozenset({*StepPhase, *JobPhase})
OF_FLOWS = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
"""What `flow.phase` may be in finally."""

_OTHERS = frozenset({"outputs", "item", "params"})
"""Whose `phase` is the user's own."""
_SAME = {
    "complete": "Completed",
    "done": "Completed",
    "error": "Failed",
    "failure": "Failed",
    "finished": "Completed",
    "succeed": "Completed",
    "succeeded": "Completed",
    "success": "Completed",
    "successful": "Completed",
    "omitted": "Skipped",
}


def strange_phases(compared: Iterable[Comparison]) -> Iterator[tuple[str, str]]:
    """Each phase that nothing is ever in, and the one that was probably meant, or nothing."""
    suggesters = {known: Suggester(sorted(known)) for known in (OF_STEPS, OF_FLOWS)}
    for path, bound, word, _ in compared:
        *of, last = path
        if last != "phase" or not _OTHERS.isdisjoint(of) or (bound and not of):
            continue
        known = OF_FLOWS if of == ["flow"] and not bound else OF_STEPS
        if word not in known:
            meant = _SAME.get(word.lower()) or suggesters[known].nearest(word) or ""
            yield word, "Succeed" if known is OF_FLOWS and meant == "Completed" else meant
