"""Flows in a sandbox of this process that can never finish, because nobody applies, approves or
resumes anything there."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.names import format_job_name, stored_condition
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_command, join_names
from jobflow.kube.cache import Key

_IDLE = frozenset({"", StepReason.STOPPED})
"""Reasons of a Waiting step that do not go away by themselves."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is besides a flow."""

    templates: Collection[Key]
    """The applied JobTemplates."""
    blocked: Mapping[Key, str] = field(default_factory=dict)
    """The vcjobs no pod of which starts, and why."""
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """The child flows, by name."""


@dataclass(slots=True)
class _Waits:
    """What the unfinished steps of a flow wait for."""

    templates: dict[str, None] = field(default_factory=dict)
    approvals: list[str] = field(default_factory=list)
    pods: dict[str, str] = field(default_factory=dict)
    """A clause on why the job or child flow of a step never ends, by step."""


def stuck_reason(flow: JobFlow, found: Found) -> str:
    """Return why an unfinished flow can never finish, or ""."""
    if flow.status.suspended_at is not None:
        # jobs that still run end first, and are shown
        idle_phases = (*ENDED_STEP_PHASES, StepPhase.WAITING)
        conditions = (flow.status.conditions or {}).values()
        if any(condition.phase not in idle_phases for condition in conditions):
            return ""
        resume = format_command("jobflow resume", flow.metadata)
        way_out = f"remove suspend to run it here, or resume it on a cluster with {resume}"
        return f"is suspended (spec.suspend): {way_out}"
    waits = _Waits()
    for step in flow.all_steps:
        condition = stored_condition(flow, step.name)
        if condition is None:
            return ""
        if condition.phase not in ENDED_STEP_PHASES and not _note(
            waits, flow, step, condition, found
        ):
            return ""
    if waits.templates:
        plural, pronoun = ("s", "them") if len(waits.templates) > 1 else ("", "it")
        names = ", ".join(waits.templates)
        return f"waits for the JobTemplate{plural} {names}: add {pronoun} to the FILEs"
    if waits.pods:
        step_name, clause = next(iter(waits.pods.items()))
        return f"waits for {step_name}, {clause}"
    if waits.approvals:
        return (
            f"waits for the approval of {join_names(waits.approvals)}, which nobody can give "
            "here: set approval.timeout and approval.default, or run it on a cluster or in "
            "`jobflow sandbox`"
        )
    return ""


def _note(waits: _Waits, flow: JobFlow, step: Step, condition: StepCondition, found: Found) -> bool:
    """Note what an unfinished step waits for; return False if that may come by itself."""
    if condition.phase != StepPhase.WAITING:
        # a daemon ends once the steps that are judged here have ended
        if step.daemon and found.blocked:
            return True
        reasons = [*_clauses(flow, step, condition, found)]
        limits = (step.timeout, step.queue_timeout, flow.spec.timeout)
        if any(limits) or not reasons or not all(reasons):
            return False
        waits.pods[step.name] = reasons[0]
        return True
    if step.approval is not None and condition.reason == StepReason.WAITING_FOR_APPROVAL:
        waits.approvals.append(step.name)
        return step.approval.timeout is None
    if condition.reason == StepReason.WAITING_FOR_TEMPLATE:
        template = step.template_for(step.case_of(condition.decisions))
        if template is None or (flow.metadata.namespace, template) in found.templates:
            return False
        waits.templates[template] = None
        return True
    # pods that do not start keep their room
    return condition.reason in _IDLE or (
        condition.reason == StepReason.PARALLELISM and bool(found.blocked)
    )


def _clauses(flow: JobFlow, step: Step, condition: StepCondition, found: Found) -> Iterator[str]:
    """Yield a clause on why the job or child flow of each run that has started never ends; "" if
    it may."""
    for run in condition.runs or (condition,):
        if run.phase in ENDED_STEP_PHASES or run.phase == StepPhase.WAITING:
            continue
        meta, child = flow.metadata, found.children.get(run.flow)
        if child is not None:
            reason = stuck_reason(child, found)
            yield reason and f"which {reason}"
        else:
            job = run.job or format_job_name(meta.name, step.name)
            why = found.blocked.get((meta.namespace, job))
            yield f"whose pods cannot start: {why}; add it to the FILEs" if why else ""
