"""Moves: all possible next events, one generator for each cause. A move is a name and the state
that follows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from jobflow.api.flow.status import ENDED_STEP_PHASES, JobFlowStatus, RunCondition, StepPhase
from jobflow.core.planning.actions import JobProbe, Plan, ProbeResult, WantKey
from jobflow.core.reasons import StepReason
from model.acting import Script
from model.explorer.cluster import (
    CAN_BE_ABORTED,
    Part,
    apply_plan,
    delete_job,
    move_job,
    replace_job,
    restart,
    seen,
)
from model.explorer.configurations import COMMANDS
from model.explorer.families import family
from model.explorer.sight import Sight
from model.explorer.states import Command, Event, State, Vcjob
from model.work.kinds import KINDS

Move = tuple[str, State]

LAG = 3
"""Undelivered events of vcjobs after which Volcano waits with its next move."""
LATE = 100
"""Seconds without a plan, if the budget allows them."""
ALL = Part()


def moves(sight: Sight, state: State) -> Iterator[Move]:
    """Yield all moves from this state."""
    if state.flow.gone:
        return
    for member in family(sight, state):
        of_child = f"{member.name}: " if member.state.parent is not None else ""
        for mover in MOVERS:
            for name, after in mover(member.sight, member.state):
                together = member.put(after)
                yield of_child + name, restart(together) if together.crashed else together
    yield from restarting(sight, state)
    yield from passing(sight, state)


def spend(sight: Sight, state: State, event: str) -> State | None:
    """Return the state with one less of this in the budget; None if nothing is left."""
    rare = sight.configuration.rare
    if event not in rare:
        return None
    at = rare.index(event)
    count = state.budget[at]
    if not count:
        return None
    return replace(state, budget=(*state.budget[:at], count - 1, *state.budget[at + 1 :]))


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
    if (paid := spend(sight, state, "crash")) is not None:
        yield from _crashes(sight, paid, plan)
    if (paid := spend(sight, state, "lost answer")) is not None:
        yield from _lost_answers(sight, paid, plan)


def _crashes(sight: Sight, state: State, plan: Plan) -> Iterator[Move]:
    if plan.actions:
        half = apply_plan(sight, state, plan, Part(writes=False))
        yield "the controller acts and crashes before it writes its status", _crash(half)
    if plan.status != state.known.status.value:
        half = apply_plan(sight, state, plan, Part(acts=False))
        yield "the controller writes its status and crashes before it acts", _crash(half)


def _crash(state: State) -> State:
    return replace(state, crashed=True)


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
    """The controller crashes before a plan, or after one."""
    if (paid := spend(sight, state, "crash")) is not None:
        yield "the controller starts again", restart(paid)


def passing(sight: Sight, state: State) -> Iterator[Move]:
    """Let time pass until the controller plans again; if it has something to do, or for longer,
    only with budget."""
    seconds = wait_of(sight, state)
    if seconds is not None and all(m.sight.idles(m.state) for m in family(sight, state)):
        yield f"{seconds} seconds pass", replace(state, now=state.now + seconds)
    if (paid := spend(sight, state, "late")) is not None:
        yield f"{LATE} seconds pass", replace(paid, now=paid.now + LATE)


def wait_of(sight: Sight, state: State) -> int | None:
    """Return the seconds until the controller plans one of the flows again, at least 1."""
    waits = [m.sight.plan(m.state).requeue_after for m in family(sight, state)]
    seconds = [-int(-wait.total_seconds() // 1) for wait in waits if wait is not None]
    return max(1, min(seconds)) if seconds else None


def watching(sight: Sight, state: State) -> Iterator[Move]:
    """The next event arrives. Events of vcjobs are in order; other kinds have their own watches,
    which show the current object."""
    if state.events:
        event, *later = state.events
        job = seen(state.job(event.uid), event.phases, gone=event.gone)
        yield (
            f"the watch shows {_describe(job, event)}",
            replace_job(replace(state, events=tuple(later)), job),
        )
    if state.known != state.flow:
        yield "the watch shows the flow", replace(state, known=state.flow)
    if state.known_commands != state.commands:
        yield "the watch shows the Commands", replace(state, known_commands=state.commands)


def _describe(job: Vcjob, event: Event) -> str:
    return f"{job.name} {'gone' if event.gone else job.phases[event.phases - 1][0]}"


def probing(sight: Sight, state: State) -> Iterator[Move]:
    """Let a running vcjob pass a probe of the plan."""
    for probe in sight.plan(state).wants:
        if not isinstance(probe, JobProbe):
            continue
        job = state.job(probe.uid)
        if job.phase == "Running" and not job.gone and probe.key not in dict(state.answers):
            passed = _answered(state, probe.key, ProbeResult(passed=True))
            yield f"{job.name} answers the probe of {probe.step}", passed


def answering(sight: Sight, state: State) -> Iterator[Move]:
    """Let the outside answer the attempts without vcjobs of the plan: a failure with budget."""
    for want in sight.plan(state).wants:
        kind = KINDS.get(sight.configuration.steps[want.key[0]].kind_of(None))
        answer = None if kind is None else kind.answer
        if answer is None or want.key in dict(state.answers):
            continue
        name = "/".join(want.key)
        yield f"{name} is answered", _answered(state, want.key, answer(Script()))
        if (paid := spend(sight, state, "fail")) is not None:
            failure = answer(Script(end="Failed"))
            yield f"{name} is answered by a failure", _answered(paid, want.key, failure)


def _answered(state: State, key: WantKey, answer: Any) -> State:
    return replace(state, answers=state.answers | {(key, answer)})


def running(sight: Sight, state: State) -> Iterator[Move]:
    """Let Volcano move a vcjob; one that is being aborted may end by itself."""
    if len(state.events) >= LAG:
        return
    now = state.now if sight.configuration.times_jobs else 0
    for job in state.jobs:
        if job.gone or job.ended or job.child is not None:
            continue
        if job.phase == "Pending":
            yield f"{job.name} runs", move_job(state, job, "Running", now)
        if job.phase == "Running":
            yield f"{job.name} completes", move_job(state, job, "Completed", now)
            if (paid := spend(sight, state, "fail")) is not None:
                yield f"{job.name} fails", move_job(paid, job, "Failed", now)
            if (paid := spend(sight, state, "evict")) is not None:
                yield f"a pod of {job.name} is evicted", move_job(paid, job, "Terminated", now)
        if job.asked and job.phase in CAN_BE_ABORTED:
            yield f"Volcano begins to abort {job.name}", move_job(state, job, "Aborting", now)
        if job.phase == "Aborting":
            yield f"{job.name} is aborted", move_job(state, job, "Aborted", now)


def ordering(sight: Sight, state: State) -> Iterator[Move]:
    """A user creates a Command that makes sense in this state."""
    for name, action in COMMANDS.items():
        if (paid := spend(sight, state, name)) is None:
            continue
        count = paid.budget[sight.configuration.rare.index(name)]
        for message in _messages(sight, state, name):
            command = Command(f"{action.lower()}-{count}", action, message)
            after = replace(paid, commands=(*paid.commands, command))
            yield f"somebody asks to {name} {message}".rstrip(), after


def _messages(sight: Sight, state: State, name: str) -> Iterator[str]:
    """Yield the messages with which a Command makes sense."""
    status = state.flow.status.value
    phase = status.state.phase
    match name:
        case "approve" | "reject":
            yield from islice(find_open_approvals(sight, status), 1)
        case "scale" if state.parent is None and not state.flow.final:
            yield from ("1", "2")
            yield from (f"{s.name}=2" for s in sight.configuration.steps.values() if s.for_each)
        case "cancel step" | "skip step" | "retry step" if state.parent is None:
            yield from _find_places(sight, state, _MAKES_SENSE[name])
        case "retry" if phase != "Failed":
            return
        case "retry tolerated" if phase not in ("Failed", "Succeed"):
            return
        case "resume" if status.suspended_at is None:
            return
        case "suspend" | "suspend and abort" | "cancel" | "retry" | "retry tolerated" | "resume":
            yield ""


_MAKES_SENSE: dict[str, Callable[[RunCondition], bool]] = {
    "cancel step": lambda run: run.phase not in ENDED_STEP_PHASES,
    "skip step": lambda run: run.phase != StepPhase.COMPLETED,
    "retry step": lambda run: run.phase in ENDED_STEP_PHASES,
}
"""In which state of a step or an item a Command on it makes sense."""


def _find_places(
    sight: Sight, state: State, makes_sense: Callable[[RunCondition], bool]
) -> Iterator[str]:
    """Yield the paths of the steps and items, also in child flows, that are in such a state."""
    conditions = state.flow.status.value.conditions or {}
    for name, step in sight.configuration.steps.items():
        condition = conditions.get(f"{sight.flow_name}-{name}")
        if condition is None or step.approval is not None:
            continue
        if makes_sense(condition):
            yield name
        for run in condition.runs or () if step.for_each else ():
            if makes_sense(run):
                yield f"{name}/{run.index}"
    for job in state.jobs:
        if job.child is not None and job.seen and not job.gone:
            place = f"{job.step}/{job.index}".rstrip("/")
            inside = _find_places(sight.of_child(job), job.child, makes_sense)
            yield from (f"{place}/{path}" for path in inside)


def find_open_approvals(sight: Sight, status: JobFlowStatus) -> Iterator[str]:
    """Yield the steps and items that wait for approval, as a Command names them."""
    for key, condition in (status.conditions or {}).items():
        for run in condition.runs or (condition,):
            if run.reason == StepReason.WAITING_FOR_APPROVAL:
                index = "" if run.index is None else f"/{run.index}"
                yield key.removeprefix(f"{sight.flow_name}-") + index


def deleting(sight: Sight, state: State) -> Iterator[Move]:
    """A user deletes a vcjob, a child flow that has ended, or the flow, which a finalizer keeps."""
    if (paid := spend(sight, state, "delete job")) is not None:
        for job in state.jobs:
            if not job.gone and (job.child is None or job.ended):
                yield f"somebody deletes {job.name}", delete_job(paid, job)
    paid = spend(sight, state, "delete flow")
    if paid is not None and not state.flow.terminating and state.parent is None:
        yield (
            "somebody deletes the flow",
            replace(paid, flow=replace(paid.flow, terminating=True)),
        )


def editing(sight: Sight, state: State) -> Iterator[Move]:
    """A user removes the labels, annotations and owner references of a vcjob or child flow that the
    status knows."""
    if (paid := spend(sight, state, "edit")) is not None:
        known = sight.known_uids(state.flow)
        for job in state.jobs:
            if not job.gone and not job.edited and job.uid in known:
                edited = replace_job(paid, replace(job, edited=True))
                yield f"somebody removes the metadata of {job.name}", edited


def templating(sight: Sight, state: State) -> Iterator[Move]:
    """A user deletes a template, or creates it again."""
    for name in sorted(state.missing):
        yield f"template {name} is back", replace(state, missing=state.missing - {name})
    paid = spend(sight, state, "template")
    if paid is not None:
        for name in sight.configuration.world.templates:
            if name not in state.missing:
                yield f"template {name} goes", replace(paid, missing=state.missing | {name})


def losing(sight: Sight, state: State) -> Iterator[Move]:
    """A user deletes the flow that is reused, which an annotation on it allows."""
    paid = spend(sight, state, "delete source")
    if paid is not None and not state.source_gone:
        yield "somebody deletes the flow that is reused", replace(paid, source_gone=True)


def sharing(sight: Sight, state: State) -> Iterator[Move]:
    """The other flow of the concurrency group ends, or another one takes the place. The controller
    gives it to one flow at a time, so it is free only while ours neither holds nor takes it."""
    if state.busy:
        yield "the other flow ends", replace(state, busy=False, cancelled_at=None)
        return
    held = sight.configuration.holds_place(state.flow)
    paid = spend(sight, state, "busy")
    if paid is not None and not held and state.known == state.flow:
        yield "another flow takes the place", replace(paid, busy=True)


MOVERS: tuple[Callable[[Sight, State], Iterator[Move]], ...] = (
    planning,
    watching,
    probing,
    answering,
    running,
    ordering,
    deleting,
    editing,
    templating,
    losing,
    sharing,
)
"""The moves of each flow of a family."""
