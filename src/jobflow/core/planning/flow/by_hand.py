"""Steps by hand: Commands that name single steps and items by their paths from the outermost flow.

What a Command says about a step of this flow is stored in `byHand`, and decides about the step from
the next plan on. For a step of a child flow it is stored in `handedDown`, until the child flow,
which reads it there as it reads a suspension, has stored it itself. So each acts once, wherever a
process stops.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.by_hand import ByHand, HandedDown
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import ENDS_STEPS, Action
from jobflow.api.volcano.job import JobPhase
from jobflow.core.names import format_place
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.restart import (
    Again,
    ByHandScope,
    find_runs_again,
    kept_orders,
    reset,
    restarted,
)
from jobflow.core.planning.observed.children import may_take_over
from jobflow.core.planning.observed.failed_attempts import keep_newest
from jobflow.core.planning.observed.steps import has_begun
from jobflow.core.planning.observed.view import View
from jobflow.core.reasons import FlowReason, StepReason, ordered
from jobflow.core.spec.items import get_items
from jobflow.core.spec.step_commands import (
    MOST,
    THE_FLOW,
    ApprovalKey,
    Place,
    StepCommand,
    parse_key,
)
from jobflow.core.text import join_names
from jobflow.core.work import is_asked

_WAITING = api.StepCondition(phase=api.StepPhase.WAITING)
_DONE: Mapping[str, tuple[str, str]] = {
    Action.CANCEL_STEP: ("StepCancelled", "cancelled"),
    Action.SKIP_STEP: ("StepSkipped", "skipped"),
    Action.RETRY_STEPS: ("StepRetried", "retried"),
    Action.SCALE_FLOW: ("FlowScaled", "scaled"),
}
"""The reason and the verb of the Event of each action."""
ConditionOf = Callable[[str], api.StepCondition | None]
"""Returns the condition of a step by its name."""


def event_of(said: StepCommand) -> Event:
    """Return the Event of a Command that takes effect."""
    reason, verb = _DONE[said.action]
    by = f" by {said.by}" if said.by else ""
    comment = f": {said.comment}" if said.comment else ""
    if said.parallelism is not None:
        where = f"step {said.paths[0]}" if said.paths[0] else "the flow"
        return Event(
            EventType.NORMAL, reason, f"{where}: at most {said.parallelism} at once{by}{comment}"
        )
    steps = f"step{'' if len(said.paths) == 1 else 's'} {join_names(said.paths)}"
    return Event(EventType.NORMAL, reason, f"{steps}: {verb}{by}{comment}")


def refuse_flow(flow: JobFlow, action: str) -> str:
    """Return why no step of the flow can be the subject of a Command, or ""."""
    state = flow.status.state
    if flow.final and action in (Action.CANCEL_STEP, Action.SCALE_FLOW):
        return f"the flow has ended ({state.phase})"
    if state.reason == FlowReason.INVALID:
        return "the flow is invalid: delete it, correct it and apply it again"
    return ""


def why_it_ends(flow: JobFlow) -> str:
    """Return why the flow is being ended, by its status, or ""."""
    state = flow.status.state
    return state.message if state.reason in api.HALTS and not flow.final else ""


def is_settled(run: api.RunCondition, action: str) -> bool:
    """Return whether an item stays as it is if a Command names its whole step."""
    if action == Action.SKIP_STEP:
        return not may_be_skipped(run)
    return run.phase in api.ENDED_STEP_PHASES


def may_be_skipped(run: api.RunCondition) -> bool:
    """Return whether a user may skip a run, by its condition."""
    if run.phase == api.StepPhase.SKIPPED:
        return run.reason in (StepReason.UPSTREAM_FAILED, StepReason.STOPPED)
    return run.phase != api.StepPhase.COMPLETED


def refuse(
    flow: JobFlow, said: StepCommand, place: Place, find: ConditionOf, *, ends: str = ""
) -> str:
    """Return why a Command makes no sense for a place in the flow as it is now, or "". `ends`: why
    the flow is being ended, or ""."""
    key, action = place.key, said.action
    if not key.step:  # the flow itself
        daemons = [each.name for each in flow.steps if each.daemon]
        if said.parallelism is None or said.parallelism > len(daemons):
            return ""
        names = join_names(daemons)
        return f"the flow has daemons ({names}), which need room beside them: set more than that"
    step = next(each for each in flow.all_steps if each.name == key.step)
    in_finally = step in (flow.spec.finally_ or ())
    if ends and not (in_finally and action in ENDS_STEPS):
        return f"the flow ends already, because {ends}"
    known_condition = find(step.name)
    if known_condition is None and flow.final:
        return f"step {key} has never begun, and the flow has ended ({flow.status.state.reason})"
    condition = known_condition or _WAITING
    run: api.RunCondition = condition
    if condition.reason == StepReason.NOT_TARGETED and action != Action.SCALE_FLOW:
        return f"step {key} is not needed: spec.targets names neither it nor what depends on it"
    if key.index is not None:
        if why := missing_item(step, key, condition) or _refuse_index(step, place, condition):
            return why
        known = (run for run in condition.runs or () if run.index == key.index)
        # an item ended with its step, if that was skipped before the item began
        is_over = condition.phase == api.StepPhase.SKIPPED and action in ENDS_STEPS
        run = next(known, condition if is_over and not place.below else _WAITING)
    elif place.below and (step.fan_out is not None or step.repeat is not None):
        return f"step {key} has items: name one of them, such as {key}/0/{place.below}"
    elif step.fan_out is not None and said.outputs is not None:
        return f"step {key} has items: outputs are for one of them, such as {key}/0"
    return _refuse_run(step, said, place, run)


def missing_item(step: Step, key: ApprovalKey, condition: api.StepCondition) -> str:
    """Return why a step with `forEach` has no item of this index, or ""."""
    if step.fan_out is None or key.index is None:
        return ""
    items = get_items(step, condition.decisions)
    if items is not None and key.index < len(items):
        return ""
    count = "no items yet" if items is None else f"{len(items)} items, from 0"
    return f"there is no {key}: step {step.name} has {count}"


def _refuse_index(step: Step, place: Place, condition: api.StepCondition) -> str:
    if step.repeat is None:
        return ""
    last = condition.last_run
    is_under_way = last is not None and last.phase not in api.ENDED_STEP_PHASES
    if place.below and is_under_way and last is not None and last.index == place.key.index:
        return ""
    return f"the runs of step {step.name} belong together: write {step.name}"


def _refuse_run(step: Step, said: StepCommand, place: Place, run: api.RunCondition) -> str:
    key, action = place.key, said.action
    if place.below and not has_begun(run) and run.phase not in api.ENDED_STEP_PHASES:
        inside = "" if place.below == THE_FLOW else f" with {place.below}"
        return f"step {key} has not started, so it has no flow{inside}"
    has_ended = run.phase in api.ENDED_STEP_PHASES
    if action == Action.SCALE_FLOW:
        if key.index is not None and not place.below:
            why = "is one item, and runs no flow, so it has no parallelism"
            return f"{key} {why}: write {step.name}"
        if has_ended:
            return f"step {key} has ended already: it is {run.phase}"
        has_items = step.fan_out is not None or place.below
        return "" if has_items else f"step {key} has no forEach, so it has no parallelism"
    answer = f"step {key} asks for approval: approve or reject it"
    if action == Action.RETRY_STEPS or place.below:
        if action == Action.CANCEL_STEP and has_ended:
            return f"the flow of step {key} has ended already: it is {run.phase}"
        if has_ended or place.below:
            return ""
        return answer if is_asked(step) else _has_not_ended(key, run)
    if is_asked(step):
        return answer
    if action == Action.SKIP_STEP and not may_be_skipped(run):
        why = f" ({run.reason})" if run.reason else ""
        return f"step {key} needs no skip: it is {run.phase}{why}"
    if action == Action.CANCEL_STEP and has_ended:
        return f"step {key} has ended already: it is {run.phase}"
    return ""


def _has_not_ended(key: ApprovalKey, run: api.RunCondition) -> str:
    if run.abort_time is not None:
        return f"step {key} is being ended ({run.reason}): retry it once it has ended"
    ways = "`jobflow cancel FLOW --step` or `jobflow skip` ends it"
    return f"step {key} has not ended: it is {run.phase}; {ways}"


def carried_out(
    flow: JobFlow, view: View, said: StepCommand, places: Sequence[Place], now: datetime
) -> api.JobFlowStatus | str:
    """Return the status that has what a Command says, or why it cannot be."""
    ctx = PlanContext.of(flow, View(), now)
    orders, below, continued = list[ByHand](), dict[str, list[str]](), set[str]()
    named, settled = dict[int, frozenset[int] | None](), dict[int, api.StepCondition]()
    skipped = {key for key, each in ctx.orders.items() if each.action == Action.SKIP_STEP}
    for place in places:
        if said.action == Action.SCALE_FLOW and not place.below:
            orders.append(_order(place.key, said, ctx.second))
            continue
        position, index = ctx.layout.graph.index[place.key.step], place.key.index
        if place.below:
            observed = ctx.observed[position]
            # one that has begun a moment ago is not in the status yet
            known_runs = (run.stored for run in observed.each if run.index == index)
            run = next(known_runs, api.RunCondition())
            child = view.jobs.get(run.job)
            if child is None or view.is_going(child):
                return f"the flow of step {place.key} is gone, or not known yet"
            below.setdefault(run.job, []).append(place.below)
            if run.phase not in api.ENDED_STEP_PHASES:
                continue
            continued.add(run.job)
        else:
            orders.append(_order(place.key, said, ctx.second))
        if said.action == Action.RETRY_STEPS or place.below:
            before = named.get(position, frozenset())
            named[position] = None if index is None or before is None else before | {index}
        elif said.action == Action.SKIP_STEP:
            last = settled.get(position, ctx.observed[position].stored)
            skipped.add(place.key)
            settled[position] = _settled(place.key, last, orders[-1], skipped, ctx)
    status = flow.status
    changed = {p: each for p, each in settled.items() if each != ctx.observed[p].stored}
    if flow.final or named or changed:
        by = f"{said.by or 'somebody'} has {_DONE[said.action][1]} {join_names(said.paths)}"
        scope = ByHandScope(named, settled, frozenset(continued), by, not flow.final)
        if flow.final:
            status = restarted(flow, view, now, status.handled_commands, scope=scope)
        else:
            status, ending = _again_in_running(ctx, view, scope)
            again = replace(said, action=Action.RETRY_STEPS, outputs=None)
            orders = [_order(parse_key(key), again, ctx.second, ending=True) for key in ending] + [
                order for order in orders if order.step not in ending
            ]
    known = {_subject(each): each for each in status.by_hand or ()}
    known |= {_subject(each): each for each in orders}
    if len(known) > MOST:
        return f"users have ended {MOST} steps and items of the flow already: name whole steps"
    number, handed = status.handed_down_count, list(status.handed_down or ())
    for name, paths in below.items():
        number += 1
        handed.append(
            HandedDown(
                number=number,
                flow=name,
                action=said.action,
                message=said.message_for(paths),
                by=said.by,
                outputs=said.outputs,
            )
        )
    return msgspec.structs.replace(
        status,
        by_hand=list(known.values()) or None,
        handed_down=handed or None,
        handed_down_count=number,
    )


def _order(key: ApprovalKey, said: StepCommand, now: datetime, *, ending: bool = False) -> ByHand:
    return ByHand(
        step=str(key),
        action=said.action,
        by=said.by,
        time=now,
        comment=said.comment,
        outputs=said.outputs,
        parallelism=said.parallelism,
        ending=ending,
    )


def _subject(order: ByHand) -> tuple[str, bool]:
    """Return what a later Command replaces: a step may be scaled and then ended."""
    return order.step, order.action == Action.SCALE_FLOW


def _settled(
    key: ApprovalKey,
    last: api.StepCondition,
    order: ByHand,
    skipped: Set[ApprovalKey],
    ctx: PlanContext,
) -> api.StepCondition:
    """Return the condition of a step after the skip of one of its items, or of all. Runs that have
    ended are Skipped at once, the others by the next plans; a step with items is judged again.
    `skipped`: all steps and items that users have skipped so far."""
    position, index = ctx.layout.graph.index[key.step], key.index
    step = ctx.layout.steps[position]
    fields = {
        "phase": api.StepPhase.SKIPPED,
        "reason": StepReason.SKIPPED_BY_USER,
        "message": f"it was {ordered(order)}",
        "outputs": order.outputs,
        "failure": None,
        "last_transition_time": ctx.second,
    }
    # an item named before in this Command may have set `last` back to Waiting
    has_ended = ctx.observed[position].stored.phase in api.ENDED_STEP_PHASES
    judged = {"phase": JobPhase.RUNNING, "reason": "", "message": "", "job": "", "failure": None}
    if has_ended and not last.runs and index is not None:
        items = range(len(get_items(step, last.decisions) or ()))
        if any(ApprovalKey(key.step, item) not in skipped for item in items):
            return msgspec.structs.replace(last, **judged | {"phase": api.StepPhase.WAITING})
    if last.runs is None or last.decisions is None and index is None and not last.runs:
        return msgspec.structs.replace(last, **fields) if has_ended else last
    runs = [
        msgspec.structs.replace(run, **fields)
        if run.phase in api.ENDED_STEP_PHASES and may_be_skipped(run) and index in (None, run.index)
        else run
        for run in last.runs
    ]
    if step.fan_out is None and has_ended:
        return msgspec.structs.replace(last, runs=runs, **fields)
    # a user may have skipped one of too many that failed
    return msgspec.structs.replace(last, runs=runs, **(judged if has_ended else {"reason": ""}))


def _again_in_running(
    ctx: PlanContext, view: View, scope: ByHandScope
) -> tuple[api.JobFlowStatus, set[str]]:
    """Return the status of a flow that runs with what runs again as far as nothing of it is alive,
    and the steps and items of which something is."""
    found = find_runs_again(ctx, view.jobs, scope=scope)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    conditions |= {ctx.layout.keys[p]: each for p, each in scope.settled.items()}
    ending = set[str]()
    for position, again in found.items():
        key, observed = ctx.layout.keys[position], ctx.observed[position]
        last, name = observed.stored, observed.step.name
        has_ended = last.phase in api.ENDED_STEP_PHASES
        runs = last.runs or (last,)
        if not (has_ended or has_begun(last) or any(map(_has_happened, runs))):
            continue
        alive = [
            run for run in runs if run.is_alive and (run is last or run.index not in again.kept)
        ]
        if not again.kept and alive:
            ending.add(name)
        elif has_ended or not again.kept:
            conditions[key] = reset(ctx, position, again, view, scope=scope)
        else:
            ending |= {format_place(name, run.index) for run in alive}
            conditions[key] = _items_again(ctx, position, again, view, scope)
    conditions = {
        key: with_job_as_child(condition, step, ctx)
        for step, (key, condition) in zip(ctx.layout.steps, conditions.items(), strict=True)
    }
    orders = kept_orders(ctx, found)
    status = msgspec.structs.replace(
        ctx.flow.status, conditions=keep_newest(conditions), by_hand=orders
    )
    return status, ending


def _has_happened(run: api.RunCondition) -> bool:
    return has_begun(run) or run.phase in api.ENDED_STEP_PHASES


def _items_again(
    ctx: PlanContext, position: int, again: Again, view: View, scope: ByHandScope
) -> api.StepCondition:
    """Return the condition of a step that has not ended, with the items reset that run again."""
    last = ctx.observed[position].stored
    fresh = {run.index: run for run in reset(ctx, position, again, view, scope=scope).runs or ()}
    runs = [
        run
        if run.index in again.kept or run.is_alive or not _has_happened(run)
        else fresh.get(run.index, api.RunCondition(index=run.index, phase=api.StepPhase.WAITING))
        for run in last.runs or ()
    ]
    return msgspec.structs.replace(last, runs=runs, reason="")


def orders_left(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[ByHand] | None:
    """Return `byHand` after these decisions: without outputs that a step has got, and without what
    is no longer being ended."""
    found = []
    for order in ctx.flow.status.by_hand or ():
        key = parse_key(order.step)
        position = ctx.layout.graph.index.get(key.step)
        condition = api.StepCondition() if position is None else decisions[position].condition
        runs = condition.runs or () if key.index is not None else (condition,)
        run = next((run for run in runs if run.index == key.index), api.RunCondition())
        if order.outputs is not None and run.phase in api.ENDED_STEP_PHASES:
            order = msgspec.structs.replace(order, outputs=None)
        if order.ending and run.attempts == run.past_attempts:
            order = msgspec.structs.replace(order, ending=False)
        found.append(order)
    return found or None


def left_to_take_over(ctx: PlanContext) -> list[HandedDown] | None:
    """Return the entries of `handedDown` that their child flows have not taken over."""
    entries, jobs = ctx.flow.status.handed_down or (), ctx.view.jobs
    left = []
    for entry in entries:
        child = jobs.get(entry.flow)
        if child is not None and may_take_over(child, entry.number, entry.action):
            left.append(entry)
    return left or None
