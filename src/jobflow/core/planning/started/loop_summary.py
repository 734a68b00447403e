"""Condition of a step with forEach or repeat, made of the decisions about its runs."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    Decisions,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.volcano.job import JobPhase, TaskState
from jobflow.core.planning.context import with_time
from jobflow.core.planning.decision import StepDecision, collect
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.started.runs import Loop, LoopEnd
from jobflow.core.planning.started.tolerance import say_limit
from jobflow.core.planning.work.end import describe_failed_pods, name_cause
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import WITH_THE_FLOW, StepReason
from jobflow.core.spec.items import name_item, read_bits
from jobflow.core.spec.readiness import is_bad_skip, is_flow_error
from jobflow.core.text import format_count, shorten


def summarize(loop: Loop) -> StepDecision:
    """Return the decision about a step, made of those about its runs."""
    observed, decided = loop.observed, loop.runs
    made = [decision for _, decision in decided]
    moments = [loop.wake_at, *(decision.wake_at for decision in made)]
    known = {run.index or 0: run.stored for run in observed.runs}
    for run, decision in decided:
        known[run.index or 0] = with_time(decision.condition, run.stored, observed.now)
    # only runs are stored that have begun, or ended before they began
    stored = [known[index] for index in sorted(known)]
    runs = [run for run in stored if run.attempts or run.phase in ENDED_STEP_PHASES]
    condition = _condition(loop, [decision.condition for decision in made], runs)
    return StepDecision(
        condition=observed.stored if condition == observed.stored else condition,
        actions=collect(made, "actions"),
        drafts=collect(made, "drafts"),
        wake_at=min((at for at in moments if at is not None), default=None),
        urgent=loop.stores_first or any(d.urgent for d in made),
        reads=collect(made, "reads"),
        wants=collect(made, "wants"),
        unjudged=frozenset(collect(made, "unjudged")),
    )


def _condition(
    loop: Loop, conditions: Sequence[RunCondition], runs: list[RunCondition]
) -> StepCondition:
    observed = loop.observed
    stored = observed.stored
    # the stored list itself shows that nothing has changed
    if runs == (stored.runs or []):
        runs = stored.runs or []
    attempts = sum(run.attempts for run in runs)
    counts = _counts(observed, runs)
    if loop.verdict is not None:
        fields = _ended(loop, loop.verdict, runs)
        if fields["phase"] == StepPhase.COMPLETED:
            fields.setdefault("message", describe_failed_pods(counts))
        # a retry of the flow may leave runs that the step does not have any more; they stay in the
        # status, because they keep the number of their attempts
        most = loop.total if observed.step.repeat is None else len(loop.decided)
        message = "it ran before the flow was retried, and is not needed any more"
        runs = [
            run
            if not run.is_left_over or (run.index or 0) < most
            else msgspec.structs.replace(
                run, phase=StepPhase.SKIPPED, reason=StepReason.NOT_TAKEN, message=message
            )
            for run in runs
        ]
    elif attempts <= stored.past_attempts or not conditions:
        fields = _at_first(loop, conditions)
    elif observed.step.for_each is not None:
        fields = _items(loop, conditions)
    else:
        fields = _repeat(loop, conditions)
    outcome = loop.outcome
    if loop.verdict is None and outcome is not None and outcome.reason and not outcome.is_past:
        fields |= {"reason": outcome.reason, "message": shorten(outcome.message)}
    if stored.passed_targets is not None and attempts <= stored.past_attempts:
        fields["passed_targets"] = stored.passed_targets
    created = (run.create_time for run in runs if run.create_time is not None)
    fields.setdefault("create_time", stored.create_time or min(created, default=None))
    hours = stored.requested_hours
    for run, decision in loop.decided.values():
        before, after = run.stored.requested_hours, decision.condition.requested_hours
        # the sum of a step with a thousand items is not made anew in each plan
        if after is not before and after != before:
            hours = replace_hours(hours, before, after)
    condition = observed.new_condition(
        runs=runs or None,
        attempts=attempts,
        last_transition_time=stored.last_transition_time,
        task_status_count=counts,
        requested_hours=hours,
        **fields,
    )
    if not loop.taken:
        return condition
    decided = stored.decisions or Decisions()
    taken = f"{read_bits(decided.taken) | loop.taken:x}"
    decided = msgspec.structs.replace(decided, taken=taken)
    return msgspec.structs.replace(condition, decisions=decided)


def _at_first(loop: Loop, conditions: Sequence[RunCondition]) -> dict[str, Any]:
    starting = [c for c in conditions if c.phase == StepPhase.WAITING]
    if not starting and (waits := _waits_for(loop)):
        return {"phase": StepPhase.WAITING, "message": shorten(f"waits for {waits}")}
    first = next((c for c in starting if c.reason != StepReason.STARTING), None)
    if first is not None:
        return _as_waiting_run(loop.observed, first)
    noun = loop.observed.work.noun
    message = f"{format_count(len(starting), noun)} are being created"
    if not starting:
        message = "its conditions are being looked at"
        return {"phase": StepPhase.WAITING, "reason": StepReason.STARTING, "message": message}
    message = message if len(starting) > 1 else "".join(c.message for c in starting)
    return {"phase": StepPhase.WAITING, "reason": StepReason.STARTING, "message": message}


def _items(loop: Loop, conditions: Sequence[RunCondition]) -> dict[str, Any]:
    """A forEach is Running while it has a job or creates one."""
    waiting = [c for c in conditions if c.phase == StepPhase.WAITING]
    with_job = [c for c in conditions if c.phase not in (StepPhase.WAITING, *ENDED_STEP_PHASES)]
    held_up = next((c for c in waiting if c.reason != StepReason.STARTING), None)
    running = len(with_job)
    ended = len(conditions) - running - len(waiting)
    starting = any(c.reason == StepReason.STARTING for c in waiting)
    if held_up is not None and not running and not starting:
        return _as_waiting_run(loop.observed, held_up)
    message = f"{ended} of {format_count(loop.total, 'item')} have ended"
    message += f", {running} under way" if running else ""
    if loop.not_started and loop.starts_no_more:
        message += f", {loop.not_started} will not start"
    if waits := _waits_for(loop):
        message += f"; item {loop.first_waiting} waits for {waits}"
    if held_up is not None:
        message += f"; {_name(loop.observed, held_up)}: {held_up.message}"
    all_aborted = bool(with_job) and all(c.abort_time is not None for c in with_job)
    return {
        "phase": JobPhase.RUNNING,
        "reason": with_job[0].reason if all_aborted else "",
        "message": shorten(message),
    }


def _waits_for(loop: Loop) -> str:
    """Return what the first item waits for that waits for an item of a target, or ""."""
    index = loop.first_waiting
    return "" if index is None or loop.states is None else loop.states.message(index)


def _repeat(loop: Loop, conditions: Sequence[RunCondition]) -> dict[str, Any]:
    last, noun = conditions[-1], loop.observed.work.noun
    if loop.next_at is not None:
        repeat = loop.observed.step.repeat
        pause = repeat.pause if repeat is not None else ""
        return {
            "phase": StepPhase.WAITING,
            "reason": StepReason.REPEATING,
            "message": f"runs again after a pause of {pause}: the {noun} {last.job} has completed",
            "next_attempt_time": loop.next_at,
        }
    if last.phase in ENDED_STEP_PHASES:
        message = f"the {noun} {last.job} has ended, and the next one follows"
        return {"phase": StepPhase.WAITING, "reason": StepReason.STARTING, "message": message}
    return {
        "phase": last.phase,
        "reason": last.reason,
        "message": last.message,
        "create_time": last.create_time,
        "running_duration": last.running_duration,
        "job": last.job,
        "next_attempt_time": last.next_attempt_time,
        "failure": last.failure,
    }


def _as_waiting_run(observed: ObservedStep, condition: RunCondition) -> dict[str, Any]:
    item = f"{_name(observed, condition)}: " if observed.step.for_each is not None else ""
    return {
        "phase": StepPhase.WAITING,
        "reason": condition.reason,
        "message": shorten(f"{item}{condition.message}"),
        "next_attempt_time": condition.next_attempt_time,
    }


def _name(observed: ObservedStep, run: RunCondition) -> str:
    return name_item(observed.step, observed.stored.decisions, run.index)


def _ended(loop: Loop, verdict: LoopEnd, runs: Sequence[RunCondition]) -> dict[str, Any]:
    fields: dict[str, Any] = {"phase": StepPhase.COMPLETED}
    failed = [run for run in runs if run.phase == StepPhase.FAILED]
    skipped = [run for run in runs if is_bad_skip(run)]
    completes = verdict.reason in ("", StepReason.NOT_NEEDED)
    none_taken = bool(runs) and all(run.reason == StepReason.NOT_TAKEN for run in runs)
    # if it, or a target, decides for each item, none of them may be taken
    decides = (each := loop.observed.step.for_each) is not None and each.when is not None
    if none_taken and (states := loop.states) is not None:
        decides = decides or all(states.is_passed_over(run.index or 0) for run in runs)
    bad = [] if verdict.reason else _not_tolerated(loop, [*failed, *skipped])
    if verdict.reason == StepReason.TOO_MANY_FAILED and failed:
        fields = _failed(loop, failed, verdict.reason)
    elif not completes:
        fields = {"phase": verdict.phase, "reason": verdict.reason, "message": verdict.message}
        fields |= {"outputs": verdict.outputs} if verdict.outputs else {}
    elif bad and bad[0].phase == StepPhase.FAILED:
        fields = _failed(loop, [run for run in bad if run.phase == StepPhase.FAILED])
    elif runs and all(run.reason == StepReason.SKIPPED_BY_USER for run in runs):
        first = runs[0]
        fields = {"phase": StepPhase.SKIPPED, "reason": first.reason, "message": first.message}
    elif bad or (none_taken and not decides):
        of_targets = (run for run in bad if run.reason == StepReason.UPSTREAM_FAILED)
        first = next(of_targets, next(run for run in runs if run.phase == StepPhase.SKIPPED))
        count = f"{len(bad or runs)} of {format_count(loop.total, 'item')} skipped"
        # a large status drops the message
        skip = ": ".join(filter(None, (_name(loop.observed, first), first.message)))
        not_run = {StepReason.NOT_TAKEN, *(run.reason for run in bad)}
        has_begun = any(run.reason not in not_run for run in runs)
        fields = {
            "phase": StepPhase.FAILED if has_begun else StepPhase.SKIPPED,
            "reason": first.reason,
            "message": shorten(f"{count}; {skip}"),
        }
    elif runs and all(run.reason == StepReason.REUSED for run in runs):
        fields |= {"reason": StepReason.REUSED, "message": runs[0].message}
    elif failed or skipped or verdict.reason:
        left_out = [run for run in runs if run.reason == StepReason.NOT_NEEDED]
        counts = {"failed": failed, "skipped": skipped, "not needed": left_out}
        items = format_count(loop.total, "item")
        parts = [f"{len(some)} of {items} {what}" for what, some in counts.items() if some]
        fields |= {"message": "; ".join(parts)}
    if loop.observed.step.repeat is not None and loop.decided:
        last = loop.decided[max(loop.decided)][1].condition
        fields |= {
            "job": last.job,
            "create_time": last.create_time,
            "running_duration": last.running_duration,
        }
    return fields


def _not_tolerated(loop: Loop, missing: Sequence[RunCondition]) -> list[RunCondition]:
    """Return the runs without which the step does not complete, of those that have failed or were
    skipped."""
    tolerates, states = loop.observed.step.tolerates_items, loop.states
    return [
        run
        for run in missing
        if not (
            tolerates and not is_flow_error(run)
            if run.phase == StepPhase.FAILED
            else states is not None and states.is_tolerated(run.index or 0)
        )
    ]


def _failed(loop: Loop, failed: Sequence[RunCondition], reason: str = "") -> dict[str, Any]:
    """Show the first run that failed by itself, behind the counts."""
    by = next((run for run in failed if run.reason not in WITH_THE_FLOW), failed[0])
    message = by.message  # of a repeat, which names the job
    if (each := loop.observed.step.for_each) is not None:
        items = format_count(loop.total, "item")
        counts = [f"{len(failed)} of {items} failed"] if len(failed) > 1 or reason else []
        counts += [say_limit(each)] if reason else []
        skipped = sum(d.condition.phase == StepPhase.SKIPPED for _, d in loop.decided.values())
        counts += [f"{skipped} of {items} skipped"] if skipped else []
        counts += [f"{loop.not_started} of {items} not started"] if loop.not_started else []
        failure = by.failure if by.reason == StepReason.FLOW_FAILED else None
        item = _name(loop.observed, by)
        # the counts come first, so that they are not cut off
        message = name_cause("; ".join([*counts, item]), by.message, failure)
    return {
        "phase": StepPhase.FAILED,
        "reason": reason or by.reason,
        "message": shorten(message),
        "job": by.job,
        "failure": by.failure,
    }


def _counts(observed: ObservedStep, runs: Sequence[RunCondition]) -> dict[str, TaskState] | None:
    """Return the counts of all items together, or of the last repeat."""
    stored = observed.stored
    if observed.step.repeat is not None:
        # a run from before a retry of the flow shows nothing of now
        begun = (run for run in reversed(runs) if not run.is_left_over)
        return next((run.task_status_count for run in begun), None)
    if runs is stored.runs:
        return stored.task_status_count
    sums: dict[str, dict[str, int]] = {}
    for run in runs:
        for task, state in (run.task_status_count or {}).items():
            into = sums.setdefault(task, {})
            for phase, count in (state.phase or {}).items():
                into[phase] = into.get(phase, 0) + count
    return {task: TaskState(phase=phases) for task, phases in sorted(sums.items())} or None
