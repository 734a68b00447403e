"""The fair continuation, without further rare events, and its law: every flow ends, or waits for
something that its status names."""

from dataclasses import replace
from itertools import chain

from jobflow.core.reasons import FlowReason, StepReason
from model.explorer.cluster import apply_plan, move_job, seen
from model.explorer.configurations import COMMANDS
from model.explorer.families import family, with_child
from model.explorer.keys import Key, Keys
from model.explorer.moves import ALL, answering, find_open_approvals, probing, wait_of
from model.explorer.sight import Sight
from model.explorer.states import Command, State

MOST = 400
"""Moves after which a flow that has not ended counts as endless."""


class Fairness:
    """Follows states to the end of their flow, and keeps those that are known to reach one."""

    def __init__(self, sight: Sight, keys: Keys) -> None:
        self._sight = sight
        self._keys = keys
        self._ends: set[Key] = set()

    def every_flow_ends(self, state: State) -> str:
        """Return why a flow does not end without rare events, or ""."""
        path: list[Key] = []
        for _ in range(MOST):
            key = self._keys.fair_key(state)
            if key in self._ends:
                break
            path.append(key)
            after = next_state(self._sight, state)
            if after is None:
                for member in family(self._sight, state):
                    if why := _stuck(member.state):
                        return f"{member.name}: {why}"
                break
            state = after
        else:
            return f"it has not ended after {MOST} moves"
        self._ends.update(path)
        return ""


def next_state(sight: Sight, state: State) -> State | None:
    """Return the next state; None: nothing follows. Events arrive, then the controller acts, then
    vcjobs move, then time passes, and at last a flow gets what its status asks for."""
    if state.flow.gone:
        return None
    if _is_late(state):
        return _observe_all(state)
    flows = list(family(sight, state))
    for act in (_controller, _volcano, _outside):
        for member in flows:
            if (after := act(member.sight, member.state)) is not None:
                return member.put(after)
    if state.busy:
        return replace(state, busy=False, cancelled_at=None)
    if (seconds := wait_of(sight, state)) is not None:
        return replace(state, now=state.now + seconds)
    grants = ((member, _grant(member.sight, member.state)) for member in flows)
    return next((member.put(after) for member, after in grants if after is not None), None)


def _is_late(state: State) -> bool:
    """Whether the controller has not seen everything."""
    late = state.events or state.known != state.flow or state.known_commands != state.commands
    return bool(late) or any(j.child is not None and _is_late(j.child) for j in state.jobs)


def _observe_all(state: State) -> State:
    for event in state.events:
        jobs = tuple(
            seen(job, event.phases, gone=event.gone) if job.uid == event.uid else job
            for job in state.jobs
        )
        state = replace(state, jobs=jobs)
    for job in state.jobs:
        if job.child is not None:
            state = with_child(state, job, _observe_all(job.child))
    return replace(state, events=(), known=state.flow, known_commands=state.commands)


def _controller(sight: Sight, state: State) -> State | None:
    return None if sight.idles(state) else apply_plan(sight, state, sight.plan(state), ALL)


def _outside(sight: Sight, state: State) -> State | None:
    """Return the state after a probe has passed, or an attempt without a vcjob was answered."""
    moves = chain(probing(sight, state), answering(sight, state))
    return next((after for _, after in moves), None)


def _volcano(sight: Sight, state: State) -> State | None:
    """Return the state after the first vcjob enters its next phase; a daemon runs until it is
    aborted."""
    now = state.now if sight.configuration.times_jobs else 0
    for job in state.jobs:
        if not job.alive or job.child is not None:
            continue
        if job.phase == "Aborting":
            return move_job(state, job, "Aborted", now)
        if job.asked:
            return move_job(state, job, "Aborting", now)
        if job.phase == "Pending":
            return move_job(state, job, "Running", now)
        if not sight.configuration.steps[job.step].daemon:
            return move_job(state, job, "Completed", now)
    return None


def _grant(sight: Sight, state: State) -> State | None:
    """Return the state after a user has done what the status asks for."""
    status = state.flow.status.value
    reasons = {step.reason for step in (status.conditions or {}).values()}
    if state.flow.terminating:
        return None
    if StepReason.WAITING_FOR_TEMPLATE in reasons and state.missing:
        return replace(state, missing=frozenset())
    of_parent = status.suspended_by.startswith("parent/")
    if status.state.reason == FlowReason.SUSPENDED and not of_parent:
        resume = Command(f"resume at {state.now}", COMMANDS["resume"])
        return replace(state, commands=(*state.commands, resume))
    for step in find_open_approvals(sight, status):
        approve = Command(f"approve {step} at {state.now}", COMMANDS["approve"], step)
        return replace(state, commands=(*state.commands, approve))
    return None


def _stuck(state: State) -> str:
    """Return why the flow has not ended, or "". The controller does not delete the vcjobs of a flow
    that is being deleted."""
    if state.flow.gone or state.flow.terminating or (state.flow.final and not state.commands):
        return ""
    status = state.flow.status.value
    steps = {key: (c.phase, c.reason) for key, c in (status.conditions or {}).items()}
    return f"nothing follows: the flow is {status.state.phase} {status.state.reason}, {steps}"
