"""Families: a flow and its child flows, at all levels. A child flow is among the jobs of its
parent, with a state of its own, and every move of a flow is one of the family.

The time, the budget, the templates and a crash are those of all flows. The state of the outermost
flow has them; that of another member has them, and the flows beside it, only while it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobflow.api.flow.status import FlowPhase
from jobflow.api.volcano.job import JobPhase
from model.explorer.states import State, Vcjob

if TYPE_CHECKING:
    from model.explorer.sight import Sight

_PHASES: dict[str, str] = {
    FlowPhase.RUNNING: JobPhase.RUNNING,
    FlowPhase.SUCCEED: JobPhase.COMPLETED,
    FlowPhase.FAILED: JobPhase.FAILED,
    FlowPhase.TERMINATING: JobPhase.TERMINATING,
}
"""Phases of a child flow as its parent sees them; all others are Pending."""


@dataclass(frozen=True, slots=True)
class Member:
    """A flow of a family."""

    sight: Sight
    state: State
    put: Callable[[State], State]
    """Return the state of the family after this flow has moved to a state."""

    @property
    def name(self) -> str:
        return self.sight.flow_name


def family(sight: Sight, state: State) -> Iterator[Member]:
    """Yield the flow, then all flows below it that exist and that the controller knows."""
    yield Member(sight, state, lambda after: after)
    for job in state.jobs:
        if job.child is not None and job.seen and not job.gone:
            yield from _below(sight, state, job, job.child)


def _below(sight: Sight, state: State, job: Vcjob, child: State) -> Iterator[Member]:
    of_child, beside = sight.of_child(job), tuple[Vcjob, ...]()
    if of_child.configuration.steps_share:
        beside = tuple(
            j for j in state.jobs if j.child and j.seen and not j.gone and j.uid != job.uid
        )
    inside = replace(
        child,
        budget=state.budget,
        now=state.now,
        missing=state.missing,
        parent=state.known,
        beside=beside,
    )
    for member in family(of_child, inside):

        def put(after: State, inner: Callable[[State], State] = member.put) -> State:
            return _with_move(state, job, inner(after))

        yield Member(member.sight, member.state, put)


def _with_move(state: State, job: Vcjob, after: State) -> State:
    """Return the state of the parent after its child flow has moved."""
    state = replace(
        state, budget=after.budget, now=after.now, missing=after.missing, crashed=after.crashed
    )
    return with_child(state, job, after)


def with_child(state: State, job: Vcjob, child: State) -> State:
    """Return the state with this state of a child flow."""
    shown = as_stored(job, child, state.round)
    return replace(state, jobs=tuple(shown if j.uid == job.uid else j for j in state.jobs))


def as_stored(job: Vcjob, child: State, round: int) -> Vcjob:
    """Return the child flow as a job in the phase of its stored status. `round`: the retries of its
    parent so far."""
    child = replace(
        child, budget=(), now=0, missing=frozenset(), parent=None, beside=(), crashed=False
    )
    phase = _PHASES.get(child.flow.status.value.state.phase, JobPhase.PENDING)
    job = replace(job, child=child)
    if phase != job.phase:
        again = job.ended and phase not in (JobPhase.COMPLETED, JobPhase.FAILED)
        phases = (*job.phases, (phase, 0))
        job = replace(job, phases=phases, round=round if again else job.round)
    known = job.seen and child.known == child.flow
    return replace(job, seen=len(job.phases)) if known else job
