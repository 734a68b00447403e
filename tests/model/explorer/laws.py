"""The laws of every state and of every move. A law yields a message for each violation."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache, lru_cache

import jsonschema_rs
import msgspec

from jobflow.api import labels
from jobflow.api.crd import openapi_schema
from jobflow.api.flow.control import to_number
from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    HALTS,
    JobFlowStatus,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import RETRIES
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.api.volcano.job import ENDED_PHASES, JobPhase
from jobflow.core.planning.actions import (
    CancelFlow,
    CommandFlow,
    CreateJob,
    DeleteCommand,
    DeleteFlow,
    DeleteJob,
    MoveClaim,
)
from jobflow.core.reasons import HELD_UP, FlowReason, StepReason
from model.carrying import mounted_by
from model.explorer.cluster import GOES_BACK
from model.explorer.configurations import DISRUPTIONS
from model.explorer.family_laws import (
    an_error_of_a_flow_itself_fails_it,
    child_flows_agree_with_their_parent,
    child_flows_are_retried_with_their_parent,
    condition_of,
    nothing_starts_below_a_suspension,
)
from model.explorer.going_back import (
    nothing_stays_behind_what_runs_again,
    what_has_ended_stays_ended,
)
from model.explorer.sight import Sight
from model.explorer.states import State, Vcjob
from model.explorer.statuses import Status
from model.readiness import required_condition

Broken = Iterator[str]

_STEP_PHASES = {*StepPhase, *JobPhase}
_STEP_REASONS = {"", *StepReason}
_FLOW_REASONS = {"", *FlowReason, *HELD_UP}


def no_plan_asks_for_itself(sight: Sight, state: State) -> Broken:
    """A plan that asks for a plan at once, or for one that will have nothing to do either, occupies
    the process without end: one such flow stops all others."""
    plan = sight.plan(state)
    after = plan.requeue_after
    if after is None:
        return
    if after <= timedelta(0):
        yield f"the plan asks for another plan after {after}"
    elif sight.idles(state):
        later = sight.plan(state, after=-int(-after.total_seconds() // 1))
        if not later.actions and later.status == state.known.status.value:
            yield f"nothing is to be done, and nothing after {after}, for which the plan asks"


def nothing_outlives_its_flow(sight: Sight, state: State) -> Broken:
    """A vcjob whose create arrived after the end of its flow must be deleted, because nobody
    else stops it."""
    if state.events or state.known != state.flow or not state.flow.final or not sight.idles(state):
        return
    named = {record.name for record in state.flow.status.value.job_status_list or ()}
    for job in state.jobs:
        if job.alive and job.child is None and job.name not in named:
            yield f"{job.name} goes on after the end of its flow"


def nothing_starts_that_is_to_end(sight: Sight, state: State) -> Broken:
    """A job that starts in a flow that has ended, or is suspended, cancelled or deleted, wastes
    machines and delays the end of the flow."""
    known = state.known
    status = known.status.value
    for action in sight.plan(state).actions:
        if not isinstance(action, CreateJob):
            continue
        if known.final or known.terminating:
            yield f"{action.name} is created in a flow that is over or being deleted"
        if status.suspended_at is not None and sight.plan(state).status.suspended_at is not None:
            yield f"{action.name} is created in a suspended flow"
        last = action.step in sight.configuration.last
        if status.state.reason in HALTS and not last:
            yield f"{action.name} is created although the flow is {status.state.reason}"


def one_flow_has_the_place(sight: Sight, state: State) -> Broken:
    """What needs a place runs only while its flow holds it, and everybody knows that it does from
    its status alone."""
    if not sight.configuration.shares:
        return
    status, steps = state.known.status.value, sight.configuration.steps
    has_places = {place.job for place in status.places or ()}
    for action in sight.plan(state).actions:
        if isinstance(action, CreateJob) and not sight.configuration.steps_share:
            if status.start_time is None:
                yield f"{action.name} is created before it is stored that the flow has its place"
        elif isinstance(action, CreateJob) and steps[action.step].concurrency is not None:
            if action.name not in has_places:
                yield f"{action.name} is created before it is stored that it has its place"
        if isinstance(action, CancelFlow) and status.state.reason != FlowReason.CONCURRENCY:
            yield f"{action.name} is cancelled before it is stored why"
    if state.busy and sight.configuration.holds_place(state.flow):
        yield "two flows hold the one place"
    flows = [state, *(job.child for job in state.beside if job.child is not None)]
    if sum(bool(p.job) for each in flows for p in each.flow.status.value.places or ()) > 1:
        yield "two jobs hold the one place"
    jobs = [job for each in flows for job in each.jobs if steps[job.step].concurrency is not None]
    if sum(job.alive for job in jobs) > 1:
        yield "two jobs run in the one place"


def claims_come_before_jobs(sight: Sight, state: State) -> Broken:
    """The pods of a vcjob whose claim does not exist would wait for it without end."""
    for action in sight.plan(state).actions:
        if isinstance(action, CreateJob) and action.kind is not WorkKind.FLOW:
            for name in mounted_by(dict(action.manifest["spec"])) - state.claims:
                yield f"{action.name} is created before its claim {name}"


def claims_move_before_anything_else(sight: Sight, state: State) -> Broken:
    """A result that is taken, or a job, could be about another claim."""
    known = state.known.status.value
    reuse = known.reuse
    for action in sight.plan(state).actions:
        if isinstance(action, MoveClaim) and (reuse is None or not reuse.moving_claims):
            yield f"{action.name} moves before that is stored"
    began = [c for c in (known.conditions or {}).values() if c.attempts]
    if reuse is not None and reuse.moving_claims and (began or state.jobs):
        yield "the flow has begun before its claims have moved"


def nothing_starts_unapproved(sight: Sight, state: State) -> Broken:
    """A job behind an approval is created only once the answer is stored, so that nobody can deny
    it later."""
    conditions = state.known.status.value.conditions or {}
    for action in sight.plan(state).actions:
        if not isinstance(action, CreateJob):
            continue
        step = sight.configuration.steps[action.step]
        for target in step.targets:
            condition = conditions.get(f"{sight.flow_name}-{target}", StepCondition())
            index = action.manifest["metadata"]["labels"].get(labels.INDEX)
            of_item = [run for run in condition.runs or () if str(run.index) == index]
            answered = of_item[0] if step.matches_items and of_item else condition
            approval = sight.configuration.steps[target].approval
            if approval is not None and answered.phase != StepPhase.COMPLETED:
                yield f"{action.name} is created, and {target} is not approved in the status"


def results_are_stored_before_what_follows(sight: Sight, state: State) -> Broken:
    """Nothing but the status shows that a result is reused: another process may decide otherwise
    after a crash, and the job that was created meanwhile would be made of something else."""
    conditions = state.known.status.value.conditions or {}
    ran = {job.step for job in state.jobs}
    for action in sight.plan(state).actions if sight.configuration.world.source else ():
        if not isinstance(action, CreateJob):
            continue
        step = sight.configuration.steps[action.step]
        phases = {
            target: conditions.get(f"{sight.flow_name}-{target}", StepCondition()).phase
            for target in step.targets
        }
        is_any = step.depends_on is not None and step.depends_on.strategy == "any"
        if is_any and not ENDED_STEP_PHASES.isdisjoint(phases.values()):
            continue  # it is made of those that have ended
        for target, phase in phases.items():
            if phase not in ENDED_STEP_PHASES and target not in ran:
                yield f"{action.name} is created before the result of {target} is stored"


def what_is_made_of_what_ran_ran(sight: Sight, state: State) -> Broken:
    """A reused result that is made of a job of this flow would be that of another one."""
    conditions = state.flow.status.value.conditions or {}
    ran = {job.step for job in state.jobs if _has_run(job)}
    for name, step in sight.configuration.steps.items():
        condition = conditions.get(f"{sight.flow_name}-{name}", StepCondition())
        runs = [run for run in condition.runs or (condition,) if run.reason == StepReason.REUSED]
        for target in ran.intersection(step.targets) if runs else ():
            yield f"{name} is reused, and its target {target} ran"


def _has_run(job: Vcjob) -> bool:
    return job.child is None or any(map(_has_run, job.child.jobs))


def only_what_is_recorded_is_deleted(sight: Sight, state: State) -> Broken:
    """The status is the only memory: the next process does not know the reason of a deletion, or of
    the cancel of a child flow, that was not stored."""
    status = state.known.status.value
    for action in sight.plan(state).actions:
        if isinstance(action, CommandFlow) and action.action not in RETRIES:
            if not may_be_deleted(sight, state, state.job(action.uid)):
                yield f"{action.name} is cancelled, and the status does not say why"
        if isinstance(action, DeleteJob) and not may_be_deleted(
            sight, state, state.job(action.uid)
        ):
            yield f"{action.name} is deleted, and the status does not say why"
        if isinstance(action, DeleteCommand) and action.uid not in (status.handled_commands or ()):
            yield f"Command {action.name} is deleted, and the status does not say what it did"
        if isinstance(action, DeleteFlow) and not state.known.final:
            yield "the flow is deleted before its end is stored"


def may_be_deleted(sight: Sight, state: State, job: Vcjob) -> bool:
    status = state.known.status.value
    seen = job.phases[job.seen - 1][0]
    records = {record.name: record.state for record in status.job_status_list or ()}
    if seen in ENDED_PHASES and job.child is None:
        return records.get(job.name) == seen
    if state.known.final and job.name not in records:
        return True  # its create arrived after the end
    aborting = sight.configuration.world.flow.spec.failure_policy == "Abort"
    condition = condition_of(sight, state.known.status, job)
    recorded = condition is not None and condition.abort_time is not None
    return recorded or aborting or status.state.reason in HALTS


def the_status_is_well_formed(sight: Sight, state: State) -> Broken:
    """The API server refuses a status that its schema does not allow, and readers of a status know
    no other words."""
    yield from _faults(state.flow.status)


@lru_cache(10_000)
def _faults(status: Status) -> tuple[str, ...]:
    errors = _schema().iter_errors(msgspec.to_builtins(status.value))
    return (*(error.message for error in errors), *_unknown_words(status.value))


def _unknown_words(value: JobFlowStatus) -> Broken:
    if value.state.reason not in _FLOW_REASONS:
        yield f"{value.state.reason!r} is no reason of a flow"
    for key, condition in (value.conditions or {}).items():
        for entry in (condition, *(condition.runs or ())):
            if entry.phase not in _STEP_PHASES or entry.reason not in _STEP_REASONS:
                yield f"{key} is {entry.phase!r} for {entry.reason!r}"


@cache
def _schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(openapi_schema("JobFlow")["properties"]["status"])


def no_daemon_ends_that_is_needed(sight: Sight, state: State) -> Broken:
    """A daemon is not ended while a step that has not ended needs it to run."""
    conditions = sight.plan(state).status.conditions or {}
    steps = sight.configuration.steps.values()
    for daemon in filter(lambda step: step.daemon, steps):
        ending = conditions.get(f"{sight.flow_name}-{daemon.name}", StepCondition())
        if ending.reason != StepReason.DAEMON_ENDED or ending.phase in ENDED_STEP_PHASES:
            continue
        for step in steps:
            is_used = daemon.name in step.targets and required_condition(step, daemon) == "Running"
            condition = conditions.get(f"{sight.flow_name}-{step.name}", StepCondition())
            if is_used and condition.phase not in ENDED_STEP_PHASES:
                yield f"{daemon.name} is ended, and {step.name} needs it"


def nothing_runs_twice(sight: Sight, before: State, after: State) -> Broken:
    """A second job beside the first corrupts what both write; one more after the end
    wastes hours of machines. A vcjob that was deleted before its end was stored may run again."""
    known = {job.uid for job in before.jobs}
    for job in after.jobs:
        if job.uid in known:
            continue
        condition = condition_of(sight, before.flow.status, job)
        if condition is not None and condition.phase in ENDED_STEP_PHASES:
            yield f"{job.name} is made, and its run is stored as {condition.phase}"
        others = [other for other in after.jobs if other.run == job.run and other.uid != job.uid]
        for other in others:
            if other.alive:
                yield f"{job.name} is made while {other.name} is {other.phase}"
            if other.phase == "Completed" and _counts(sight, other, job, after):
                yield f"{job.name} is made, and {other.name} had completed"
        failed = sum(
            other.phase == "Failed" and _counts(sight, other, job, after) for other in others
        )
        retry = sight.configuration.steps[job.step].retry
        limit = (to_number(retry.limit) or 0) if retry is not None else 0
        evicted = sum(
            other.phase == "Terminated" and _counts(sight, other, job, after) for other in others
        )
        failed += max(evicted - DISRUPTIONS, 0)
        if failed > limit:
            yield f"{job.name} is made after {failed} failures, with a retry limit of {limit}"


def _counts(sight: Sight, earlier: Vcjob, job: Vcjob, state: State) -> bool:
    """Whether the end of an earlier vcjob of the run still counts when another one is created: a
    retry of the flow repeats failed steps and all that depends on them, `finally`, daemons, child
    flows and repeats, and a retry of steps what it names."""
    step = sight.configuration.steps[job.step]
    behind = any(other.step in step.targets and other.round == job.round for other in state.jobs)
    goes_back = step.daemon or step.repeat or step.flow or job.step in sight.configuration.last
    named = {job.step, "/".join(job.run)}
    orders = state.flow.status.value.by_hand or ()
    is_named = any(each.step in named and each.action in GOES_BACK for each in orders)
    keeps = not (behind or goes_back or is_named) and earlier.phase == "Completed"
    return (earlier.round == job.round or keeps) and not earlier.lost


def nothing_is_lost(sight: Sight, before: State, after: State) -> Broken:
    """When a flow ends, its status has the end of every vcjob and, for every run, that of its last
    vcjob, unless it ran again without one: dependants and users have no other source. A vcjob whose
    create got no answer, and that no watch has shown, cannot be known."""
    if before.flow.final or not after.flow.final:
        return
    records = {r.name: r.state for r in after.flow.status.value.job_status_list or ()}
    known = {job.uid for job in before.jobs if job.seen or job.gone}
    latest = {job.run: job for job in sorted(after.jobs, key=lambda job: job.attempt)}
    for job in after.jobs:
        if job.alive and job.uid in known:
            yield f"the flow ends while {job.name} is {job.phase}"
        if not job.ended or job.lost or job.uid not in known:
            continue
        is_recorded = job.round == after.round or not sight.configuration.shares
        if job.child is None and is_recorded and records.get(job.name) != job.phase:
            yield f"{job.name} ended {job.phase}, and the status says {records.get(job.name)}"
        daemon = sight.configuration.steps[job.step].daemon
        if latest[job.run] is not job or job.phase not in ("Completed", "Failed") or daemon:
            continue
        condition = condition_of(sight, after.flow.status, job)
        if condition is not None and condition.attempts == condition.past_attempts:
            continue  # it was to run again
        by_hand = condition is not None and condition.reason == StepReason.SKIPPED_BY_USER
        expected = "Skipped" if by_hand and job.phase == "Failed" else job.phase
        if condition is None or condition.phase != expected:
            phase = condition.phase if condition is not None else "not there"
            yield f"{job.name} ended {job.phase}, and its run is {phase}"


def final_stays_final(sight: Sight, before: State, after: State) -> Broken:
    """Users rely on the end of a flow; only a retry continues it, and one that has succeeded only a
    retry of tolerated failures, or what a user does to one of its steps."""
    was, now = before.flow.status.value.state.phase, after.flow.status.value.state.phase
    retries = GOES_BACK | (RETRIES if was == "Failed" else {CommandAction.RETRY_TOLERATED})
    is_retried = any(command.action in retries for command in before.known_commands)
    if before.parent is not None:
        handed = before.parent.status.value.handed_down or ()
        is_retried |= any(each.action in GOES_BACK for each in handed)
    if before.flow.final and was != now and not is_retried:
        yield f"the flow was {was} and is {now}"


OF_A_STATE: tuple[Callable[[Sight, State], Broken], ...] = (
    no_plan_asks_for_itself,
    nothing_outlives_its_flow,
    nothing_starts_that_is_to_end,
    nothing_starts_unapproved,
    results_are_stored_before_what_follows,
    what_is_made_of_what_ran_ran,
    claims_come_before_jobs,
    claims_move_before_anything_else,
    one_flow_has_the_place,
    only_what_is_recorded_is_deleted,
    the_status_is_well_formed,
    nothing_starts_below_a_suspension,
    child_flows_are_retried_with_their_parent,
    child_flows_agree_with_their_parent,
    an_error_of_a_flow_itself_fails_it,
    no_daemon_ends_that_is_needed,
)
OF_A_MOVE: tuple[Callable[[Sight, State, State], Broken], ...] = (
    nothing_runs_twice,
    nothing_is_lost,
    final_stays_final,
    nothing_stays_behind_what_runs_again,
    what_has_ended_stays_ended,
)
