"""The API server and Volcano: the effects of requests on a state, in full or in part. It follows
`controller/apply/apply.py`. No decisions are made here."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from jobflow.api import labels
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.core.planning.actions import (
    AbortJob,
    Action,
    CancelFlow,
    CommandFlow,
    CreateClaim,
    CreateJob,
    DeleteCommand,
    DeleteFlow,
    DeleteJob,
    MoveClaim,
    Plan,
    ReadJob,
    ReadPods,
)
from model.explorer.families import with_child
from model.explorer.sight import Sight
from model.explorer.states import Command, Event, Flow, State, Vcjob

GOES_BACK = frozenset({CommandAction.RETRY_STEPS, CommandAction.SKIP_STEP})
"""The Commands on steps after which steps run that had ended."""
CAN_BE_ABORTED = frozenset({"Pending", "Running"})


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a plan that is applied."""

    acts: bool = True
    writes: bool = True
    """Whether the status is sent."""
    act_answers: bool = True
    """Whether the answers to the actions arrive."""
    write_answer: bool = True
    stored: bool = True
    """Whether a status that is sent is stored."""


def apply_plan(sight: Sight, state: State, plan: Plan, part: Part) -> State:
    """Return the state after this part of a plan was applied."""
    base = state.known
    if part.acts and state.known != state.flow and any(map(_is_guarded, plan.actions)):
        return replace(state, known=state.flow)
    if part.acts:
        for action in plan.actions:
            state = _ACTIONS[type(action)](sight, state, action, part.act_answers)
    if part.writes and plan.status != base.status.value:
        state = _store(sight, state, plan, base, part)
    return _without_notes(state) if base.final else state


def restart(state: State) -> State:
    """Return the state after another process, which lists everything, has taken over."""
    jobs = tuple(
        replace(
            job,
            seen=0 if job.gone else len(job.phases),
            seen_gone=job.gone,
            child=None if job.child is None else restart(job.child),
        )
        for job in state.jobs
    )
    state = replace(
        state,
        known=state.flow,
        known_commands=state.commands,
        events=(),
        jobs=jobs,
        crashed=False,
    )
    return _without_notes(state)


def move_job(state: State, job: Vcjob, phase: str, now: int) -> State:
    """Return the state after a vcjob enters a phase, with its event on the way."""
    after = replace(job, phases=(*job.phases, (phase, now)))
    return replace_job(state, after, Event(job.uid, len(after.phases)))


def delete_job(state: State, job: Vcjob) -> State:
    """Return the state after a vcjob is deleted, with its event on the way."""
    records = state.flow.status.value.job_status_list or ()
    stored = job.ended and any((r.name, r.state) == (job.name, job.phase) for r in records)
    return replace_job(
        state, replace(job, gone=True, lost=not stored), Event(job.uid, len(job.phases), gone=True)
    )


def replace_job(state: State, job: Vcjob, event: Event | None = None) -> State:
    """Return the state with this version of a vcjob."""
    jobs = tuple(job if other.uid == job.uid else other for other in state.jobs)
    return replace(state, jobs=jobs, events=(*state.events, event) if event else state.events)


def seen(job: Vcjob, phases: int, *, gone: bool) -> Vcjob:
    """Return the vcjob after the controller has received this version, unless it has a newer
    one."""
    return replace(job, seen=max(job.seen, phases), seen_gone=job.seen_gone or gone)


