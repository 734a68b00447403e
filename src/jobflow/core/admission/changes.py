"""The rules of changing and deleting: what of a flow or template that is in use has to stay.

Every refusal says how to do what people want, by commands that this version has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from jobflow.api.flow_status import CANCELLED, ENDED_STEP_PHASES, FlowPhase, StepCondition
from jobflow.api.job import ENDED_PHASES
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.labels import FORCE_DELETE
from jobflow.api.meta import ObjectMeta
from jobflow.core.json_values import encodes_alike, find_differences
from jobflow.core.names import format_job_name
from jobflow.core.text import format_command
from jobflow.core.violations import Reason, Violation, some

_OVER = frozenset(chain(ENDED_STEP_PHASES, ENDED_PHASES))
"""Phases of a step from which nothing more is started; Volcano's own controller leaves a vcjob's
phase in conditions."""

_CHANGED = "this is changed"
_SUSPEND = "spec.suspend"


def spec_stays(old: JobFlow, new: JobFlow) -> Iterator[Violation]:
    """A flow runs as it was created. Metadata, finalizers and status may change."""
    if encodes_alike(old.spec, new.spec):
        return
    first = "" if old.final else f"cancel it ({_cancel(new.metadata)}), then "
    delete = format_command("kubectl delete jf", new.metadata)
    way = f"to run it otherwise, {first}{delete} and apply it again"
    if old.status.state.phase == FlowPhase.FAILED:
        retry = format_command("jobflow retry", new.metadata)
        way += f"; to run what failed once more as it is, {retry}"
    for path, what in _changes(old, new):
        detail = f"{what}, but a flow cannot be changed once it is created; {way}"
        if path == _SUSPEND and not old.final:
            verb = "suspend" if new.spec.suspend else "resume"
            command = format_command(f"jobflow {verb}", new.metadata)
            detail = f"it is read only when a flow is created; {command} does it now"
        yield Violation(path, Reason.FORBIDDEN, None, detail)


def _changes(old: JobFlow, new: JobFlow) -> Iterator[tuple[str, str]]:
    """(path, what happened) of each change; of a step that came or went only that."""
    yield from _changes_of_steps("spec.flows", old.steps, new.steps)
    before, after = old.spec.finally_ or [], new.spec.finally_ or []
    yield from _changes_of_steps("spec.finally", before, after)
    steps = {"flows": None, "finally_": None}
    one, other = (msgspec.structs.replace(spec, **steps) for spec in (old.spec, new.spec))
    yield from ((path, _CHANGED) for path in find_differences("spec", one, other))


def _changes_of_steps(
    path: str, old: Sequence[Step], new: Sequence[Step]
) -> Iterator[tuple[str, str]]:
    before, after = [step.name for step in old], [step.name for step in new]
    if before == after:
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            if not encodes_alike(one, other):
                yield from ((p, _CHANGED) for p in find_differences(f"{path}[{i}]", one, other))
        return
    come = _of_steps(_without(after, before), "new")
    gone = _of_steps(_without(before, after), "gone")
    what = " and ".join(filter(None, (come, gone)))
    yield path, what or "the order of the steps is another"


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    known = frozenset(others)
    return [name for name in names if name not in known]


def _of_steps(names: Sequence[str], what: str) -> str:
    """`steps "a", "b" are new`; nothing where there are none."""
    if not names:
        return ""
    listed = some(f'"{name}"' for name in names)
    return f"steps {listed} are {what}" if len(names) > 1 else f"step {listed} is {what}"


def flow_has_ended(flow: JobFlow, *, namespace_terminating: bool) -> Iterator[Violation]:
    """A flow that has not ended is not deleted by accident (JobFlow document, delete block)."""
    if flow.final or namespace_terminating or _may_go(flow.metadata):
        return
    phase = flow.status.state.phase or FlowPhase.PENDING
    way = f"cancel it ({_cancel(flow.metadata)})"
    if flow.status.state.reason == CANCELLED:
        way = "it was cancelled, so wait for the end of its jobs"
    detail = (
        f"flow {flow.metadata.name} is {phase}: {way} or, to delete it and its jobs anyway, "
        f"{_force('jf', flow.metadata)} and delete it again"
    )
    yield Violation("status.state.phase", Reason.FORBIDDEN, phase, detail)


def template_is_not_needed(
    template: JobTemplate, needed_by: Sequence[Need], *, namespace_terminating: bool
) -> Iterator[Violation]:
    """No flow that still runs has a step to start from it, be it for another attempt."""
    if namespace_terminating or _may_go(template.metadata):
        return
    name = template.metadata.name
    if needed_by:
        users = some(f"flow {need.flow} (step {need.step})" for need in needed_by)
        detail = (
            f"template {name} is still needed by {users}: wait until these have ended or, "
            f"to delete it anyway, {_force('jt', template.metadata)} and delete it again"
        )
        yield Violation("metadata.name", Reason.FORBIDDEN, name, detail)


class Need(NamedTuple):
    """A flow that still needs a template, and the first step that does, by their names."""

    flow: str
    step: str


def need_of(flow: JobFlow, template: str) -> Need | None:
    """The first step of a flow that may yet make a vcjob from the template, for an item, a repeat
    or a retry too; None if no step may. Of a switch that is decided only that case counts."""
    step = _step_to_start(flow, template)
    return None if step is None else Need(flow.metadata.name, step)


def _step_to_start(flow: JobFlow, template: str) -> str | None:
    if flow.final or flow.metadata.deletion_timestamp is not None:
        return None
    conditions = flow.status.conditions or {}
    for step in chain(flow.steps, flow.spec.finally_ or ()):
        if template in step.templates:
            condition = conditions.get(format_job_name(flow.metadata.name, step.name))
            if condition is None:
                return step.name
            if condition.phase not in _OVER and template in _left(step, condition):
                return step.name
    return None


def _left(step: Step, condition: StepCondition) -> list[str]:
    """The templates that a step that is not over may still run."""
    case = step.case_of(condition.decisions)
    return step.templates if case is None else [step.template_for(case)]


def _may_go(metadata: ObjectMeta) -> bool:
    """Being deleted already, or somebody said that it is to be deleted anyway."""
    forced = (metadata.annotations or {}).get(FORCE_DELETE) == "true"
    return forced or metadata.deletion_timestamp is not None


def _cancel(metadata: ObjectMeta) -> str:
    """The command that ends a flow."""
    return format_command("jobflow cancel", metadata)


def _force(kind: str, metadata: ObjectMeta) -> str:
    """The command after which it may be deleted."""
    return format_command(f"kubectl annotate {kind}", metadata, f" {FORCE_DELETE}=true")
