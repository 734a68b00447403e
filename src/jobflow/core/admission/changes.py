"""Rules of UPDATE and DELETE for objects in use. A refusal names the commands to use instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import STEP_LISTS, JobFlow, JobTemplate, templates_of
from jobflow.api.flow.status import CANCELLED, ENDED_STEP_PHASES, FlowPhase
from jobflow.api.flow.step import Step
from jobflow.api.labels import FORCE_DELETE
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import ENDED_PHASES
from jobflow.core.admission.applied_nulls import null_places
from jobflow.core.json_values import find_differences, is_same_json
from jobflow.core.names import stored_condition
from jobflow.core.text import format_command, format_count, join_names
from jobflow.core.violations import Reason, Violation

_ENDED = frozenset(chain(ENDED_STEP_PHASES, ENDED_PHASES))
"""Phases of a step that starts no job any more; Volcano's own controller leaves those of vcjobs."""

_CHANGED = "this was changed"
_NULL = "this null was added"
_SUSPEND = "spec.suspend"


def spec_stays(old: JobFlow, new: JobFlow) -> Iterator[Violation]:
    # the spec of a flow is immutable; metadata, finalizers and status may change
    if is_same_json(old.spec, new.spec):
        return
    cancel = "" if old.final else f"cancel it ({_cancel(new.metadata)}), then "
    delete = format_command("kubectl delete jf", new.metadata)
    remedy = f"to run another spec, {cancel}{delete} and apply it again"
    if old.status.state.phase == FlowPhase.FAILED:
        retry = format_command("jobflow retry", new.metadata)
        remedy += f"; to retry the failed steps unchanged, {retry}"
    nulls = frozenset(null_places(new)).difference(null_places(old))
    # a step that was added or removed is a single change of its list
    one, other = (
        msgspec.structs.replace(spec, **dict.fromkeys(STEP_LISTS)) for spec in (old.spec, new.spec)
    )
    changes = chain(
        _changes_of_steps("spec.flows", old.steps, new.steps),
        _changes_of_steps("spec.finally", old.spec.finally_ or (), new.spec.finally_ or ()),
        ((path, _CHANGED) for path in find_differences("spec", one, other)),
    )
    for path, change in changes:
        what = _NULL if path in nulls else change
        detail = f"{what}, but a flow cannot be changed once it is created; {remedy}"
        if path == _SUSPEND and not old.final:
            verb = "suspend" if new.spec.suspend else "resume"
            command = format_command(f"jobflow {verb}", new.metadata)
            detail = f"it is read only when a flow is created; {command} does it now"
        yield Violation(path, Reason.FORBIDDEN, None, detail)


def _changes_of_steps(
    path: str, old: Sequence[Step], new: Sequence[Step]
) -> Iterator[tuple[str, str]]:
    """Yield (path, kind of change)."""
    before, after = [step.name for step in old], [step.name for step in new]
    # steps are told apart by name, so a new one does not change all that follow
    if before == after:
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            if not is_same_json(one, other):
                yield from ((p, _CHANGED) for p in find_differences(f"{path}[{i}]", one, other))
        return
    changes = []
    for names, others, what in ((after, before, "new"), (before, after, "gone")):
        known = frozenset(others)
        named = [f'"{name}"' for name in names if name not in known]
        if named:
            noun, verb = ("steps", "are") if len(named) > 1 else ("step", "is")
            changes.append(f"{noun} {join_names(named)} {verb} {what}")
    yield path, " and ".join(changes) or "the order of the steps was changed"


def flow_has_ended(flow: JobFlow) -> Iterator[Violation]:
    # a flow that has not ended is not deleted by accident
    if flow.final or _may_be_deleted(flow.metadata):
        return
    phase = flow.status.state.phase or FlowPhase.PENDING
    remedy = f"cancel it ({_cancel(flow.metadata)})"
    if flow.status.state.reason == CANCELLED:
        remedy = "it was cancelled, so wait until its jobs have finished"
    owner = flow.metadata.controller if flow.is_child else None
    name = flow.metadata.name
    what = name if owner is None else f"{name}, a child of flow {owner.name},"
    detail = (
        f"flow {what} is {phase}: {remedy} or, to delete it and its jobs anyway, "
        f"{_force('jf', flow.metadata)} and delete it again"
    )
    yield Violation("status.state.phase", Reason.FORBIDDEN, phase, detail)


