"""The laws of moves after which steps run again that had ended."""

from collections.abc import Iterator

from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.core.reasons import StepReason
from model.explorer.cluster import GOES_BACK
from model.explorer.sight import Sight
from model.explorer.states import State

Broken = Iterator[str]

_PASSED_OVER = (StepReason.NOT_TAKEN, StepReason.NOT_TARGETED, StepReason.SKIPPED_BY_USER)


def nothing_stays_behind_what_runs_again(sight: Sight, before: State, after: State) -> Broken:
    """The result of a step that depends on a step that runs again would be that of the old run. One
    that runs is ended first. A daemon that ended with its flow may run again for another step."""
    was, now = before.flow.status.value.conditions or {}, after.flow.status.value.conditions or {}
    if after.round == before.round or not was:
        return
    orders = after.flow.status.value.by_hand or ()
    for name, step in sight.configuration.steps.items():
        key = f"{sight.flow_name}-{name}"
        targets = [f"{sight.flow_name}-{target}" for target in step.targets]
        again = [each for each in targets if now[each].phase == StepPhase.WAITING]
        again = [each for each in again if was[each].reason != StepReason.DAEMON_ENDED]
        is_ending = any(each.step == name and each.ending for each in orders)
        stays = now[key].phase != StepPhase.WAITING and not is_ending
        if again and stays and was[key].reason != StepReason.NOT_TARGETED:
            yield f"{key} stays {now[key].phase}, and {again[0]} runs again"


def what_has_ended_stays_ended(sight: Sight, before: State, after: State) -> Broken:
    """Dependants have started because of it. After a retry or a Command on steps, only what may run
    again does."""
    if before.flow.status is after.flow.status:
        return
    now = after.flow.status.value.conditions or {}
    for key, condition in (before.flow.status.value.conditions or {}).items():
        name, later = key.removeprefix(f"{sight.flow_name}-"), now.get(key, StepCondition())
        found: list[tuple[RunCondition, RunCondition]] = [(condition, later)]
        runs = {run.index: run for run in later.runs or ()}
        found += [(run, runs.get(run.index, RunCondition())) for run in condition.runs or ()]
        for was, is_now in found:
            place = name if was.index is None else f"{name}/{was.index}"
            changes = was.phase in ENDED_STEP_PHASES and is_now.phase != was.phase
            if changes and not _may_change(sight, before, after, name, was):
                yield f"{place} was {was.phase} and is {is_now.phase or 'forgotten'}"
            if is_now.attempts < was.attempts:
                yield f"{place} had {was.attempts} attempts and has {is_now.attempts}"


def _may_change(sight: Sight, before: State, after: State, name: str, was: RunCondition) -> bool:
    """Whether a step that has ended, or an item of it, may run again or be judged again."""
    orders = before.flow.status.value.by_hand or ()
    if any(order.ending and order.step.partition("/")[0] == name for order in orders):
        return True  # with the rest of it, which has been ended for that
    if after.round == before.round:
        return False
    step, now = sight.configuration.steps[name], after.flow.status.value.conditions or {}
    if name in sight.configuration.last and before.flow.final:
        return True
    targets = [now[f"{sight.flow_name}-{target}"] for target in step.targets]
    if was.reason == StepReason.DAEMON_ENDED or any(
        target.phase not in ENDED_STEP_PHASES for target in targets
    ):
        return True
    named = _named(before, after)
    if not named:  # a retry of the flow
        return step.flow is not None or not (
            was.phase == StepPhase.COMPLETED or was.reason in _PASSED_OVER
        )
    if was.index is None and any(place.partition("/")[0] == name for place in named):
        return True
    is_skipped = any(target.reason == StepReason.SKIPPED_BY_USER for target in targets)
    return (
        not named.isdisjoint({name, f"{name}/{was.index}"})
        or was.reason == StepReason.STOPPED
        or (was.reason == StepReason.UPSTREAM_FAILED and is_skipped)
    )


def _named(before: State, after: State) -> set[str]:
    """Return the steps and items that Commands name which have taken effect in this move, or whose
    child flows they name."""
    known = {(order.step, order.time) for order in before.flow.status.value.by_hand or ()}
    orders = after.flow.status.value.by_hand or ()
    new = {order.step for order in orders if (order.step, order.time) not in known}
    numbers = {handed.number for handed in before.flow.status.value.handed_down or ()}
    for handed in after.flow.status.value.handed_down or ():
        if handed.action in GOES_BACK and handed.number not in numbers:
            places = ("/".join(job.run).rstrip("/") for job in after.jobs)
            new |= {p for p, job in zip(places, after.jobs, strict=True) if job.name == handed.flow}
    return new