def _create(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Create the vcjob, unless one of this name exists."""
    assert isinstance(action, CreateJob)
    if action.guard is not None and (latest := _existing(state, action.guard.gone)) is not None:
        if not latest.edited or latest.uid in sight.known_uids(state.known):
            return _learn(state, latest)
    job = _existing(state, action.name)
    if job is None:
        job = _new(sight, state, action)
        jobs = tuple(sorted((*state.jobs, job), key=lambda job: job.uid))
        state = replace(state, jobs=jobs, events=(*state.events, Event(job.uid, 1)))
    return _learn(state, job) if answered else state


def _new(sight: Sight, state: State, action: CreateJob) -> Vcjob:
    metadata = action.manifest["metadata"]
    earlier = sum(job.name == action.name for job in state.jobs)
    return Vcjob(
        name=action.name,
        step=action.step,
        index=(metadata.get("annotations") or {}).get(labels.INDEX, ""),
        attempt=int(metadata["labels"].get(labels.ATTEMPT, "1")),
        uid=f"{action.name}#{earlier}",
        manifest=sight.manifest(action),
        phases=(("Pending", state.now if sight.configuration.times_jobs else 0),),
        round=state.round,
        child=State(()) if action.kind is WorkKind.FLOW else None,
    )


def _create_claim(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Create or move the claim, or find that the flow has it."""
    assert isinstance(action, CreateClaim | MoveClaim)
    known = state.known_claims | ({action.name} if answered else set())
    return replace(state, claims=state.claims | {action.name}, known_claims=known)


def _cancel_flow(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Ask the other flow to end, which it does in `moves`."""
    assert isinstance(action, CancelFlow)
    return replace(state, cancelled_at=state.now) if answered else state


def _delete(sight: Sight, state: State, action: Action, answered: bool) -> State:
    assert isinstance(action, DeleteJob)
    job = state.job(action.uid)
    return state if job.gone else delete_job(state, job)


def _abort(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Request an abort; Volcano reacts in `moves`."""
    assert isinstance(action, AbortJob)
    job = state.job(action.uid)
    if not job.gone and not job.ended:
        state = replace_job(state, replace(job, asked=True))
    return _remember(state, action.uid) if answered else state


def _command_child(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Create the Command on a child flow, unless there is one of its name."""
    assert isinstance(action, CommandFlow)
    job = state.job(action.uid)
    assert job.child is not None
    name = f"{action.name}-{action.action.lower()}"
    if not job.gone and all(command.name != name for command in job.child.commands):
        command = Command(name, action.action, number=_unused(name, job.child))
        child = replace(job.child, commands=(*job.child.commands, command))
        state = with_child(state, job, child)
    return _remember(state, action.key) if answered else state


def _unused(name: str, child: State) -> int:
    """Return the first number that gives a Command of this name a UID that nobody remembers."""
    remembered = {command.uid for command in child.known_commands}
    for flow in (child.flow, child.known):
        remembered.update(flow.status.value.handled_commands or ())
    number = 0
    while Command(name, "", number=number).uid in remembered:
        number += 1
    return number


def _remember(state: State, key: str) -> State:
    """Return the state after the controller has noted when it sent a Command."""
    return replace(state, aborts=tuple(sorted({**dict(state.aborts), key: state.now}.items())))


def _delete_command(sight: Sight, state: State, action: Action, answered: bool) -> State:
    assert isinstance(action, DeleteCommand)
    remaining = tuple(command for command in state.commands if command.uid != action.uid)
    return replace(state, commands=remaining)


def _delete_flow(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Delete the flow if it has not changed since the plan."""
    if state.flow != state.known:
        return replace(state, known=state.flow)
    return replace(state, flow=replace(state.flow, gone=True))


def _read_job(sight: Sight, state: State, action: Action, answered: bool) -> State:
    """Read the flow, then the vcjob."""
    assert isinstance(action, ReadJob)
    if not answered:
        return state
    state = replace(state, known=state.flow)
    job = _existing(state, action.name)
    if job is not None:
        return _learn(state, job)
    return replace(state, not_found=state.not_found | {action.name})


def _read(sight: Sight, state: State, action: Action, answered: bool) -> State:
    assert isinstance(action, ReadPods)
    return replace_job(state, replace(state.job(action.uid), read=True)) if answered else state


_ACTIONS: dict[type[Action], Callable[[Sight, State, Action, bool], State]] = {
    CreateJob: _create,
    CreateClaim: _create_claim,
    MoveClaim: _create_claim,
    CancelFlow: _cancel_flow,
    DeleteJob: _delete,
    AbortJob: _abort,
    CommandFlow: _command_child,
    DeleteCommand: _delete_command,
    DeleteFlow: _delete_flow,
    ReadJob: _read_job,
    ReadPods: _read,
}


def _is_guarded(action: Action) -> bool:
    return isinstance(action, CreateJob) and action.guard is not None


def _existing(state: State, name: str) -> Vcjob | None:
    return next((job for job in state.jobs if job.name == name and not job.gone), None)


def _learn(state: State, job: Vcjob) -> State:
    """Return the state after the controller received this vcjob or child flow as an answer."""
    job = seen(job, len(job.phases), gone=False)
    if job.child is not None:
        job = replace(job, child=replace(job.child, known=job.child.flow))
    state = replace_job(state, job)
    return replace(state, not_found=state.not_found - {job.name})


def _store(sight: Sight, state: State, plan: Plan, base: Flow, part: Part) -> State:
    """Store the status if the flow has not changed since the plan; else read the flow."""
    if base != state.flow:
        return replace(state, known=state.flow)
    if not part.stored:
        return state
    flow = replace(state.flow, status=sight.statuses.of(plan.status))
    again = base.final and not flow.final or _goes_back(base, flow)
    return replace(
        state,
        flow=flow,
        known=flow if part.write_answer else state.known,
        round=state.round + again,
    )


def _goes_back(before: Flow, after: Flow) -> bool:
    """Whether a Command on steps has taken effect that lets steps run which had ended."""
    return not (_orders(after.status.value) <= _orders(before.status.value))


def _orders(status: JobFlowStatus) -> set[object]:
    """Return what users have said about steps that had ended, in this flow and in those below."""
    own = status.by_hand or ()
    handed = status.handed_down or ()
    return {(o.step, o.time) for o in own if o.action in GOES_BACK} | {
        h.number for h in handed if h.action in GOES_BACK
    }


def _without_notes(state: State) -> State:
    """Return the state without the notes about a flow that has ended."""
    jobs = tuple(replace(job, read=False) if job.read else job for job in state.jobs)
    return replace(
        state,
        jobs=jobs,
        not_found=frozenset(),
        aborts=(),
        answers=frozenset(),
        known_claims=frozenset(),
        cancelled_at=None,
    )