def flow_is_not_reused(flow: JobFlow, reused_by: Sequence[str]) -> Iterator[Violation]:
    if why := still_reused(flow.metadata, reused_by):
        detail = f"{why} or, to delete it anyway, {_force('jf', flow.metadata)} and delete it again"
        yield Violation("metadata.name", Reason.FORBIDDEN, flow.metadata.name, detail)


def still_reused(flow: ObjectMeta, reused_by: Sequence[str]) -> str:
    """Return which flows need the results of a flow, which therefore neither goes nor changes; ""
    if none does, or if the flow has the annotation that forces it. `reused_by`: the flows that have
    not ended and name it."""
    if not reused_by or _may_be_deleted(flow):
        return ""
    users = join_names(f"flow {name}" for name in sorted(reused_by))
    ended = "it has" if len(reused_by) == 1 else "they have"
    return f"flow {flow.name} is reused by {users}: wait until {ended} ended"


def command_changes_reused(flow: JobFlow, reused_by: Sequence[str]) -> str:
    """Return why a Command on a flow is refused, because others reuse it; "" if none does."""
    # one that runs has no results yet, and a child flow gets the Commands of its parent
    if not flow.final or flow.is_child or not (why := still_reused(flow.metadata, reused_by)):
        return ""
    return f"{why} or, to change it anyway, {_force('jf', flow.metadata)} and try again"


def cron_is_idle(cron: CronJobFlow) -> Iterator[Violation]:
    # a CronJobFlow with flows that have not ended is not deleted by accident: its flows would be
    # deleted with it
    active = cron.status.active or ()
    if not active or _may_be_deleted(cron.metadata):
        return
    name = cron.metadata.name
    count = max(cron.status.active_count or 0, len(active))
    flows = join_names((reference.name for reference in active), total=count)
    detail = (
        f"CronJobFlow {name} has {format_count(count, 'active flow')} ({flows}): suspend it "
        f"({format_command('jobflow suspend', cron.metadata, kind='cjf')}) and wait until they "
        "have finished, or cancel them (`jobflow cancel`); to delete it anyway, "
        f"{_force('cjf', cron.metadata)} and delete it again"
    )
    yield Violation("status.active", Reason.FORBIDDEN, None, detail)


def template_is_not_needed(template: JobTemplate, needed_by: Sequence[Need]) -> Iterator[Violation]:
    # no flow that still runs may create a job from it, not even for another attempt
    if needed_by and not _may_be_deleted(template.metadata):
        name = template.metadata.name
        users = join_names(f"flow {need.flow} (step {need.step})" for need in needed_by)
        detail = (
            f"template {name} is still needed by {users}: wait until they have finished or, "
            f"to delete it anyway, {_force('jt', template.metadata)} and delete it again"
        )
        yield Violation("metadata.name", Reason.FORBIDDEN, name, detail)


class Need(NamedTuple):
    """The names of a flow that still needs a template, and of its first step that does."""

    flow: str
    step: str


def need_of(flow: JobFlow, template: str) -> Need | None:
    """Return the first step of a flow that may still create a vcjob from the template (for an item,
    a repeat or a retry too), or None. If a switch is decided, only the chosen case counts."""
    if flow.final or flow.metadata.deletion_timestamp is not None:
        return None
    for step in flow.all_steps:
        if template in templates_of(step):
            condition = stored_condition(flow, step.name)
            if condition is None:
                return Need(flow.metadata.name, step.name)
            case = step.case_of(condition.decisions)
            # until a switch is decided, any case may run
            may_run = case is None or template == step.template_for(case)
            if may_run and condition.phase not in _ENDED:
                return Need(flow.metadata.name, step.name)
    return None


def _may_be_deleted(metadata: ObjectMeta) -> bool:
    """Whether it is being deleted already, or has the annotation that forces it."""
    forced = (metadata.annotations or {}).get(FORCE_DELETE) == "true"
    return forced or metadata.deletion_timestamp is not None


def _cancel(metadata: ObjectMeta) -> str:
    return format_command("jobflow cancel", metadata)


def _force(kind: str, metadata: ObjectMeta) -> str:
    return format_command(f"kubectl annotate {kind}", metadata, f" {FORCE_DELETE}=true")
