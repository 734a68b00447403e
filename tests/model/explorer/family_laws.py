"""The laws of a flow and its child flows. A law yields a message for each violation."""

from collections.abc import Iterator

from jobflow.api.flow.status import ENDED_STEP_PHASES, HALTS, RunCondition
from jobflow.api.volcano.command import RETRIES
from jobflow.core.planning.actions import CommandFlow, CreateJob
from model.books import FLOW_ERRORS
from model.explorer.families import Member, family
from model.explorer.sight import Sight
from model.explorer.states import State, Vcjob
from model.explorer.statuses import Status

Broken = Iterator[str]


def condition_of(sight: Sight, status: Status, job: Vcjob) -> RunCondition | None:
    """The condition of the run of a vcjob or child flow."""
    condition = (status.value.conditions or {}).get(f"{sight.flow_name}-{job.step}")
    if condition is None or not job.index:
        return condition
    return next((run for run in condition.runs or () if str(run.index) == job.index), None)


def nothing_starts_below_a_suspension(sight: Sight, state: State) -> Broken:
    """A suspension of a flow reaches all flows below it, unless they are being ended."""
    above = state.parent
    if above is None or above.final or above.status.value.suspended_at is None:
        return
    if state.known.status.value.state.reason in HALTS:
        return
    for action in sight.plan(state).actions:
        if isinstance(action, CreateJob):
            yield f"{action.name} is created in a child of a suspended flow"


def child_flows_are_retried_with_their_parent(sight: Sight, state: State) -> Broken:
    """A child flow that has ended runs again only once for each retry of the outermost flow, before
    its step has ended."""
    status = state.known.status.value
    for action in sight.plan(state).actions:
        if not isinstance(action, CommandFlow) or action.action not in RETRIES:
            continue
        job = state.job(action.uid)
        assert job.child is not None
        run = condition_of(sight, state.known.status, job)
        if not job.child.known.final or job.child.known.status.value.retries >= status.retries:
            yield f"{action.name} is retried, and has not ended before the retry"
        if state.known.final or run is None or run.phase in ENDED_STEP_PHASES:
            yield f"{action.name} is retried after the end of its step"
        if status.suspended_at is not None and sight.plan(state).status.suspended_at is not None:
            yield f"{action.name} is retried in a suspended flow"
    for job in state.jobs:
        if job.child is not None and job.child.round > state.round:
            yield f"{job.name} runs again, and its parent does not"


def child_flows_agree_with_their_parent(sight: Sight, state: State) -> Broken:
    """When the controller has seen and done everything, the status of a flow says how its child
    flows are, and a child flow is suspended, resumed and cancelled with its parent."""
    if not all(map(_rests, family(sight, state))):
        return
    for job in state.jobs:
        if job.child is None or job.gone:
            continue
        run = condition_of(sight, state.flow.status, job)
        if run is None or run.flow != job.name:
            if not job.child.flow.final:
                yield f"{job.name} goes on, and its parent has forgotten it"
            continue
        yield from _ends_differ(job, job.child, run)
        if not job.child.flow.final:
            yield from _is_not_reached(sight, state, job, job.child, run)


def an_error_of_a_flow_itself_fails_it(sight: Sight, state: State) -> Broken:
    """Whatever may fail in a flow: it does not succeed if a step of it, or of a flow below it,
    failed by an error of the flow itself."""
    if state.flow.status.value.state.phase != "Succeed":
        return
    for member in family(sight, state):
        for key, condition in (member.state.flow.status.value.conditions or {}).items():
            for run in condition.runs or (condition,):
                if run.phase == "Failed" and run.reason in FLOW_ERRORS:
                    yield f"{key} failed, {run.reason}, and the flow succeeded"


def _rests(member: Member) -> bool:
    state = member.state
    return (
        not state.events
        and state.known == state.flow
        and not state.commands
        and not state.known_commands
        and member.sight.idles(state)
    )


def _ends_differ(job: Vcjob, child: State, run: RunCondition) -> Broken:
    phase = child.flow.status.value.state.phase
    is_failed = run.phase in ("Failed", "Waiting", "Skipped")
    expected = "Succeed" if run.phase == "Completed" else "Failed" if is_failed else ""
    is_past = run.attempts == run.past_attempts and child.flow.final
    if (phase if child.flow.final else "") != expected and not is_past:
        yield f"{job.name} is {phase}, and its run is {run.phase} ({run.reason})"


def _is_not_reached(
    sight: Sight, state: State, job: Vcjob, child: State, run: RunCondition
) -> Broken:
    above, below = state.flow.status.value, child.flow.status.value
    ending = below.state.reason in HALTS
    if above.suspended_at is not None and not ending and below.suspended_at is None:
        yield f"{job.name} goes on, and its parent is suspended"
    if above.suspended_at is None and below.suspended_by.startswith("parent/"):
        yield f"{job.name} is not resumed with its parent"
    ends = above.state.reason in HALTS and job.step not in sight.configuration.last
    if (ends or above.finally_cancelled or run.abort_time is not None) and not ending:
        yield f"{job.name} is not cancelled with its parent"
