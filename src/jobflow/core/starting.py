"""Whether and how the next vcjob of a step is made, once nothing but the create stands before it.

What an earlier create was answered (refused, or a name in use) decides; so does a template that is
not there yet. Whether the step may start at all was decided before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count

import msgspec

from jobflow.api.flow_status import StepCondition, StepPhase
from jobflow.core.actions import CreateJob, Holder, Refusal
from jobflow.core.build import Attempt, build_job
from jobflow.core.evidence import Evidence
from jobflow.core.expressions import Failure
from jobflow.core.names import job_name
from jobflow.core.pod_names import pod_names
from jobflow.core.reasons import StepReason
from jobflow.core.scene import Decision, Scene, not_before
from jobflow.core.scope import Seen
from jobflow.core.wording import short

UNPROCESSABLE = 422
"""HTTP status of a create that is refused for good."""
NAME_AGAIN = timedelta(seconds=5)
"""How long a name that will become free is left alone, where the answer does not say."""


def first_attempt(evidence: Evidence, scene: Scene, seen: Seen) -> Decision:
    """A step that has not begun, whose patches see `seen`: its vcjob has the name that everybody
    knows beforehand, so that a second create, by whoever did not see the first, changes nothing."""
    return _attempt(evidence, scene, Attempt(evidence.key, seen=seen))


def next_attempt(evidence: Evidence, scene: Scene) -> Decision:
    """A step that has begun: under the next `-r<n>` that nothing was ever called."""
    attempts = evidence.attempts
    room = _pod_suffix(evidence, scene)
    flow, step = scene.flow.metadata.name, evidence.step.name
    names = (job_name(flow, step, run, room=room) for run in count(attempts))
    name = next(name for name in names if name not in scene.taken)
    seen = scene.seen(lambda position: scene.evidence[position].memory)
    return _attempt(evidence, scene, Attempt(name, attempts + 1, seen=seen))


def refused_for_good(evidence: Evidence, scene: Scene) -> Decision | None:
    """Failed, where the create of a step that has not begun was answered by a 422, or by a vcjob
    of that name that is somebody else's; None otherwise."""
    refusal = scene.view.refusals.get(evidence.key)
    if refusal is not None and refusal.code == UNPROCESSABLE:
        return _refused(evidence, scene, refusal)
    holder = scene.view.holders.get(evidence.key)
    if holder is not None and not _goes_away(holder):
        return _conflict(evidence, holder)
    return None


def waiting(
    evidence: Evidence, reason: str, message: str, until: datetime | None = None
) -> StepCondition:
    """The step waits, between two attempts or before the first; what it remembers is kept."""
    memory, attempts, waits = evidence.memory, evidence.attempts, StepPhase.WAITING
    still = memory.phase == waits and memory.reason == reason
    condition = StepCondition(
        phase=waits,
        reason=reason,
        message=short(message),
        job=evidence.job_name if attempts else "",
        attempts=attempts,
        next_attempt_time=until,
        last_transition_time=memory.last_transition_time if still else evidence.now,
        passed_targets=memory.passed_targets,
        requested_hours=memory.requested_hours,
    )
    return memory if memory == condition else condition


def _attempt(evidence: Evidence, scene: Scene, attempt: Attempt) -> Decision:
    name = attempt.name
    template = scene.view.templates.get(evidence.step.template_name)
    if template is None:
        message = f"waits for the JobTemplate {evidence.step.template_name}"
        return Decision(waiting(evidence, StepReason.WAITING_FOR_TEMPLATE, message))
    if (refusal := scene.view.refusals.get(name)) is not None:
        if refusal.code == UNPROCESSABLE or _stands(refusal.retry_at, scene.now):
            return _refused(evidence, scene, refusal)
        condition = _create_refused(evidence, refusal, not_before(refusal.retry_at or scene.now))
    elif (holder := scene.view.holders.get(name)) is not None:
        until = scene.now + NAME_AGAIN if holder.retry_at is None else holder.retry_at
        condition = waiting(evidence, StepReason.NAME_IN_USE, _in_use(holder))
        if scene.now < until:
            return Decision(condition, wake_at=until)
    elif evidence.attempts:
        condition = evidence.memory
    else:
        condition = waiting(evidence, StepReason.STARTING, f"the job {name} is about to be made")
    manifest = build_job(scene.flow, evidence.step, template, attempt)
    if isinstance(manifest, Failure):
        return Decision(_failed(evidence, StepReason.EXPRESSION_ERROR, manifest.message))
    return Decision(condition, CreateJob(evidence.step.name, name, manifest))


def _stands(retry_at: datetime | None, now: datetime) -> bool:
    """Whether a refusal still stands; for ever where it says nothing."""
    return retry_at is None or now < retry_at


def _refused(evidence: Evidence, scene: Scene, refusal: Refusal) -> Decision:
    if refusal.code == UNPROCESSABLE:
        return Decision(_failed(evidence, StepReason.REFUSED, refusal.message))
    retry_at = refusal.retry_at
    until = None if retry_at is None else not_before(retry_at)
    return Decision(_create_refused(evidence, refusal, until), wake_at=retry_at)


def _create_refused(evidence: Evidence, refusal: Refusal, until: datetime | None) -> StepCondition:
    return waiting(evidence, StepReason.CREATE_REFUSED, refusal.message, until)


def _goes_away(holder: Holder) -> bool:
    """Whether the name will become free by itself."""
    return holder.job.metadata.deletion_timestamp is not None or not holder.owner_alive


def _conflict(evidence: Evidence, holder: Holder) -> Decision:
    owner = holder.job.metadata.controller
    whose = f"{owner.kind} {owner.name}" if owner is not None else "no flow"
    message = (
        f"a job named {evidence.key} exists already and belongs to {whose}: "
        "delete it, or give the flow or the step another name"
    )
    return Decision(_failed(evidence, StepReason.NAME_CONFLICT, message))


def _in_use(holder: Holder) -> str:
    return f"waits until the old job {holder.job.metadata.name} is gone"


def _failed(evidence: Evidence, reason: str, message: str) -> StepCondition:
    return msgspec.structs.replace(
        evidence.memory,
        phase=StepPhase.FAILED,
        reason=reason,
        message=short(message),
        next_attempt_time=None,
    )


def _pod_suffix(evidence: Evidence, scene: Scene) -> int:
    """Characters that Volcano will append to the vcjob's name for the longest of its pods' names;
    0 where the template is not there."""
    template = scene.view.templates.get(evidence.step.template_name)
    if template is None:
        return 0
    manifest = build_job(scene.flow, evidence.step, template, Attempt(evidence.key))
    assert not isinstance(manifest, Failure)  # its references stay as they stand
    return len(pod_names(manifest["spec"]).longest)
