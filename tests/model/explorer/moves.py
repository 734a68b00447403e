"""Moves: everything that may happen next, one generator for each cause. A move is a name and
the state that follows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from jobflow.core.planning.actions import Plan
from model.explorer.cluster import (
    CAN_BE_ABORTED,
    Part,
    apply_plan,
    changed,
    deleted,
    moved,
    restarted,
    seen,
)
from model.explorer.configurations import COMMANDS
from model.explorer.sight import Sight
from model.explorer.states import Command, Event, State, Vcjob

Move = tuple[str, State]

LAG = 3
"""Events of vcjobs that may be on their way before Volcano's next move has to wait for them."""
LATE = 100
"""Seconds in which nobody looks, when that is in the budget."""
ALL = Part()


def moves(sight: Sight, state: State) -> Iterator[Move]:
    """Yield all moves from this state."""
    if state.flow.gone:
        return
    for mover in MOVERS:
        yield from mover(sight, state)


def spent(sight: Sight, state: State, what: str) -> State | None:
    """Return the state with one less of this in the budget; None if nothing is left."""
    rare = sight.configuration.rare
    if what not in rare:
        return None
    at = rare.index(what)
    left = state.budget[at]
    if not left:
        return None
    return replace(state, budget=(*state.budget[:at], left - 1, *state.budget[at + 1 :]))


def planning(sight: Sight, state: State) -> Iterator[Move]:
    """Apply a plan in full or in part; a status that is not urgent may be written later."""
    if sight.idles(state):
        return
    plan = sight.plan(state)
    yield "the controller applies its plan", apply_plan(sight, state, plan, ALL)
    both = bool(plan.actions) and plan.status != state.known.status.value
    if both and not plan.urgent:
        later = apply_plan(sight, state, plan, Part(writes=False))
        yield "the controller acts, and writes its status later", later
    if (rest := spent(sight, state, "crash")) is not None:
        yield from _crashes(sight, rest, plan)
    if (rest := spent(sight, state, "lost answer")) is not None:
        yield from _lost_answers(sight, rest, plan)


def _crashes(sight: Sight, state: State, plan: Plan) -> Iterator[Move]:
    if plan.actions:
        half = apply_plan(sight, state, plan, Part(writes=False))
        yield "the controller acts and crashes before it writes its status", restarted(half)
    if plan.status != state.known.status.value:
        half = apply_plan(sight, state, plan, Part(acts=False))
        yield "the controller writes its status and crashes before it acts", restarted(half)


def _lost_answers(sight: Sight, state: State, plan: Plan) -> Iterator[Move]:
    if plan.actions:
        lost = apply_plan(sight, state, plan, Part(act_answers=False))
        yield "the controller's actions are carried out, their answers are lost", lost
    if plan.status != state.known.status.value:
        lost = apply_plan(sight, state, plan, Part(write_answer=False))
        yield "the controller's status is stored, the answer is lost", lost
        refused = apply_plan(sight, state, plan, Part(stored=False))
        yield "the controller acts, and its status is not stored", refused


def restarting(sight: Sight, state: State) -> Iterator[Move]:
    """A crash before a plan, or after one."""
    if (rest := spent(sight, state, "crash")) is not None:
        yield "the controller starts again", restarted(rest)


def passing(sight: Sight, state: State) -> Iterator[Move]:
    """Let time pass until the controller plans again; if it has something to do, or for longer,
    only with budget."""
    after = sight.plan(state).requeue_after
    if after is not None and sight.idles(state):
        seconds = max(1, -int(-after.total_seconds() // 1))
        yield f"{seconds} seconds pass", replace(state, now=state.now + seconds)
    if (rest := spent(sight, state, "late")) is not None:
        yield f"{LATE} seconds pass", replace(rest, now=rest.now + LATE)


def watching(sight: Sight, state: State) -> Iterator[Move]:
    """The next event arrives. Events of vcjobs are in order; other kinds have watches of their own,
    which show an object as it is by then."""
    if state.events:
        event, *rest = state.events
        job = seen(state.job(event.uid), event.phases, gone=event.gone)
        yield (
            f"the watch shows {_shown(job, event)}",
            changed(replace(state, events=tuple(rest)), job),
        )
    if state.known != state.flow:
        yield "the watch shows the flow", replace(state, known=state.flow)
    if state.known_commands != state.commands:
        yield "the watch shows the Commands", replace(state, known_commands=state.commands)


def _shown(job: Vcjob, event: Event) -> str:
    return f"{job.name} {'gone' if event.gone else job.phases[event.phases - 1][0]}"


def probing(sight: Sight, state: State) -> Iterator[Move]:
    """Let a running vcjob pass a probe of the plan."""
    for probe in sight.plan(state).probes:
        job = state.job(probe.uid)
        if job.phase == "Running" and not job.gone and (probe.step, probe.uid) not in state.probed:
            probed = state.probed | {(probe.step, probe.uid)}
            yield f"{job.name} answers the probe of {probe.step}", replace(state, probed=probed)


def running(sight: Sight, state: State) -> Iterator[Move]:
    """Let Volcano move a vcjob; one that is being aborted may end by itself."""
    if len(state.events) >= LAG:
        return
    now = state.now if sight.configuration.times_jobs else 0
    for job in state.jobs:
        if job.gone or job.ended:
            continue
        if job.phase == "Pending":
            yield f"{job.name} runs", moved(state, job, "Running", now)
        if job.phase == "Running":
            yield f"{job.name} completes", moved(state, job, "Completed", now)
            if (rest := spent(sight, state, "fail")) is not None:
                yield f"{job.name} fails", moved(rest, job, "Failed", now)
        if job.asked and job.phase in CAN_BE_ABORTED:
            yield f"Volcano begins to abort {job.name}", moved(state, job, "Aborting", now)
        if job.phase == "Aborting":
            yield f"{job.name} is aborted", moved(state, job, "Aborted", now)


def ordering(sight: Sight, state: State) -> Iterator[Move]:
    """Somebody makes a Command that makes sense then."""
    status = state.flow.status.value
    for what, action in COMMANDS.items():
        if what == "retry" and status.state.phase != "Failed":
            continue
        if what == "resume" and status.suspended_at is None:
            continue
        if (rest := spent(sight, state, what)) is not None:
            left = rest.budget[sight.configuration.rare.index(what)]
            command = Command(f"{action.lower()}-{left}", action)
            yield f"somebody asks to {what}", replace(rest, commands=(*rest.commands, command))


def deleting(sight: Sight, state: State) -> Iterator[Move]:
    """Somebody deletes a vcjob, or the flow, which a finalizer keeps."""
    if (rest := spent(sight, state, "delete job")) is not None:
        for job in state.jobs:
            if not job.gone:
                yield f"somebody deletes {job.name}", deleted(rest, job)
    rest = spent(sight, state, "delete flow")
    if rest is not None and not state.flow.terminating:
        yield "somebody deletes the flow", replace(rest, flow=replace(rest.flow, terminating=True))


def templating(sight: Sight, state: State) -> Iterator[Move]:
    """A template goes, or is back."""
    for name in sorted(state.missing):
        yield f"template {name} is back", replace(state, missing=state.missing - {name})
    rest = spent(sight, state, "template")
    if rest is not None:
        for name in sight.configuration.world.templates:
            if name not in state.missing:
                yield f"template {name} goes", replace(rest, missing=state.missing | {name})


MOVERS: tuple[Callable[[Sight, State], Iterator[Move]], ...] = (
    planning,
    restarting,
    passing,
    watching,
    probing,
    running,
    ordering,
    deleting,
    templating,
)
